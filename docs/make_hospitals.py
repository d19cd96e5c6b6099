"""All methods on the four hospitals: ``python docs/make_hospitals.py``.

Writes results/heart-methods.json, and the table in its marked place in docs/hospitals.md. What is in
results/heart-methods.json is not run again, but methods that it lacks are; a comparison that was interrupted goes on in
runs/heart-methods.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import manyheads as mh
from manyheads.core.contract import ALGORITHMS
from manyheads.core.machine import machine_facts
from manyheads.data import source_of
from manyheads.experiments.table import aligned, table_of

ROOT = Path(__file__).parent.parent
FOLDER, RESULTS, PAGE = (
    ROOT / "runs" / "heart-methods",
    ROOT / "results" / "heart-methods.json",
    ROOT / "docs/hospitals.md",
)
INTRODUCTION = "All methods by the same comparison, with `--methods all` (`python docs/make_hospitals.py`):\n\n"
MARKED = re.compile(r"(<!-- methods -->\n).*?(<!-- /methods -->)", re.DOTALL)


def main() -> None:
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else facts(["all"])
    there = {row[0].removesuffix("+ft") for row in done["rows"]} | done["left_out"].keys()
    if lacking := [name for name in sorted(ALGORITHMS) if name not in there]:
        done = with_others(done, facts(lacking))
    RESULTS.write_text(json.dumps(done, indent=1) + "\n")
    shown = "".join(f"    {line}\n" for line in aligned(done["head"], done["rows"]).splitlines())
    PAGE.write_text(MARKED.sub(lambda marks: marks[1] + INTRODUCTION + shown + marks[2], PAGE.read_text()))


def with_others(done: dict, others: dict) -> dict:
    """The table with the rows of methods that came later. Each row is its method's alone, beside the same yardsticks."""
    there = {row[0] for row in done["rows"]}
    same = [row for row in others["rows"] if row[0] in there]
    assert all(row in done["rows"] for row in same), "another machine, or another version: measure all of them again"
    rows = done["rows"] + [row for row in others["rows"] if row[0] not in there]
    return done | {
        "rows": sorted(rows, key=lambda row: -float(row[1])),
        "left_out": done["left_out"] | others["left_out"],
    }


def facts(methods: list[str]) -> dict:
    """The table of a comparison with the settings of ``make demo``; of all methods, those that do not fit are left out."""
    found = mh.compare(
        source_of({"name": "heart"}).federation(0),
        "mlp",
        methods=methods,
        rates=(0.01, 0.03, 0.1),
        batch=32,
        seeds=2,
        engine=mh.Engine(workers=0),
        out=FOLDER,
        resume=FOLDER.exists(),
    )
    head, rows = table_of(found)
    return {
        "machine": machine_facts(),
        "head": head,
        "rows": rows,
        "left_out": found.left_out,
        "evidence": found.recommendation.evidence,
    }


if __name__ == "__main__":
    main()
