"""What was tried, as a file and as the table of docs/reliability.md."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from fuzz.verdict import Case

__all__ = ["PAGE", "facts_of", "record", "table", "with_table"]

PAGE = Path(__file__).parent.parent / "docs" / "reliability.md"
WHAT = {
    "lines": "command lines",
    "configs": "configurations",
    "tables": "tables",
    "runs": "run directories, damaged",
    "comparisons": "comparisons, damaged",
    "searches": "searches, damaged",
    "models": "model folders, damaged",
}
OUTCOMES = {
    "done": "done",
    "same": "the same numbers",
    "told": "damage reported, continued",
    "refused": "refused in one line",
    "stopped": "stopped by Ctrl-C",
    "broken": "**failed**",
}


def record(path: Path, seed: int, machine: Mapping[str, Any], found: Mapping[str, Sequence[Case]]) -> None:
    """Write what was tried, and put its counts on the page."""
    facts = facts_of(seed, machine, found)
    path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), facts), encoding="utf-8")


def facts_of(seed: int, machine: Mapping[str, Any], found: Mapping[str, Sequence[Case]]) -> dict[str, Any]:
    """The counts of every kind, and the cases that failed."""
    return {
        "seed": seed,
        "date": str(date.today()),
        "kinds": {name: dict(Counter(case.outcome for case in cases)) for name, cases in found.items()},
        "failed": [{"kind": n, "what": c.what, "wrong": c.wrong} for n, cs in found.items() for c in cs if c.wrong],
        "machine": machine,
    }


def table(facts: Mapping[str, Any]) -> str:
    """The counts as Markdown."""
    rows = [["", "cases", *OUTCOMES.values()]]
    for name, counts in facts["kinds"].items():
        rows.append([WHAT[name], str(sum(counts.values())), *(str(counts.get(o, 0)) for o in OUTCOMES)])
    rows.insert(1, ["---", *["--:"] * (len(rows[0]) - 1)])
    machine = facts["machine"]
    told = (
        f"{facts['date']}, seed {facts['seed']}, commit {str(machine['git_commit'])[:12]}, {machine['cores']} cores, "
    )
    told += f"Python {machine['python']}, torch {machine['packages']['torch']}."
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + f"\n\n{told}"


def with_table(page: str, facts: Mapping[str, Any]) -> str:
    """The page with these counts."""
    between = re.compile(r"(?<=<!-- counts -->\n).*?(?=<!-- end of counts -->)", re.DOTALL)
    return between.sub(lambda _: f"{table(facts)}\n", page)
