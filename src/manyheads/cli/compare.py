"""``manyheads compare``: compare several methods on one federation."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from manyheads.cli.flags import Flag, flags_of, given_position
from manyheads.cli.given import combined, resumed, with_data
from manyheads.cli.output import Plain, Words, bold, warn
from manyheads.cli.progress import SECONDS_BETWEEN_LINES
from manyheads.cli.run import run_flags
from manyheads.cli.stops import STOPPED, check
from manyheads.core.errors import UserError
from manyheads.core.files import fresh_folder, locked, reserved, sweep
from manyheads.core.plain import to_json
from manyheads.core.sealed import write_toml
from manyheads.core.settings import as_dict, build
from manyheads.experiments.conduct import run_comparison
from manyheads.experiments.methods import Method, methods_of
from manyheads.experiments.plan import ROUNDS, Comparison, Plan, model_for, refuse_unfit
from manyheads.experiments.results import RESULTS, ComparisonResult
from manyheads.experiments.table import sites_table, table_of
from manyheads.experiments.work import Progress as Follow
from manyheads.metrics import METRICS
from manyheads.run.config import Config, model_spec, prepare, with_code
from manyheads.run.config_file import COMPARISON, read_settings

__all__ = [
    "DEFAULTS",
    "compare",
    "compare_flags",
    "described",
    "rounds_progress",
    "shown_table",
    "whole_settings",
]

DEFAULTS = {"finetune": {"scope": "all"}, "rounds": str(ROUNDS)}
"""defaults of this command: fine-tuning of whole models, and enough rounds to choose from"""
SITES_SHOWN = 20
"""largest number of sites for which the terminal shows the advice for each"""
_OF_ONE_RUN = {"algorithm", "evaluate", "validation", "new_clients", "new_data", "new_samples"}
"""settings of a single run, which a comparison does not take"""
_TUNED = {("finetune", "lr")}
"""settings that the comparison chooses itself: fine-tuning uses the step size of the training"""


def compare_flags(arguments: Sequence[str]) -> list[Flag]:
    """Return the flags of the comparison, and those flags of ``run`` that do not concern a single run."""
    data = given_position(arguments)
    words = [*arguments, "--data", data] if data and not data.endswith(".toml") else arguments
    own = flags_of(Comparison, "Comparison", prefix=("compare",))
    own = [f._replace(option=f"--{f.path[-1].replace('_', '-')}") for f in own if f.path[-1] != "options"]
    return own + [f for f in run_flags(words) if f.path[0] not in _OF_ONE_RUN and f.path not in _TUNED]


def compare(
    data: Annotated[
        str | None, typer.Argument(help="a folder of sites, a named data set, or a TOML file", show_default=False)
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="folder of the comparison  \\[default: runs/DATE-compare-DATA]", show_default=False),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with the comparison in --out")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")] = False,
    flags: dict[str, Any],
) -> None:
    """Should we federate at all? Which method, which sites gain, how sure are we, what does it cost?

    Trains every method on the same federation, with the same folds and initial models, several times, and compares it
    with the best that each site can do alone, boosted trees included. All choices are made by validation samples; every
    sample is a test sample once. A report is written beside.

    Examples:

      manyheads compare my_sites/ --data.label outcome

      manyheads compare digits --partition classes:5 --clients 30 --rounds 60 --seeds 3

      manyheads compare --resume --out runs/my-comparison
    """
    errors = Plain(stderr=True)
    comparison, config = described(data, flags, DEFAULTS, resume, out, COMPARISON)
    methods = methods_of(comparison.methods, comparison.batch, comparison.options)
    _, federation, made = prepare(config)
    refuse_unfit(federation)
    warn(errors, federation.warnings)
    usual = Path("runs") / f"{datetime.now():%Y-%m-%d-%H%M%S}-compare-{federation.name}"
    if out and not resume:
        fresh_folder(out)
    whole = whole_settings(config, made, comparison, methods)
    with nullcontext(out) if out else reserved(usual) as place, locked(place):
        sweep(place)
        model = partial(model_for, model_spec(config))
        plan = Plan(federation, model, config.training(), comparison, methods, made, place, next_step=_next(place))
        describe = partial(write_toml, place / COMPARISON, whole)
        try:
            with rounds_progress(errors, plan.most_rounds, f"{len(methods)} methods on {federation.name}") as follow:
                result = run_comparison(plan, follow, errors.print, describe)
        except KeyboardInterrupt:
            errors.print(f"stopped; what is done is kept. Go on with: manyheads compare --resume --out {place}")
            raise typer.Exit(STOPPED) from None
        from manyheads.report import write_report  # slow: imports the drawing libraries

        page = write_report(place)
    if as_json:
        typer.echo(to_json({"out": str(place), "report": str(page), **result.to_json()}))
    else:
        _show(result, place, page)


def whole_settings(
    config: Config, made: dict[str, Any], comparison: Comparison, methods: Mapping[str, Method]
) -> dict[str, Any]:
    """Return the settings that the comparison's folder keeps; paths are absolute."""
    whole = as_dict(config) | made | {"compare": as_dict(comparison)}
    named = filter(None, (comparison.metric, *comparison.metrics))
    metrics = [METRICS.find(name, where="metric") for name in named]
    whole = with_code(whole, algorithm=[m.algorithm for m in methods.values()], metric=metrics)
    return {key: value for key, value in whole.items() if key not in _OF_ONE_RUN}


