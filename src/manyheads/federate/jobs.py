"""Jobs of a study's server: what is to be done, in a file; and what happens, as JSON lines that others can follow."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from manyheads.core.errors import UserError, first_line
from manyheads.core.files import locked, write_text
from manyheads.core.plain import to_json
from manyheads.core.sealed import read_json, write_json
from manyheads.core.settings import as_dict, build, settings
from manyheads.federate.audit import Audit
from manyheads.federate.link import Carrier, Link
from manyheads.federate.study import StudyFolder

__all__ = ["Job", "Order", "conducted", "new_job", "progress_words", "read_nodes", "write_nodes"]

Kind = Literal["describe", "run", "compare"]
NODES = "nodes.json"
LEAVING = 60.0
"""seconds that an earlier job has to leave its folder"""


@settings
class Order:
    """What a job is to do."""

    kind: Kind
    out: str = ""
    """folder of the results"""
    resume: bool = False


@dataclass(frozen=True)
class Job:
    """One job of a study."""

    folder: StudyFolder
    name: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9A-Za-z-]+", self.name):  # it comes from whoever submits it, and is part of a path
            raise UserError("not a job", given=self.name)

    @property
    def order_file(self) -> Path:
        return self.folder.server / "jobs" / f"{self.name}.json"

    @property
    def events_file(self) -> Path:
        return self.folder.server / "jobs" / f"{self.name}.jsonl"

    def order(self) -> Order:
        found = read_json(self.order_file)
        return build(Order, {k: v for k, v in found.items() if k != "schema"}, where=str(self.order_file))

    def tell(self, event: str, **facts: Any) -> None:
        Audit(self.events_file).write(event, **facts)

    def say(self, words: str) -> None:
        self.tell("say", words=words)

    def events(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """What has happened, from the line ``after`` on; an incomplete last line is left for later."""
        try:
            text = self.events_file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        for line in text.split("\n")[:-1][after:]:
            yield json.loads(line)


def progress_words(event: Mapping[str, Any]) -> str:
    """How far a comparison is."""
    return f"{event['rounds']} rounds are done, of all trainings together"


def new_job(folder: StudyFolder, order: Order) -> Job:
    """Write what is to be done."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    job = Job(folder, f"{stamp}-{order.kind}-{uuid4().hex[:6]}")
    job.order_file.parent.mkdir(parents=True, exist_ok=True)
    write_json(job.order_file, {"schema": 1, **as_dict(order)})
    return job


def read_nodes(folder: StudyFolder) -> dict[str, int]:
    """The number by which the server knows each registered site."""
    file = folder.server / NODES
    return {k: int(v) for k, v in json.loads(file.read_text()).items()} if file.is_file() else {}


def write_nodes(folder: StudyFolder, nodes: Mapping[str, int]) -> None:
    write_text(folder.server / NODES, to_json({site: str(node) for site, node in nodes.items()}, indent=1) + "\n")


def conducted(job: Job, carrier_of: Callable[[Mapping[str, int]], Carrier]) -> None:
    """Do a job; its last event is ``done``, or ``failed`` with the reason."""
    folder = job.folder
    try:
        order, study = job.order(), folder.read()
        audit = Audit(folder.audit)
        carrier = carrier_of(read_nodes(folder))

        def link_of(run: str) -> Link:
            return Link(study, carrier, audit, run, job.say)

        job.tell("begun", order=as_dict(order))
        _wait_for(Path(order.out), job.say)
        job.tell("done", **_DO[order.kind](job, order, link_of))
    except UserError as error:
        job.tell("failed", error=str(error))
        raise
    except BaseException as error:
        job.tell("failed", error=f"{type(error).__name__}: {first_line(error)}")
        raise


def _wait_for(out: Path, say: Callable[[str], None]) -> None:
    """Wait until a job that ended by force has left its folder."""
    until, said = time.monotonic() + LEAVING, False
    while (out / ".lock").exists():
        try:
            locked(out).close()
            return
        except UserError:
            if time.monotonic() > until:
                raise
        if not said:
            say(f"{out} is still in use: waiting")
            said = True
        time.sleep(1.0)


def _describe(job: Job, order: Order, link_of: Callable[[str], Link]) -> dict[str, Any]:
    from manyheads.federate.agreement import agreed_by, doubts_about
    from manyheads.federate.conduct import described, new_run

    link = link_of(new_run())
    told, missing = described(link)
    facts: dict[str, Any] = {"sites": {site: as_dict(each) for site, each in told.items()}, "missing": missing}
    try:
        agreement = agreed_by(link.study.reading(""), told)
        facts |= {"agreement": as_dict(agreement), "warnings": doubts_about(told, agreement)}
    except UserError as error:
        facts["error"] = str(error)
    write_text(Path(order.out), to_json({"schema": 1, **facts}, indent=1) + "\n")
    return {"out": order.out}


def _run(job: Job, order: Order, link_of: Callable[[str], Link]) -> dict[str, Any]:
    from manyheads.core.round_end import RoundEnd
    from manyheads.federate.conduct import BEGINNING, train

    def on_round(end: RoundEnd) -> None:
        record, sites = end.record, read_json(Path(order.out) / BEGINNING)["sites"]
        missing = {sites[each["client"]]: each["why"] for each in record["dropped"]}
        job.tell("round", round=record["round"], sites=record["clients"] - len(missing), missing=missing)

    run = train(link_of, Path(order.out), order.resume, on_round)
    return {
        "out": order.out,
        "rounds": run.rounds,
        "metrics": run.metrics,
        "protocol": run.protocol,
        "checksum": run.checksum,
    }


def _compare(job: Job, order: Order, link_of: Callable[[str], Link]) -> dict[str, Any]:
    from manyheads.federate.comparison import compare
    from manyheads.report import write_report

    out = Path(order.out)
    result = compare(link_of, out, order.resume, lambda done, doing: job.tell("progress", rounds=done))
    page = write_report(out)
    return {"out": order.out, "report": str(page), "text": str(result)}


_DO: dict[Kind, Callable[[Job, Order, Callable[[str], Link]], dict[str, Any]]] = {
    "describe": _describe,
    "run": _run,
    "compare": _compare,
}
