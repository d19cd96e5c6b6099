"""The coordinator's side of a study: what the sites agree on, and training in lockstep, kept as ordinary runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import numpy as np

from manyheads.core.contract import ALGORITHMS
from manyheads.core.errors import Diverged, UserError, first_line
from manyheads.core.files import require_free
from manyheads.core.sealed import read_json, write_json
from manyheads.core.settings import as_dict, build, settings
from manyheads.core.tasks import task_named
from manyheads.data import Federation, Samples
from manyheads.data.sites.columns import Columns, Statistics
from manyheads.data.sites.raw import RawTables
from manyheads.federate.agreement import Agreement, agreed_by
from manyheads.federate.kept import history_of
from manyheads.federate.link import Link
from manyheads.federate.lockstep import InStep, in_lockstep
from manyheads.federate.study import Study
from manyheads.federate.table import Division
from manyheads.federate.told import TableTold, read_statistics
from manyheads.federate.trial import Trial
from manyheads.federate.wire import Message, prefixed
from manyheads.models import MODELS
from manyheads.run.at_sites import AT_SITES, AT_SITES_DATA
from manyheads.run.loop import Loop
from manyheads.run.result import Run
from manyheads.run.simulate import OnRound, begun

__all__ = ["Beginning", "begin", "described", "train"]

BEGINNING = "federation.json"
"""in the folder of a run: what its sites agreed on"""
Facts = dict[str, Any]
T = TypeVar("T")
DivisionOf = Callable[[Study, Mapping[str, TableTold]], Division]
"""how rows are divided, by what the sites tell"""


def described(link: Link) -> tuple[dict[str, TableTold], dict[str, str]]:
    """What each site that is there tells about its table; and why others do not."""
    found = link.ask("describe", {site: Message({}) for site in link.gather()})
    told, strange = _read(found.good, lambda facts: build(TableTold, facts["table"], where="table"))
    missing = {site: "not connected" for site in link.study.sites if site not in told} | found.missing | strange
    return told, missing


def _read(replies: Mapping[str, Message], read: Callable[[Facts], T]) -> tuple[dict[str, T], dict[str, str]]:
    """What sites tell, and what is wrong with what others tell."""
    good, strange = {}, {}
    for site, reply in replies.items():
        try:
            good[site] = read(reply.facts)
        except (UserError, KeyError, TypeError, ValueError, AttributeError) as error:
            strange[site] = f"what it tells cannot be read: {first_line(error)}"
    return good, strange


@settings
class Beginning:
    """What the sites of a run agreed on before its first round."""

    run: str
    """identifies the run at the sites"""
    sites: tuple[str, ...]
    """those that take part, in the order of their numbers"""
    agreement: Agreement
    division: Division
    columns: tuple[Columns, ...]
    """how columns become inputs, for each division of the rows"""
    parts: tuple[tuple[dict[str, Any], ...], ...]
    """sizes of the parts of each of the division's federations, at each site"""
    encoded_by: tuple[int, ...]
    """for each of the federations, the place of its columns"""

    @property
    def common(self) -> Facts:
        """What every message about work needs."""
        table = as_dict(self)
        return {name: table[name] for name in ("sites", "agreement", "division", "columns")}

    def federations(self, study: Study) -> list[Federation]:
        """The federations of the division, with samples of the right number and shape, and no content."""
        return [
            _blank(study, self, [part[number] for part in self.parts], self.columns[place])
            for number, place in enumerate(self.encoded_by)
        ]


def begin(link: Link, division_of: DivisionOf) -> Beginning:
    """Find out who takes part, and agree on columns, classes and scaling, by statistics of training rows."""
    told, missing = described(link)
    for site, why in missing.items():
        link.say(f"{site} does not take part: {why}")
    while True:
        sites = tuple(site for site in link.study.sites if site in told)
        _require(link, sites)
        taking_part = {site: told[site] for site in sites}
        agreement, division = agreed_by(link.study.reading(""), taking_part), division_of(link.study, taking_part)
        facts = {"sites": list(sites), "agreement": as_dict(agreement), "division": as_dict(division)}
        found = link.ask("statistics", {site: Message(facts) for site in sites})
        own, strange = _read(found.good, partial(_Told.of, agreement, division))
        missing = found.missing | strange
        if not missing:
            break
        for site, why in missing.items():
            link.say(f"{site} does not take part: {why}")
            del told[site]
    reading = link.study.reading("")
    tables = RawTables(agreement.survey(reading), reading.scale_target, reading.how)
    columns = tuple(tables.agreed(list(each)) for each in zip(*(own[site].statistics for site in sites), strict=True))
    parts = tuple(own[site].parts for site in sites)
    return Beginning(link.run, sites, agreement, division, columns, parts, own[sites[0]].encoded_by)


class _Told(NamedTuple):
    """What a site tells about the divisions of its rows."""

    statistics: list[Statistics]
    parts: tuple[dict[str, Any], ...]
    encoded_by: tuple[int, ...]

    @classmethod
    def of(cls, agreement: Agreement, division: Division, facts: Facts) -> _Told:
        """Read and check it: the right numbers of columns and parts, and numbers of rows that can be."""
        numbers = sum(kind != "category" for kind in agreement.kinds.values())
        statistics = [read_statistics(each, numbers) for each in facts["statistics"]]
        parts, places = tuple(facts["parts"]), tuple(int(place) for place in facts["encoded_by"])
        if {len(parts), len(places)} != {division.count} or not all(0 <= p < len(statistics) for p in places):
            raise ValueError("not of the divisions that it was asked about")
        for part in parts:
            sizes = [part[name] for name in ("train", "test", "validation")]
            if not all(size is None or (isinstance(size, int) and size >= 0) for size in sizes) or not sizes[0]:
                raise ValueError(f"numbers of rows that cannot be: {sizes}")
        return cls(statistics, parts, places)


