"""``manyheads reproduce``: the figures and tables of the papers, with a verdict on each claim."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TimeElapsedColumn
from rich.table import Table

from manyheads.cli.given import refuse_idle
from manyheads.cli.output import Plain, Words, bold
from manyheads.cli.progress import SECONDS_BETWEEN_LINES
from manyheads.cli.stops import STOPPED, check
from manyheads.core.errors import UserError
from manyheads.core.plain import to_json
from manyheads.core.words import plural
from manyheads.engines.engine import Engine
from manyheads.engines.ray_connection import LOCAL
from manyheads.reproduce import EXPERIMENTS, Result, Scale
from manyheads.reproduce import reproduce as reproduce_one
from manyheads.reproduce.claims import MARKS
from manyheads.reproduce.conduct import Follow, left, look_for_data
from manyheads.reproduce.records import folder_of, shown

__all__ = ["reproduce"]

ALL = "all"
Executor = Annotated[
    Literal["local", "ray"],
    typer.Option("--engine.executor", help="processes of this machine, or actors of a Ray cluster"),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--engine.address",
        help="of the Ray cluster: HOST:PORT, auto, or local: one on this machine  \\[default: local]",
        show_default=False,
    ),
]


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="PAPER.FIGURE, PAPER or all; without one, they are listed", show_default=False)
    ] = None,
    *,
    scale: Annotated[Scale, typer.Option(help="how much of the paper's work")] = "quick",
    seeds: Annotated[
        int | None, typer.Option(help="number of seeds  \\[default: the scale's]", min=1, show_default=False)
    ] = None,
    parts: Annotated[
        str, typer.Option(help="only these parts, separated by semicolons  \\[default: all]", show_default=False)
    ] = "",
    out: Annotated[Path, typer.Option(help="folder of the results: OUT/PAPER/FIGURE/SCALE")] = Path("results"),
    work: Annotated[Path, typer.Option(help="folder of the training runs, to go on with after an interruption")] = Path(
        "runs/reproduce"
    ),
    workers: Annotated[int, typer.Option(help="processes; 0: one a core", min=0)] = 0,
    executor: Executor = "local",
    address: Address = None,
    again: Annotated[bool, typer.Option("--again", help="measure anew what is there already")] = False,
    listed: Annotated[bool, typer.Option("--list", help="list cost, status and verdict of each")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")] = False,
) -> None:
    """Reproduce a figure or table of the papers, and judge its claims.

    Results are small files, results/PAPER/FIGURE/SCALE: numbers, pictures, a verdict on each claim with its evidence.
    What is there already is not measured again, and an interrupted experiment goes on where it was.

    Examples:

      manyheads reproduce --list

      manyheads reproduce collins2022.figure1

      manyheads reproduce collins2021.table1 --scale paper --parts "CIFAR-10 (100, 2): FedRep"

      manyheads reproduce all --scale quick
    """
    if name is None or listed:
        _list(out, as_json)
        return
    chosen = [EXPERIMENTS.find(each).at(scale, seeds) for each in _named(name, scale)]
    wanted = [part.strip() for part in parts.split(";") if part.strip()]
    errors, results = Plain(stderr=True), []
    engine = _engine(workers, executor, address)
    look_for_data(each for each in chosen if left(each, scale, out, wanted, again))
    try:
        for experiment in chosen:
            with _progress(errors, experiment.name) as follow:
                options: dict[str, Any] = {"out": out, "work": work, "parts": wanted, "again": again}
                results.append(reproduce_one(experiment, scale, engine=engine, follow=follow, **options))
            if not as_json:
                _show(results[-1], folder_of(out, experiment.name, scale))
    except KeyboardInterrupt:
        errors.print("stopped; what is done is kept, and the same command goes on with the rest")
        raise typer.Exit(STOPPED) from None
    if as_json:
        shown = [result.to_json() | {"out": str(folder_of(out, result.experiment, scale))} for result in results]
        typer.echo(to_json(shown[0] if name in EXPERIMENTS else {"results": shown}))


def _engine(workers: int, executor: Executor, address: str | None) -> Engine:
    """Return the settings of the engine, of a cluster that answers if it is one."""
    refuse_idle(address, {"executor": executor})
    engine = Engine(workers=workers, executor=executor, address=address or LOCAL)
    engine.check()
    return engine


def _named(name: str, scale: Scale) -> list[str]:
    """Return the experiments of that name; all that have the scale for ``all``, or all of a paper for its name."""
    if name in EXPERIMENTS:
        return [name]
    several = [n for n in EXPERIMENTS if name == ALL or n.startswith(f"{name}.")]
    if not several:
        EXPERIMENTS.find(name)  # an error with the nearest name
    found = [n for n in several if scale in EXPERIMENTS.find(n).scales]
    if not found:
        scales = dict.fromkeys(scale for n in several for scale in EXPERIMENTS.find(n).scales)
        raise UserError("no such scale", where=name, given=scale, allowed=", ".join(scales))
    return found


@contextmanager
def _progress(console: Console, name: str) -> Iterator[Follow]:
    """Show how many parts are done, and what is being done; without a terminal, a line every few seconds."""
    columns = (Words("{task.description}"), BarColumn(), Words("{task.completed}/{task.total}"), TimeElapsedColumn())
    with Progress(*columns, Words("{task.fields[doing]}"), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=None, doing="")
        spoke = time.monotonic()

        def follow(done: int, total: int, doing: str) -> None:
            nonlocal spoke
            check()
            bar.update(task, completed=done, total=total, doing=doing)
            if not console.is_terminal and time.monotonic() - spoke >= SECONDS_BETWEEN_LINES:
                spoke = time.monotonic()
                console.print(f"{name}: {done} of {total} done  {doing}")

        yield follow


def _show(result: Result, folder: Path) -> None:
    console = Plain(wrap=True)
    about = f"  ({result.scale}, {result.repetitions}; {result.title})"
    console.print(bold(f"{result.experiment}: {result.verdict}") + about)
    for claim in result.claims:
        console.print(f"  {claim.verdict}: {'found here: ' if claim.found_here else ''}{claim.text}")
        for found in claim.checks:
            console.print(f"    {MARKS[found.holds]} {found.what}: {found.evidence}")
        if claim.reason and claim.verdict != "reproduced":
            console.print(f"    why: {claim.reason}")
    if result.table:
        paper = [f"paper {result.unit}"] if any(cell.paper is not None for cell in result.table) else []
        table = Table("", "", f"ours {result.unit}", *paper, box=None, pad_edge=False)
        for cell in result.table:
            given = "" if cell.paper is None else f"{cell.paper:.2f}"
            table.add_row(cell.column, cell.row, shown(float(np.mean(cell.ours))), *([given] if paper else []))
        console.print(table)
    if result.missing:
        console.print(f"  not run: {plural(len(result.missing), 'part', 'parts')}, from {result.missing[0]} on")
    if result.diverged:
        console.print(f"  diverged: {', '.join(result.diverged)}")
    console.print(f"  in {folder}")


def _list(out: Path, as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for name in EXPERIMENTS:
        kind = EXPERIMENTS.find(name)
        for scale in kind.scales:
            result = Result.read(folder_of(out, name, scale))
            missing = result.missing if result else ()
            some = f"{plural(len(missing), 'part', 'parts')} missing" if missing else "done"
            status = some if result else "not run"
            rows.append(
                {
                    "experiment": name,
                    "scale": scale,
                    "minutes": kind.minutes[scale],
                    "status": status,
                    "seeds": len(result.seeds) if result else 0,
                    "repetitions": result.repetitions if result else None,
                    "verdict": result.verdict if result else None,
                    "title": kind.title,
                }
            )
    if as_json:
        typer.echo(to_json({"experiments": rows}))
        return
    console = Plain(wrap=True)
    for name in dict.fromkeys(row["experiment"] for row in rows):
        own = [row for row in rows if row["experiment"] == name]
        console.print(bold(name) + f"  {own[0]['title']}")
        table = Table(*[""] * 5, box=None, show_header=False, pad_edge=False)
        for row in own:
            seeds = f", {row['repetitions']}" if row["repetitions"] else ""
            table.add_row("  ", row["scale"], _cost(row["minutes"]), row["status"] + seeds, row["verdict"] or "")
        console.print(table)


def _cost(minutes: float) -> str:
    """In words, on two cores.

    >>> _cost(0.2), _cost(11), _cost(240)
    ('12 s', '11 min', '4 h')
    """
    return (
        f"{60 * minutes:.0f} s" if minutes < 1 else f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.0f} h"
    )
