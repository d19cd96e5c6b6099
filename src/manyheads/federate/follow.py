"""Submits a job to a study's server, and follows it until it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from manyheads.core.errors import UserError
from manyheads.federate.flower import Flower, need_flower
from manyheads.federate.jobs import Job, Kind, Order, new_job, progress_words
from manyheads.federate.processes import listening
from manyheads.federate.serve import address_of
from manyheads.federate.study import StudyFolder

__all__ = ["followed"]

LOOK, ASK = 0.5, 20.0
"""seconds between looks at the job's file, and between questions to Flower whether the job still runs"""
ENDED = ("finished", "completed", "failed", "stopped")


def followed(folder: StudyFolder, kind: Kind, out: Path, resume: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """The facts of a job's end; an error if it failed. Interrupted, the job is stopped at the server, too."""
    need_flower()
    study = folder.read()
    if not listening(*address_of(study.address)):
        raise UserError(f"no server is at {study.address}", fix=f"start it: manyheads federate server {folder.path}")
    flower = Flower(folder, study)
    flower.configure()
    job = new_job(folder, Order(kind=kind, out=str(out.resolve()), resume=resume))
    number = flower.submit(job.name)
    say(f"{kind} has begun")
    try:
        return _wait(job, flower, number, say)
    except KeyboardInterrupt:
        flower.stop(number)
        raise


def _wait(job: Job, flower: Flower, number: int, say: Callable[[str], None]) -> dict[str, Any]:
    seen, asked, last, ended = 0, time.monotonic(), "", ""
    while True:
        for event in job.events(seen):
            seen += 1
            if event["event"] == "done":
                return {name: value for name, value in event.items() if name not in ("time", "event")}
            if event["event"] == "failed":
                raise UserError(event["error"])
            words = _words(event)
            if words and words != last:
                say(words)
                last = words
        if ended:
            raise UserError(f"the job has ended ({ended})", fix="see server/server.log of the study; --resume goes on")
        if time.monotonic() - asked > ASK:
            asked, ended = time.monotonic(), _ended(flower, number)
        time.sleep(LOOK)


def _words(event: dict[str, Any]) -> str:
    if event["event"] == "say":
        return str(event["words"])
    if event["event"] == "progress":
        return progress_words(event)
    if event["event"] != "round":
        return ""
    missing = "".join(f"; without {site}: {why}" for site, why in event["missing"].items())
    return f"round {event['round']}, {event['sites']} sites{missing}"


def _ended(flower: Flower, number: int) -> str:
    """How Flower has ended the job; empty if it has not. An error if Flower cannot be asked any more."""
    try:
        found = [run for run in flower.runs() if str(run.get("run-id")) == str(number)]
    except UserError as error:
        raise UserError(
            f"the server does not answer any more ({error})", fix="start it again, then go on with --resume"
        ) from None
    state = str(found[0].get("status", "")) if found else "gone"
    return state if state.partition(":")[0] in (*ENDED, "gone") else ""