def _require(link: Link, sites: Sequence[str]) -> None:
    if len(sites) < link.study.rules.min_sites:
        raise UserError(
            "too few sites can take part", given=len(sites), allowed=f"{link.study.rules.min_sites} or more (min_sites)"
        )


def _blank(study: Study, beginning: Beginning, parts: Sequence[Mapping[str, Any]], columns: Columns) -> Federation:
    """A federation as the server knows it: its numbers of samples, and nothing in them."""
    agreement = beginning.agreement
    outputs = len(agreement.labels) or 1

    def samples(name: str) -> Samples | None:
        sizes = [part[name] for part in parts]
        if None in sizes:
            return None
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        x = np.broadcast_to(np.zeros((), np.float32), (int(offsets[-1]), len(columns.features)))
        return Samples(x, _labels(agreement.task, [part if name == "train" else {} for part in parts], sizes), offsets)

    train, test = samples("train"), samples("test")
    assert train is not None
    assert test is not None
    return Federation(
        name=study.name,
        train=train,
        test=test,
        task=agreement.task,
        outputs=outputs,
        validation=samples("validation"),
        client_names=beginning.sites,
        label_names=agreement.labels,
        columns=columns,
    )


def _labels(task: str, parts: Sequence[Mapping[str, Any]], sizes: Sequence[int]) -> np.ndarray:
    """Labels with the counts that sites have told, in any order; the first class for the rest."""
    if not task_named(task).classes:
        shape = (sum(sizes), 2) if task == "survival" else (sum(sizes),)
        return np.zeros(shape, np.float32)
    rows = [np.zeros(0, np.int64)]
    for part, size in zip(parts, sizes, strict=True):
        counts = [n or 0 for n in part.get("labels") or ()]
        known = np.repeat(np.arange(len(counts)), counts)[:size]
        rows.append(np.concatenate([known, np.zeros(size - len(known), np.int64)]))
    return np.concatenate(rows)


def new_run() -> str:
    return uuid4().hex[:16]


def beginning(
    link_of: Callable[[str], Link], out: Path, resume: bool, division_of: DivisionOf
) -> tuple[Link, Beginning]:
    """What the sites agree on, or agreed on when what is resumed began; and the link to those that take part."""
    file = out / BEGINNING
    if resume and file.is_file():
        kept = build(Beginning, {k: v for k, v in read_json(file).items() if k != "schema"}, where=str(file))
        link = link_of(kept.run)
        link.gather()
    else:
        if not resume:
            require_free(out)  # before any site is asked
        link = link_of(new_run())
        kept = begin(link, division_of)
    return replace(link, study=replace(link.study, sites=kept.sites)), kept


def write_beginning(out: Path, kept: Beginning) -> None:
    if not (out / BEGINNING).is_file():
        write_json(out / BEGINNING, {"schema": 1, **as_dict(kept)}, indent=1)


def train(link_of: Callable[[str], Link], out: Path, resume: bool = False, on_round: OnRound = lambda end: None) -> Run:
    """Train the study's method with its sites, in the folder of a run like any other."""
    link, kept = beginning(link_of, out, resume, lambda study, told: Division(seed=study.training.seed))
    study, federation = link.study, kept.federations(link.study)[0]
    training = replace(study.training, checkpoint_seconds=0.0)
    trial = Trial(built(ALGORITHMS, study.algorithm, "algorithm"), built(MODELS, study.model, "model"), training, 0)
    failed: list[Diverged] = []
    model, made = trial.model(federation), made_of(study)
    with begun(trial.algorithm, model, federation, training, made, out, resume, link.say, AT_SITES) as loop:
        write_beginning(out, kept)
        step = InStep(trial, federation, loop.run(on_round))
        in_lockstep([step], link, kept.common, lambda _, error: failed.append(error))
        if failed:
            raise failed[0]
        _finish(link, kept, trial, loop)
    return loop.result(model)


def made_of(study: Study) -> dict[str, Any]:
    """The settings of data and model in the configuration of a run."""
    spec = built(MODELS, study.model, "model")
    data = {"name": AT_SITES_DATA, **as_dict(study.reading(""))}
    return {"data": data, "model": {"name": spec.name, **as_dict(spec)}}


def _finish(link: Link, kept: Beginning, trial: Trial, loop: Loop) -> None:
    """Let each site keep its final model, and its own part of the history."""
    versions = loop.store.read(range(len(kept.sites))).version
    tensors = prefixed("server/", trial.algorithm.for_models(loop.server))
    messages = {
        site: Message(
            kept.common
            | {"trial": trial.facts, "version": int(versions[number]), "history": history_of(number, loop.history)},
            tensors,
        )
        for number, site in enumerate(kept.sites)
    }
    for site, why in link.ask("finish", messages).missing.items():
        link.say(f"{site} has not kept its final model: {why}")


def built(known: Any, table: Mapping[str, Any], where: str) -> Any:
    values = dict(table)
    return build(known.imported(str(values.pop("name")), where), values, where=where)
