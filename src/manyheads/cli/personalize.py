"""``manyheads personalize``: a new client's own model from a trained run and a few samples."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.text import Text

from manyheads.cli.formats import Formats, formats_of
from manyheads.cli.output import Plain
from manyheads.cli.typed import OwnAlgorithm, OwnModel, import_own
from manyheads.core.errors import UserError
from manyheads.core.plain import to_json, visible
from manyheads.core.tasks import task_named
from manyheads.metrics import metrics_for
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
}
WITHOUT = {"rmse": "always the mean target", "c_index": "the same risk for all"}
"""what is predicted without a model, by the measure of the task"""
FEW_SAMPLES = 100
"""held-out samples below which the width of the interval is pointed out"""

FineTuning = Annotated[
    str | None,
    typer.Option(
        help="head:10 (epochs), all:5, head:200steps  "
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
    torch.set_num_threads(1)  # operations are too small for several threads to help
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
    classes, base, curve = task_named(facts["task"]).classes, facts["baseline"], facts["curve"]
    measure = "accuracy" if classes else "rmse" if "rmse" in base else "c_index"

    def number(score: dict[str, Any], key: str = measure) -> str:
        value = score[key]
        return "-" if value is None else f"{value:.4g}" if measure == "rmse" else f"{value:.3f}"

    console.print(
        f"{facts['method']} after {facts['rounds']} rounds, for a new client with {facts['samples']} samples: "
        f"{facts['train']} to train on, {facts['held_out']} held out\n"
    )
    console.print(f"{'':10}{measure:10}{'right    95 % interval' if classes else ''}")
    always = f"always {base['label']!r}" if classes else WITHOUT[measure]
    words = {"before": facts["before"]["model"], "after": _training(facts)}
    for name, score, text in (*((n, facts[n], w) for n, w in words.items()), ("no model", base, always)):
        console.print(f"{name:10}{number(score):10}{_certainty(score, facts['held_out']) if classes else ''}{text}")
    _show_further(facts, console)
    if len(curve) > 1:
        console.print(f"\n{'samples':10}{measure:10}of {curve[0]['subsets']} random subsets")
        for point in curve:
            spread = f"{number(point, 'min')} to {number(point, 'max')}"
            text = spread if point["subsets"] > 1 else "all training samples"
            console.print(f"{point['samples']!s:10}{number(point):10}{text}")
    if classes and facts["held_out"] < FEW_SAMPLES:
        console.print(f"\n{facts['held_out']} held-out samples are few: mind the intervals.")
    console.print(f"\nmodel    {facts['out']}")
    for kind, difference in facts["exports"].items():
        console.print(f"export   {FORMATS[kind]}, checked: its outputs differ by at most {difference:.1g}")
    console.print(f"use it   manyheads predict {shlex.quote(facts['out'])} DATA")


def _show_further(facts: dict[str, Any], console: Plain) -> None:
    """Print the task's other metrics, with a dash where one is not defined."""
    console.print(f"\n{'':20}{'before':10}after")
    for metric in metrics_for(task_named(facts["task"]))[1:]:
        before, after = (f"{v:.3g}" if (v := facts[at][metric.name]) is not None else "-" for at in ("before", "after"))
        console.print(f"{metric.title:20}{before:10}{after}")


def _training(facts: dict[str, Any]) -> str:
    tune = facts["finetune"]
    amount = f"{tune['steps']} steps" if tune["steps"] else f"{tune['epochs']} epochs"
    part = "its head" if tune["scope"] == "head" else "all of it"
    return f"{part} trained for {amount}, step size {tune['lr']:g} ({CHOSEN_BY[facts['finetune_chosen_by']]})"


def _certainty(score: dict[str, Any], samples: int) -> str:
    """Format the number of correct predictions and the interval of the accuracy; blanks if there is no interval."""
    if "interval" not in score:
        return " " * 24
    right, interval = f"{score['correct']}/{samples}", "{:.2f} to {:.2f}".format(*score["interval"])
    return f"{right:9}{interval:15}"
