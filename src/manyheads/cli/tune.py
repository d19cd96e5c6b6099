"""``manyheads tune``: search step size and other settings of one method."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.cli.compare import (
    DEFAULTS,
    compare_flags,
    described,
    rounds_progress,
    shown_table,
    whole_settings,
)
from manyheads.cli.flags import Flag, given_position
from manyheads.cli.output import Plain, bold, warn
from manyheads.cli.stops import STOPPED
from manyheads.core.files import fresh_folder, locked, reserved, sweep
from manyheads.core.plain import to_json
from manyheads.core.sealed import write_toml
from manyheads.experiments.methods import methods_of
from manyheads.experiments.plan import Plan, model_for, refuse_unfit
from manyheads.experiments.table import number
from manyheads.experiments.tune import TUNED_RESULTS, TuningResult, run_tuning
from manyheads.metrics import METRICS
from manyheads.run.config import model_spec, prepare
from manyheads.run.config_file import TUNING

__all__ = ["tune", "tune_flags"]

OWN = DEFAULTS | {"compare": {"search": "10", "folds": "1"}}
"""defaults of this command: a search, on one division of the samples"""
_OF_A_COMPARISON = {"methods", "baselines", "pooled", "target", "metrics"}
"""settings of a comparison that have no meaning for one method"""
SHOWN = 20
"""most settings that the terminal shows"""


def tune_flags(arguments: Sequence[str]) -> list[Flag]:
    """Return the flags of the search, and those flags of ``run`` that do not concern a single run."""
    method = given_position(arguments)
    words = [word for word in arguments if word != method]  # the rest is like a comparison, data first
    return [
        flag._replace(panel="Search" if flag.panel == "Comparison" else flag.panel)
        for flag in compare_flags(words)
        if not (flag.path[0] == "compare" and flag.path[-1] in _OF_A_COMPARISON)
    ]


def tune(
    method: Annotated[str, typer.Argument(help="a method by its name; NAME+ft: after fine-tuning", show_default=False)],
    data: Annotated[
        str | None, typer.Argument(help="a folder of sites, a named data set, or a TOML file", show_default=False)
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="folder of the search  \\[default: runs/DATE-tune-METHOD-DATA]", show_default=False),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with the search in --out")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")] = False,
    flags: dict[str, Any],
) -> None:
    """Search step size and other settings of one method, by validation samples.

    By Optuna, the extra "tune", with the rounds of --search whole trainings: poor settings are pruned early,
    the others are trained with all seeds. Test samples are not looked at. --search 0 tries the step sizes --rates alone.
    What was chosen can be trained with [bold]manyheads run --from FOLDER[/bold].

    Examples:

      manyheads tune fedprox heart --search 20

      manyheads tune fedrep digits --partition classes:3 --clients 20 --rounds 50 --seeds 2

      manyheads tune fedprox --resume --out runs/my-search
    """
    errors = Plain(stderr=True)
    comparison, config = described(data, flags, OWN, resume, out, TUNING)
    comparison = replace(comparison, methods=(method,))
    made_methods = methods_of(comparison.methods, comparison.batch, comparison.options)
    label = list(made_methods)[-1]  # training alone comes first, unless it is the one
    _, federation, made = prepare(config)
    refuse_unfit(federation)
    warn(errors, federation.warnings)
    usual = Path("runs") / f"{datetime.now():%Y-%m-%d-%H%M%S}-tune-{label}-{federation.name}"
    if out and not resume:
        fresh_folder(out)
    methods = {label: made_methods[label]}
    whole = whole_settings(config, made, comparison, methods)
    with nullcontext(out) if out else reserved(usual) as place, locked(place):
        sweep(place)
        model = partial(model_for, model_spec(config))
        plan = Plan(federation, model, config.training(), comparison, methods, made, place)
        try:
            with rounds_progress(errors, plan.most_rounds, f"{label} on {federation.name}") as follow:
                result = run_tuning(plan, follow, errors.print, partial(write_toml, place / TUNING, whole))
        except KeyboardInterrupt:
            errors.print(f"stopped; what is done is kept. Go on with: manyheads tune {method} --resume --out {place}")
            raise typer.Exit(STOPPED) from None
        from manyheads.report.tune_page import write_tuning_report  # slow: imports the drawing libraries

        page = write_tuning_report(place)
    if as_json:
        typer.echo(to_json({"out": str(place), "report": str(page), **result.to_json()}))
    else:
        _show(result, place, page)


def _show(result: TuningResult, out: Path, page: Path) -> None:
    console, metric = Plain(wrap=True), METRICS.find(result.score)
    names = list(dict.fromkeys(name for each in result.tried for name in each.knobs))
    rows = [
        [
            "its own" if each.rate is None else f"{each.rate:g}",
            *(str(each.knobs.get(name, "")) for name in names),
            "diverged" if each.validation is None else number(metric, each.validation),
            str(each.rounds),
            "chosen" if result.is_chosen(each) else "stopped early" if each.stopped else "",
        ]
        for each in result.ranked[:SHOWN]
    ]
    console.print(shown_table(["step size", *names, f"validation {metric.title}", "rounds trained", ""], rows))
    if len(result.tried) > SHOWN:
        console.print(f"and {len(result.tried) - SHOWN} more, in {TUNED_RESULTS} and on the page")
    budget = f" of {result.budget} allowed" if result.budget else ""
    console.print(
        f"\n{len(result.tried)} settings tried with {len(result.seeds)} seeds in {result.spent} rounds{budget};"
        f" {metric.title} decides: {result.reason}."
    )
    chosen = ", ".join(
        [
            *([] if result.rate is None else [f"step size {result.rate:g}"]),
            *(f"{k} {v}" for k, v in result.knobs.items()),
        ]
    )
    console.print("", bold(f"{result.method}: {chosen or 'nothing to choose'}, {result.rounds} rounds"), sep="\n")
    if result.rising:
        console.print(f"The score still rose after {result.limit} rounds: more may be better, with --rounds.")
    console.print(f"\nresults  {out / TUNED_RESULTS}\nreport   {page}", soft_wrap=True)
    console.print(f"train    {shlex.join(['manyheads', 'run', '--from', str(out)])}", soft_wrap=True)