def described(
    data: str | None, flags: dict[str, Any], defaults: dict[str, Any], resume: bool, out: Path | None, kept_in: str
) -> tuple[Comparison, Config]:
    """Return the settings, merged from defaults, the file ``kept_in`` of a folder to resume, a TOML file and the flags."""
    kept = resumed(out, kept_in) if resume else {}
    if kept is None:
        what = "a comparison" if kept_in == COMPARISON else "a search"
        raise UserError(f"--resume needs --out with {what} in it", where="resume", given=str(out))
    file = data if data and data.endswith(".toml") else None
    own = read_settings(Path(file)) if file else {}
    table = combined(with_data(flags, None if file else data), defaults, kept, own)
    rest = {k: v for k, v in table.items() if k != "compare"}
    _refuse_run_settings(rest)
    return build(Comparison, table.get("compare", {}), where="compare"), build(Config, rest, where="config")


def _refuse_run_settings(table: dict[str, Any]) -> None:
    """Refuse settings of a single run in a file, unless they are at their defaults."""
    usual = as_dict(Config())
    for path in (*((key,) for key in sorted(_OF_ONE_RUN)), *_TUNED):
        given, default = table, usual
        for key in path:
            given, default = given.get(key, {}) if isinstance(given, dict) else {}, default[key]
        if given not in ({}, default):
            fix = "leave it out; methods and their settings: [compare] methods, [compare.options.NAME]"
            raise UserError("is of a run, not of a comparison", where=".".join(path), given=given, fix=fix)


@contextmanager
def rounds_progress(console: Console, total: int, name: str) -> Iterator[Follow]:
    """Show a progress bar over all rounds of all runs; without a terminal, print a line every few seconds."""
    columns = (
        Words("{task.description}"),
        BarColumn(),
        Words("{task.percentage:>3.0f}%"),
        Words("{task.fields[last]}"),
        TimeElapsedColumn(),
        Words("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=total, last="")
        started = spoke = time.monotonic()
        first: int | None = None

        def follow(done: int, doing: str) -> None:
            nonlocal spoke, first
            now, first = time.monotonic(), done if first is None else first
            bar.update(task, completed=done)
            if doing:
                check()
                bar.update(task, last=doing)
            if not console.is_terminal and doing and now - spoke >= SECONDS_BETWEEN_LINES:
                spoke = now
                speed = max(done - first, 1) / (now - started)
                console.print(f"{min(done / total, 1):4.0%}  {doing}  {max(total - done, 0) / speed:.0f} s left")

        yield follow
        bar.update(task, completed=total, last="")


def _next(place: Path) -> Callable[[str], str]:
    """Return a function that gives the command by which a method is trained on all data."""
    return lambda method: shlex.join(["manyheads", "run", "--from", str(place), method])


def _show(result: ComparisonResult, out: Path, page: Path) -> None:
    console = Plain(wrap=True)
    console.print(shown_table(*table_of(result), marked=result.recommendation.method))
    for name, why in result.left_out.items():
        console.print(f"left out: {name} ({why})")
    console.print(f"\n{result.metric.title} decides: {result.reason}.")
    console.print(f"Scores are the {result.protocol}; {len(result.seeds)} seeds, up to {result.rounds} rounds.")
    if result.searched:
        tried = ", ".join(f"{name} {len(own)}" for name, own in result.searched.items())
        console.print(f"Settings tried with the same budget of rounds: {tried}.")
    console.print("", bold(result.recommendation.text), sep="\n")
    if result.sites:
        if len(result.sites) <= SITES_SHOWN:
            console.print("", shown_table(*sites_table(result)), sep="\n")
            for site in result.sites:
                console.print(f"{site.name}: {site.text}")
        console.print(result.check)
    console.print(f"\nresults  {out / RESULTS}\nreport   {page}", soft_wrap=True)
    if result.next_step:
        console.print(f"train    {result.next_step}", soft_wrap=True)


def shown_table(head: Sequence[str], rows: Sequence[Sequence[str]], marked: str | None = None) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in head:
        table.add_column(title, justify="left" if title == head[0] else "right")
    for name, *cells in rows:
        table.add_row(bold(name) if name == marked else name, *cells)
    return table
