"""What is known of a study now: its server, its sites, and how far its last job is."""

from __future__ import annotations

import json
from typing import Any

from manyheads.core.errors import UserError
from manyheads.federate.flower import Flower, need_flower
from manyheads.federate.jobs import Job, progress_words, read_nodes
from manyheads.federate.processes import listening
from manyheads.federate.serve import address_of
from manyheads.federate.study import StudyFolder

__all__ = ["state_of_study"]


def state_of_study(folder: StudyFolder) -> dict[str, Any]:
    """Plain values, as ``federate status --json`` prints them."""
    need_flower()
    study = folder.read()
    there = listening(*address_of(study.address))
    nodes = {node: site for site, node in read_nodes(folder).items()}
    status: dict[str, str] = {}
    if there:
        try:
            for found in Flower(folder, study).nodes():
                site = nodes.get(int(found["node-id"]))
                if site:
                    status[site] = str(found["status"])
        except UserError as error:
            status = dict.fromkeys(study.sites, f"unknown: {error}")
    seen = _last_seen(folder)
    return {
        "study": study.name,
        "address": study.address,
        "server": there,
        "sites": [
            {"site": site, "status": status.get(site, "not connected"), "last_seen": seen.get(site)}
            for site in study.sites
        ],
        "job": _job(folder, study.training.rounds, there),
    }


def _last_seen(folder: StudyFolder) -> dict[str, str]:
    """When the server last received something from each site."""
    found: dict[str, str] = {}
    if folder.audit.is_file():
        with open(folder.audit, encoding="utf-8") as lines:
            for line in lines:
                event = json.loads(line)
                if event["event"] == "received":
                    found[event["site"]] = event["time"]
    return found


def _job(folder: StudyFolder, rounds: int, server: bool) -> dict[str, Any] | None:
    orders = sorted((folder.server / "jobs").glob("*.json"))
    if not orders:
        return None
    job = Job(folder, orders[-1].stem)
    facts: dict[str, Any] = {
        "job": job.name,
        "kind": job.order().kind,
        "state": "waiting",
        "round": 0,
        "rounds": rounds,
    }
    facts |= {"words": "", "late": {}}
    for event in job.events():
        kind = event["event"]
        if kind == "round":
            facts |= {"round": event["round"], "late": event["missing"]}
        elif kind == "progress":
            facts["words"] = progress_words(event)
        elif kind == "say":
            facts["words"] = event["words"]
        else:
            facts["state"] = {"begun": "running"}.get(kind, kind)
            facts["words"] = event.get("error", facts["words"])
    if facts["state"] in ("waiting", "running") and not server:  # it ends with its server, too fast to say so
        facts |= {"state": "interrupted", "words": "--resume goes on" if facts["kind"] != "describe" else ""}
    return facts
