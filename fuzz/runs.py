"""Run directories: gone on with, loaded, reported on, personalized."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

from fuzz.child import Ended
from fuzz.damaged import Damaged, Use, page, printed

__all__ = ["RUNS"]


def _resumed(place: Path, ended: Ended) -> Any:
    """All that a resume gives: the facts, the whole history, the settings."""
    facts = json.loads(ended.out)
    lines = (place / "run" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    history = [{k: v for k, v in json.loads(line).items() if k != "seal"} for line in lines]
    for record in history[:-1]:  # what was once the last round has more than it has if it is done again
        record.pop("also", None)
    config = tomllib.loads((place / "run" / "config.toml").read_text(encoding="utf-8"))
    data = json.loads((place / "run" / "data.json").read_text(encoding="utf-8"))
    return {"facts": facts, "history": history, "config": config, "data": data}


def _load() -> None:
    """Everything that a loaded run offers."""
    import manyheads
    from manyheads.core.errors import UserError
    from manyheads.core.settings import as_dict

    try:
        run = manyheads.load("run")
        facts = {"summary": run.summary(), "history": list(run.history), "encoding": as_dict(run.encoding)}
    except UserError as error:
        raise SystemExit(_said(error)) from None
    print(json.dumps(facts))


def _said(error: Exception) -> int:
    import sys

    print(f"error: {error}", file=sys.stderr)
    return 2


def _personal(place: Path, ended: Ended) -> Any:
    weights = (place / "model" / "model.safetensors").read_bytes()
    return {**json.loads(ended.out), "weights": hashlib.sha256(weights).hexdigest()}


PERSONALIZE = ["personalize", "run", "new.csv", "--out", "model", "--finetune", "head:2", "--curve", "5"]
RUNS = Damaged(
    "runs",
    "run",
    ("clinics", "new.csv"),
    (
        Use(
            "resume",
            ["run", "--resume", "--out", "run", "--rounds", "4", "--json"],
            _resumed,
            writes=True,
            data="clinics",
        ),
        Use("resume as it was", ["run", "--resume", "--out", "run", "--json"], _resumed, writes=True, data="clinics"),
        Use("load", (), printed, act=_load),
        Use("report", ["report", "run", "--json"], page("run")),
        Use("personalize", [*PERSONALIZE, "--export", "none", "--json"], _personal),
    ),
)
