"""``manyheads personalize``: a new client's own model from a trained run and a few samples."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from manyheads.cli.formats import Formats, formats_of
from manyheads.cli.output import Plain, bold
from manyheads.cli.typed import OwnAlgorithm, OwnModel, import_own
from manyheads.core.errors import UserError
from manyheads.core.optim import FineTune
from manyheads.core.plain import to_json, visible
from manyheads.core.settings import build
from manyheads.core.tasks import task_named
from manyheads.metrics import Metric, metrics_for
from manyheads.onboarding import personalize as make_personal
from manyheads.onboarding import save_personal
from manyheads.onboarding.export import FORMATS
from manyheads.onboarding.model_folder import check_place
from manyheads.run import load

__all__ = ["personalize"]

CHOSEN_BY = {
    "you": "as you said",
    "run": "the run's own setting",
    "method": "the method's own step",
    "default": "10 epochs, at least 300 steps",
    "validation": "chosen by cross-validation on its samples",
}
FEW_SAMPLES = 100
"""held-out samples below which the width of the interval is pointed out"""

FineTuning = Annotated[
    str | None,
    typer.Option(
        help="head:10 (epochs), all:5, head:200steps, knn:10 (neighbours)  "
        r"\[default: the run's setting, else the method's, else 10 epochs of what suits it, at least 300 steps]",
        show_default=False,
    ),
]
Curve = Annotated[
    str | None,
    typer.Option(
        help=r"numbers of training samples to also measure the model for  \[default: 5,10,20,...]", show_default=False
    ),
]


def personalize(
    run: Annotated[Path, typer.Argument(help="folder of a trained run", show_default=False)],
    data: Annotated[
        Path,
        typer.Argument(help="the new client's samples with labels: CSV, Excel, Parquet or NPZ", show_default=False),
    ],
    *,
    out: Annotated[Path, typer.Option(help="folder for the model; must be new or empty", show_default=False)],
    finetune: FineTuning = None,
    lr: Annotated[float | None, typer.Option(help=r"step size  \[default: the method's]", show_default=False)] = None,
    test_fraction: Annotated[float, typer.Option(help="part of the samples that is held out to measure")] = 0.3,
    curve: Curve = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of the split, the subsets and the training")] = 0,
    export: Formats = None,
    algorithm: OwnAlgorithm = None,
    model: OwnModel = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")] = False,
) -> None:
    """Give a new client its own model, from a trained run and a few samples of the client.

    The client starts from what the method gives a newcomer, and trains it on its samples. A part of them is held out:
    the model is measured there before and after, and for fewer samples.

    A run on tables takes a table with the same columns, in any order. A run on images or vectors takes an NPZ file with x
    and y, or a table with a column for each input and a column label.

    Examples:

      manyheads personalize runs/mine new_site.csv --out models/new_site

      manyheads personalize runs/mine new_site.csv --out models/tuned --finetune head:50 --lr 0.1 --export onnx

      manyheads predict models/new_site more.csv
    """
    exports, sizes = formats_of(export, "export"), _numbers(curve)
    import_own(algorithm=algorithm, model=model)
    check_place(out)
    errors = Plain(stderr=True)
    with errors.status("reading the run") as status:

        def say(text: str) -> None:
            status.update(Text(visible(text))) if errors.is_terminal else errors.print(text)

        personal = make_personal(
            load(run, say=lambda words: errors.print(f"warning: {words}")),
            data,
            finetune=finetune,
            lr=lr,
            test_fraction=test_fraction,
            curve=sizes,
            seed=seed,
            say=say,
        )
        say("writing the model")
        card = save_personal(personal, out, exports, command=shlex.join(["manyheads", *sys.argv[1:]]))
    facts = _facts(out, card)
    for warning in facts["warnings"]:
        errors.print(f"warning: {warning}")
    typer.echo(to_json(facts)) if as_json else _show(facts)


def _facts(out: Path, card: dict[str, Any]) -> dict[str, Any]:
    """Return what was measured and exported, from the model card."""
    left_out = [f"no {kind} export: {why}" for kind, why in card["exports_left_out"].items()]
    facts = {"out": str(out), **card["measured"], "exports": card["exports"]}
    return facts | {"warnings": facts["warnings"] + left_out}


def _numbers(text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(n) for n in text.split(",")]
    except ValueError:
        raise UserError("cannot read", where="curve", given=text, allowed="numbers, such as 5,10,20") from None


def _show(facts: dict[str, Any]) -> None:
    console = Plain()
    task = task_named(facts["task"])
    first, *further = metrics_for(task)
    console.print(
        f"{facts['method']} after {facts['rounds']} rounds, for a new client with {facts['samples']} samples: "
        f"{facts['train']} to train on, {facts['held_out']} held out\n"
    )
    rows = {"before": facts["before"], "after": facts["after"] | {"model": _training(facts)}}
    rows |= {f"alone: {name}": found for name, found in facts["alone"].items()}
    console.print(f"{'':18}{first.title:10}{'right    95 % interval' if task.classes else ''}")
    for name, score in rows.items():
        certainty = _certainty(score, facts["held_out"]) if task.classes else ""
        console.print(f"{name:18}{_number(score[first.name]):10}{certainty}{score['model']}")
    console.print("\n" + " " * 18 + "".join(f"{name.removeprefix('alone: '):10}" for name in rows))
    for metric in further:
        console.print(f"{metric.title:18}" + "".join(f"{_number(score[metric.name]):10}" for score in rows.values()))
    _show_curve(facts, first, console)
    told = facts["verdict"]["words"] if facts["verdict"] else "Too few training samples for cross-validation."
    console.print("", bold(told), sep="\n")
    if task.classes and facts["held_out"] < FEW_SAMPLES:
        console.print(f"{facts['held_out']} held-out samples are few: mind the intervals.")
    console.print(f"\nmodel    {facts['out']}")
    for kind, difference in facts["exports"].items():
        console.print(f"export   {FORMATS[kind]}, checked: its outputs differ by at most {difference:.1g}")
    console.print(f"use it   manyheads predict {shlex.quote(facts['out'])} DATA")


def _show_curve(facts: dict[str, Any], metric: Metric, console: Plain) -> None:
    """Print the learning curve, and that of the best alone beside it."""
    curve = facts["curve"]
    if len(curve) < 2:
        return
    beside = f"alone: {facts['best_alone']}" if facts["best_alone"] else ""
    subsets = f"of {curve[0]['subsets']} subsets"
    console.print(f"\n{'samples':18}{metric.title:10}{subsets:20}{beside}".rstrip())
    for point in curve:
        cells = [f"{point['samples']!s:18}"]
        for found in filter(None, (point, point.get("alone"))):
            spread = f"{_number(found['min'])} to {_number(found['max'])}" if point["subsets"] > 1 else "all"
            cells.append(f"{_number(found[metric.name]):10}{spread:20}")
        console.print("".join(cells).rstrip())


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"


def _training(facts: dict[str, Any]) -> str:
    tune = facts["finetune"]
    if tune["scope"] == "knn":
        return f"{build(FineTune, tune, where='finetune').describe()} ({CHOSEN_BY[facts['finetune_chosen_by']]})"
    amount = f"{tune['steps']} steps" if tune["steps"] else f"{tune['epochs']} epochs"
    part = {"head": "its head", "lp-ft": "its head, then all of it,"}.get(tune["scope"], "all of it")
    pull = f", mu {tune['mu']:g}" if tune.get("mu") else ""
    return f"{part} trained for {amount}, step size {tune['lr']:g}{pull} ({CHOSEN_BY[facts['finetune_chosen_by']]})"


def _certainty(score: dict[str, Any], samples: int) -> str:
    """Format the number of correct predictions and the interval of the accuracy."""
    right, interval = f"{score['correct']}/{samples}", "{:.2f} to {:.2f}".format(*score["interval"])
    return f"{right:9}{interval:15}"
