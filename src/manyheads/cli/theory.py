"""``manyheads theory``: check a paper's theorem against a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from manyheads.cli.flags import Flag, flags_of
from manyheads.cli.output import Plain
from manyheads.core.errors import UserError
from manyheads.core.files import replacing
from manyheads.core.plain import to_json
from manyheads.core.settings import build
from manyheads.theory import PAPERS, figure_of
from manyheads.theory import sweep as sweep_of
from manyheads.theory import theory as theory_of

__all__ = ["theory", "theory_flags"]

ROWS_SHOWN = 40


def theory_flags(arguments: Sequence[str]) -> list[Flag]:
    """Return the flags of the paper that ``arguments`` name."""
    named = next((a for a in arguments if a in PAPERS), None) if "theory" in arguments[:2] else None
    if named is None:
        return []
    paper, panel = PAPERS.find(named), f"Theory {named}"
    about = "; ".join(f"{name}: {each.about}" for name, each in paper.sweeps.items())
    sweep = Flag(
        ("sweep",), "--sweep", lambda: f"instead of the run, a sweep. {about}", Literal[tuple(paper.sweeps)], panel
    )
    return [*flags_of(paper, panel), *([sweep] if paper.sweeps else [])]


def theory(
    name: Annotated[
        str | None, typer.Argument(help="which paper; without one, they are listed", show_default=False)
    ] = None,
    *,
    seeds: Annotated[
        int | None,
        typer.Option(help="run with this many seeds, from --seed on  \\[default: 1]", min=1, show_default=False),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="draw the (first) run: a file .svg or .png", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")] = False,
    flags: dict[str, Any],
) -> None:
    """Show a theorem at work: its quantities on a run, its assumptions one by one, its bound beside what is measured.

    A run outside the assumptions is no failure of the theorem; it is shown as outside. The flags of a paper are listed
    once it is named: try [bold]manyheads theory collins2022 --help[/bold].

    Examples:

      manyheads theory collins2022 --tau 2 --figure fedavg.svg

      manyheads theory collins2022 --alpha 0 --start 0.1 --rounds 50

      manyheads theory collins2021 --only convergence --samples 5 --seeds 10 --json

      manyheads theory collins2022 --sweep tau --figure tau.svg
    """
    if name is None:
        for option, given in (("seeds", seeds), ("figure", figure)):
            if given is not None:
                raise UserError("is for a paper", where=option, given=str(given), allowed=", ".join(sorted(PAPERS)))
        _list(as_json)
        return
    seeds = seeds or 1
    if figure and figure.suffix not in (".svg", ".png"):
        raise UserError("unknown kind of picture", where="figure", given=str(figure), allowed=".svg, .png")
    errors = Plain(stderr=True)
    sweep = flags.pop("sweep", None)
    paper = build(PAPERS.find(name), flags, where=name)
    runs = []
    for i in range(seeds):
        if seeds > 1:
            errors.print(f"seed {paper.seed + i} ({i + 1} of {seeds})")
        seeded = replace(paper, seed=paper.seed + i)
        runs.append(sweep_of(seeded, sweep, errors.print) if sweep else theory_of(seeded, errors.print))
    if figure:
        figure.parent.mkdir(parents=True, exist_ok=True)
        with replacing(figure) as temporary:
            figure_of(runs[0]).save(str(temporary), format=figure.suffix[1:])
        errors.print(f"figure: {figure}")
    if as_json:
        plain = [run.get("series", {}) | run for run in runs]  # the main run's series are also top-level keys
        typer.echo(to_json(plain[0] if seeds == 1 else {"paper": name, "seeds": seeds, "runs": plain}))
    else:
        _show(runs)


def _list(as_json: bool) -> None:
    titles = {name: PAPERS.find(name).title for name in PAPERS}
    if as_json:
        typer.echo(to_json({"papers": titles}))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, title in titles.items():
        table.add_row(name, title)
    console = Plain(wrap=True)
    console.print(table)
    console.print("\nOne of them on a run: manyheads theory NAME")


def _show(runs: list[dict[str, Any]]) -> None:
    console, first = Plain(wrap=True), runs[0]
    paper = PAPERS.find(first["paper"])
    console.print(paper.title + (f": {paper.sweeps[first['sweep']].about}" if "sweep" in first else ""))
    console.print(", ".join(f"{k} {v}" for k, v in first["settings"].items() if len(runs) == 1 or k != "seed"))
    for key, value in first.items():
        if _are_conditions(value):
            _show_conditions(console, key, [run[key] for run in runs])
        elif _are_rows(value) and len(runs) == 1:
            _show_rows(console, key, value)
    leaves = [dict(_leaves({k: v for k, v in run.items() if k not in ("paper", "sweep", "settings")})) for run in runs]
    table = Table(box=None, show_header=False, pad_edge=False)
    for path, value in leaves[0].items():
        if len(runs) > 1 and isinstance(value, list):
            continue
        table.add_row(path, _over_seeds([found.get(path) for found in leaves]))
    console.print("", table)


def _are_conditions(value: Any) -> bool:
    return _are_rows(value) and {"name", "holds", "value", "needs"} <= value[0].keys()


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _show_conditions(console: Console, name: str, runs: list[list[dict[str, Any]]]) -> None:
    """Print the conditions: ✓ holds, ✗ fails, ? undecided; where seeds differ, in how many of them it holds."""
    table = Table("", name, "value", "needs", box=None, pad_edge=False)
    for over_seeds in zip(*runs, strict=True):
        holds = [c["holds"] for c in over_seeds]
        mark = (
            {True: "✓", False: "✗", None: "?"}[holds[0]]
            if len(set(holds)) == 1
            else f"✓ {holds.count(True)}/{len(holds)}"
        )
        needs = over_seeds[0]["needs"] if len({c["needs"] for c in over_seeds}) == 1 else "(differs by seed)"
        table.add_row(mark, over_seeds[0]["name"], _over_seeds([c["value"] for c in over_seeds]), needs)
    console.print("", table)


def _show_rows(console: Console, name: str, rows: list[dict[str, Any]]) -> None:
    table = Table(*rows[0], title=name, title_justify="left", box=None, pad_edge=False)
    for row in rows[:ROWS_SHOWN]:
        table.add_row(*(_word(v) for v in row.values()))
    console.print("", table)
    if len(rows) > ROWS_SHOWN:
        console.print(f"and {len(rows) - ROWS_SHOWN} more: --json has all")


def _leaves(value: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all values of nested tables by dotted path, except lists of rows."""
    for key, item in value.items():
        here = f"{path}.{key}" if path else key
        if isinstance(item, dict):
            yield from _leaves(item, here)
        elif not _are_rows(item):
            yield here, item


def _over_seeds(values: list[Any]) -> str:
    found = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(values) == 1 or len(found) < len(values):
        return _word(values[0]) if len({str(v) for v in values}) == 1 else f"{_word(values[0])} (first seed)"
    low, high = min(found), max(found)
    return _word(low) if low == high else f"{_word(float(np.mean(found)))}  ({_word(low)} to {_word(high)})"


def _word(value: Any) -> str:
    if isinstance(value, list) and len(value) > 4:
        return f"{_word(value[0])} … {_word(value[-1])}  ({len(value)} values)"
    if isinstance(value, list):
        return ", ".join(_word(v) for v in value)
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0").rstrip(".") if 0.99 < abs(value) < 1 else f"{value:.4g}"
    return str(value)
