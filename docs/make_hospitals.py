"""All methods on the four hospitals: ``python docs/make_hospitals.py``.

Writes results/heart-methods.json, and the table in its marked place in docs/hospitals.md. What is in
results/heart-methods.json is not run again; a comparison that was interrupted goes on in runs/heart-methods.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import manyheads as mh
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
    if not RESULTS.exists():
        RESULTS.write_text(json.dumps(facts(), indent=1) + "\n")
    done = json.loads(RESULTS.read_text())
    shown = "".join(f"    {line}\n" for line in aligned(done["head"], done["rows"]).splitlines())
    PAGE.write_text(MARKED.sub(lambda marks: marks[1] + INTRODUCTION + shown + marks[2], PAGE.read_text()))


def facts() -> dict:
    """The table of a comparison with the settings of ``make demo``, but all methods; those that do not fit are left out."""
    found = mh.compare(
        source_of({"name": "heart"}).federation(0),
        "mlp",
        methods=["all"],
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
