"""What stays with a site at the end of a run: a run folder of its own, with its history and states, and its final model."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from manyheads.core.files import sweep
from manyheads.core.history import History
from manyheads.core.rounds import first_state
from manyheads.core.settings import as_dict
from manyheads.core.store import PersonalStore
from manyheads.core.trees import State
from manyheads.data import Federation
from manyheads.federate.study import Study
from manyheads.federate.trial import Trial
from manyheads.onboarding.model_folder import save_personal
from manyheads.onboarding.site_model import site_model
from manyheads.run.about import About
from manyheads.run.config_file import RunConfig
from manyheads.run.directory import RunDirectory
from manyheads.run.load import load

__all__ = ["history_of", "keep_run"]

SITE = "site"
"""the name of the data in the configuration of a site's own run"""


def history_of(client: int, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A run's history as one site sees it: its own values in place of those of all."""
    return [_record_of(client, record) for record in records]


def _record_of(client: int, record: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: record[name] for name in ("round", "seconds", "bytes_up", "bytes_down", "passes") if name in record}
    clients = max(1, record.get("clients", 1))
    own |= {name: own[name] // clients for name in ("bytes_up", "bytes_down") if name in own}
    own |= {"clients": int(client in (record.get("cohort") or ())), "train_loss": None, "dropped": []}
    if record.get("evaluation"):
        own["evaluation"] = _evaluation_of(client, record["evaluation"])
    if "also" in record:
        own["also"] = [_evaluation_of(client, each) for each in record["also"]]
    return own


def _evaluation_of(client: int, found: Mapping[str, Any]) -> dict[str, Any]:
    each = dict(found.get("per_client") or {})
    clients = each.pop("client", [])
    kept = {name: found.get(name) for name in ("protocol", "model", "who", "metrics")}
    kept |= {name: found[name] for name in ("every",) if name in found}
    if client not in clients:
        return {**kept, "clients": 0, **dict.fromkeys(("loss", "accuracy", *(found.get("metrics") or ())))}
    values = {name: column[clients.index(client)] for name, column in each.items()}
    return {
        **kept,
        "clients": 1,
        "loss": None,
        "accuracy": None,
        **values,
        "per_client": {"client": [0]} | {n: [v] for n, v in values.items()},
    }


def keep_run(
    study: Study,
    trial: Trial,
    federation: Federation,
    kept: State,
    server: State,
    records: Sequence[dict[str, Any]],
    run: str,
    folder: Path,
) -> Path:
    """Write the site's own run, and its final model; gives the folder of the model."""
    out, model = folder / "runs" / run, trial.model(federation)
    made = {"data": {"name": SITE, **as_dict(study.reading(""))}, "model": trial.facts["model"]}
    new = out.with_name(f".{run}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    directory = RunDirectory.create(new, RunConfig.of(trial.algorithm, federation, trial.training, made))
    try:
        store = PersonalStore(directory.store_path, trial.training.client_state(trial.algorithm, model.params), 1)
        store.write([0], kept.map(lambda v: v.unsqueeze(0)))
        history = History(directory.history_path, of=directory.settings)
        for record in records:
            history.append(record)
        directory.write_data(federation.encoding, About.of(federation), federation.site_columns)
        whole = first_state(trial.algorithm, model.params, 1) | server
        directory.commit(len(records), whole, store, history)
    finally:
        directory.unlock()
    sweep(new)
    shutil.rmtree(out, ignore_errors=True)
    new.replace(out)
    place = folder / "models" / run
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    save_personal(site_model(load(out), federation.client_name(0), federation), place, exports=())
    return place
