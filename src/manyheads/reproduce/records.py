"""The results of an experiment as small files: measured facts by part and seed, verdicts, and where they come from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from manyheads.core.errors import UserError
from manyheads.core.files import write_text
from manyheads.core.machine import machine_facts
from manyheads.core.plain import to_json
from manyheads.core.sealed import fingerprint_of
from manyheads.core.settings import as_dict
from manyheads.core.words import plural
from manyheads.reproduce.claims import Check, Claim, Verdict, overall
from manyheads.reproduce.experiment import Cell, Experiment, Facts, Measured, Scale

__all__ = ["DIVERGED", "Record", "Result", "folder_of", "key_of", "measured", "rounded", "shown"]

SCHEMA = 1
FILE = "result.json"
DIVERGED = "diverged"
"""the only fact of a part whose training diverged: the error"""
DIGITS = 7
"""significant digits that are kept of a measured number"""


@dataclass(frozen=True)
class Record:
    """A part that was measured with one seed."""

    part: str
    seed: int
    key: str
    """of the settings it was measured with"""
    seconds: float
    commit: str | None
    facts: Facts = field(repr=False)
    core_seconds: float | None = None
    """processor time, which other work on the machine hardly changes; None where it was not recorded"""


@dataclass(frozen=True)
class Result:
    """All that is known of an experiment at a scale."""

    experiment: str
    scale: Scale
    title: str
    about: str
    smaller: str
    """how the scale differs from the paper's settings"""
    settings: dict[str, Any]
    unit: str
    verdict: Verdict
    claims: tuple[Claim, ...]
    table: tuple[Cell, ...]
    missing: tuple[str, ...]
    """parts that were not run"""
    records: tuple[Record, ...] = field(repr=False)
    machine: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, experiment: Experiment, scale: Scale, records: Iterable[Record]) -> Result:
        """Judge what was measured."""
        kept = tuple(records)
        found = measured(kept)
        claims = tuple(experiment.claims(found)) if found else ()
        missing = tuple(part for part in experiment.parts() if part not in {record.part for record in kept})
        verdict = overall([claim.verdict for claim in claims if not claim.found_here])
        if found and not experiment.judged:
            verdict = "measured"
        return cls(
            experiment.name,
            scale,
            experiment.title,
            " ".join(experiment.about.split()),
            experiment.smaller(),
            as_dict(experiment),
            experiment.unit,
            "partly" if missing and verdict == "reproduced" else verdict,  # what was not run is not reproduced
            claims,
            tuple(experiment.table(found)) if found else (),
            missing,
            kept,
            machine_facts(),
        )

    @property
    def seeds(self) -> list[int]:
        return sorted({record.seed for record in self.records})

    @property
    def diverged(self) -> list[str]:
        """Parts whose training diverged with some seed."""
        return list(dict.fromkeys(record.part for record in self.records if DIVERGED in record.facts))

    @property
    def repetitions(self) -> str:
        """The number of seeds, in words: of the parts with the fewest and with the most, if these differ."""
        counts = Counter(record.part for record in self.records).values()
        least, most = min(counts, default=0), max(counts, default=0)
        return plural(most, "seed", "seeds") if least == most else f"{least} to {most} seeds"

    @property
    def minutes(self) -> float:
        """Working time of all parts on one core."""
        return sum(record.core_seconds or record.seconds for record in self.records) / 60

    def to_json(self) -> dict[str, Any]:
        table = asdict(self)
        for claim, facts in zip(self.claims, table["claims"], strict=True):
            facts["verdict"] = claim.verdict
        return {"schema": SCHEMA, **table}

    def write(self, folder: Path) -> None:
        """Write ``result.json``, with one line for each record."""
        table = self.to_json()
        records = ",\n  ".join(to_json(record) for record in table.pop("records"))
        head = to_json(table, indent=1).removesuffix("\n}")
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / FILE, f'{head},\n "records": [\n  {records}\n ]\n}}\n')

    @classmethod
    def read(cls, folder: Path) -> Result | None:
        """The result in a folder; None if there is none."""
        path = folder / FILE
        if not path.exists():
            return None
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            if table.pop("schema") != SCHEMA:
                raise UserError(f"{path} was written by another manyheads", fix="remove it, and reproduce it again")
            claims = [
                Claim(
                    c["text"], tuple(Check(**check) for check in c["checks"]), c["reason"], c.get("found_here", False)
                )
                for c in table["claims"]
            ]
            cells, records = (
                [kind(**facts) for facts in table[name]] for name, kind in (("table", Cell), ("records", Record))
            )
            lists = {"claims": claims, "table": cells, "records": records, "missing": table["missing"]}
            return cls(**table | {name: tuple(values) for name, values in lists.items()})
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, UserError):
                raise
            raise UserError(f"{path} cannot be read: {error}", fix="remove it, and reproduce it again") from None


def measured(records: Iterable[Record]) -> Measured:
    """Facts by part and seed, without those that diverged."""
    found: dict[str, dict[int, Facts]] = {}
    for record in sorted((r for r in records if DIVERGED not in r.facts), key=lambda r: r.seed):
        found.setdefault(record.part, {})[record.seed] = record.facts
    return found


def folder_of(out: Path, experiment: str, scale: Scale) -> Path:
    """PAPER/FIGURE/SCALE below ``out``."""
    paper, _, figure = experiment.partition(".")
    return out / paper / figure / scale


def key_of(experiment: Experiment, part: str, seed: int) -> str:
    """A hash of the settings on which a part's facts depend."""
    return fingerprint_of(experiment.recipe(part, seed))


def rounded(value: Any) -> Any:
    """Plain values with numbers of :data:`DIGITS` significant digits.

    >>> rounded({"x": [1 / 3, 2e-9 / 3], "n": 5})
    {'x': [0.3333333, 6.666667e-10], 'n': 5}
    """
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {str(k): rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list | tuple) else value


def shown(value: float) -> str:
    """A number of a table: with two decimals, or two digits if it is small.

    >>> shown(87.654), shown(0.000123)
    ('87.65', '1.2e-04')
    """
    return f"{value:.2f}" if value == 0 or abs(value) >= 0.1 else f"{value:.1e}"
