"""Pages of experiments, made from their results: claims, pictures, our numbers beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from manyheads.core.words import plural
from manyheads.reproduce.claims import MARKS, Claim, mean_and_interval
from manyheads.reproduce.experiment import EXPERIMENTS, Cell, Experiment, Scale
from manyheads.reproduce.records import Result, folder_of, shown

__all__ = ["page", "summary"]

SCALES: tuple[Scale, ...] = ("quick", "reduced", "paper")
LISTED = 6
"""parts that are listed by name"""


def summary(out: Path, names: Sequence[str]) -> str:
    """A table of the verdicts on experiments, at each scale that some of them have."""
    kinds = [EXPERIMENTS.find(name) for name in names]
    scales = [scale for scale in SCALES if any(scale in kind.scales for kind in kinds)]
    lines = [f"| experiment | what | {' | '.join(scales)} |", f"| --- | --- |{' --- |' * len(scales)}"]
    for kind in kinds:
        status = " | ".join(_status(kind, out, scale) for scale in scales)
        lines.append(f"| `{kind.name}` | {kind.title} | {status} |")
    return "\n".join(lines) + "\n"


def _status(kind: type[Experiment], out: Path, scale: Scale) -> str:
    if scale not in kind.scales:
        return ""
    result = Result.read(folder_of(out, kind.name, scale))
    if result is None:
        return "not run"
    parts = f", {plural(len(result.missing), 'part', 'parts')} not run" if result.missing else ""
    return f"{result.verdict} ({result.repetitions}{parts})"


def page(head: str, names: Sequence[str], out: Path, pictures: str) -> str:
    """The page of some experiments; ``pictures`` is the path of ``out`` as seen from the page."""
    parts = [head, summary(out, names)]
    for name in names:
        results = [Result.read(folder_of(out, name, scale)) for scale in reversed(SCALES)]
        there = [result for result in results if result]
        if there:
            parts += ["\n", *_section(there[0], pictures)]
            parts += [line for other in there[1:] for line in _briefly(other)]
    return "".join(parts)


def _section(result: Result, pictures: str) -> Iterator[str]:
    """The most faithful result of an experiment."""
    yield f"## {result.experiment}\n\n**{result.title}.** {result.about}\n\n"
    kind = EXPERIMENTS.find(result.experiment)
    smaller = f" Not the paper's scale: {result.smaller}." if result.smaller else ""
    missing = f" Not run: {_listed(result.missing)}." if result.missing else ""
    missing += f" Diverged: {_listed(result.diverged)}." if result.diverged else ""
    minutes = plural(round(result.minutes), "minute", "minutes") if result.minutes >= 1 else "less than a minute"
    yield f"Scale `{result.scale}`, {result.repetitions}, {minutes} of work.{smaller}{missing}\n\n"
    place = folder_of(Path(pictures), kind.name, result.scale)
    yield f"![{result.title}]({place.as_posix()}/figure.png)\n\n"
    for claim in result.claims:
        yield from _claim(claim)
    if result.table:
        yield from _table(result)


def _listed(parts: Sequence[str]) -> str:
    """Names of parts, or of many their number."""
    return ", ".join(parts) if len(parts) <= LISTED else f"{len(parts)} parts"


def _claim(claim: Claim) -> Iterator[str]:
    who = "Found here" if claim.found_here else "Claim"
    yield f"- {who}: {claim.text}: **{claim.verdict}**\n"
    for check in claim.checks:
        yield f"    - {MARKS[check.holds]} {check.what}: {check.evidence}\n"
    if claim.reason and claim.verdict != "reproduced":
        yield f"    - Why: {claim.reason}\n"
    yield "\n"


def _briefly(result: Result) -> Iterator[str]:
    verdicts = "; ".join(f"{claim.text}: {claim.verdict}" for claim in result.claims) or result.verdict
    yield f"At scale `{result.scale}` ({result.repetitions}; {result.smaller}): {verdicts}.\n\n"


def _table(result: Result) -> Iterator[str]:
    columns = list(dict.fromkeys(cell.column for cell in result.table))
    rows = list(dict.fromkeys(cell.row for cell in result.table))
    cells = {(cell.row, cell.column): cell for cell in result.table}
    yield f"| {result.unit} | {' | '.join(columns)} |\n| --- |{' ---: |' * len(columns)}\n"
    for row in rows:
        found = (cells.get((row, column)) for column in columns)
        yield f"| {row} | {' | '.join(_cell(cell) if cell else '' for cell in found)} |\n"
    notes = ["ours, then the paper's in brackets"] if any(cell.paper is not None for cell in result.table) else []
    notes += ["± is half the 95 % interval over seeds"] if any(len(cell.ours) > 1 for cell in result.table) else []
    yield f"\n{'; '.join(notes).capitalize()}.\n\n" if notes else "\n"
    for cell in result.table:
        if cell.explained:
            yield f"- {cell.column}, {cell.row}: {cell.explained}\n"
    yield "\n"


def _cell(cell: Cell) -> str:
    mean, half = mean_and_interval(cell.ours)
    spread = f" ± {shown(half)}" if np.isfinite(half) else ""
    return f"{shown(mean)}{spread}" + (f" ({shown(cell.paper)})" if cell.paper is not None else "")
