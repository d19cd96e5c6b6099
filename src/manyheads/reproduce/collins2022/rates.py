"""What first weights and step sizes are worth to the network of Figures 2, 4 and 5, in training loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import altair as alt
import numpy as np
from pydantic import Field

from manyheads.core.errors import Diverged
from manyheads.core.settings import settings
from manyheads.reproduce.claims import Claim, holds
from manyheads.reproduce.collins2022.figure2 import Figure2
from manyheads.reproduce.collins2022.linear import tau_of
from manyheads.reproduce.collins2022.networks import (
    GRID,
    INIT,
    LOCAL_RATE,
    RATE,
    REDUCED,
    TUNE,
    line_of,
    network_config,
    shared_features,
)
from manyheads.reproduce.drawing import banded, row
from manyheads.reproduce.experiment import Cell, Experiment, Facts, Measured, Place, Scale, register
from manyheads.reproduce.training import recipe_of, trained
from manyheads.run.config import Config

__all__ = ["Rates"]

TUNING = "fine-tuning"
CHOSEN = {"tau 50": f"{INIT}, step {LOCAL_RATE:g}", "tau 1": f"{INIT}, step {RATE:g}", TUNING: f"step {TUNE.lr:g}"}
"""what the figures take"""
INITS = {"torch": "torch's weights", "he": "He's weights"}
PAPERS = f"tau 50, torch, step {RATE:g}"
"""FedAvg with the paper's step size and, since it tells of no others, the usual weights"""
PROBES = 300
"""test images whose features are looked at"""
FORGOTTEN = 0.01
"""share of the features' norm that differs between images, below which they are the same for all"""
FACTS = {"loss": "training loss", "differs": "part of the features that differs"}
END = 0.1
"""part of the rounds, the last ones, whose training loss counts"""


@register
@settings
class Rates(Experiment):
    """Training loss of FedAvg, of D-SGD and of fine-tuning, for first weights of two kinds and the paper's step sizes."""

    name: ClassVar[str] = "collins2022.rates"
    title: ClassVar[str] = "The six-layer network: training loss by first weights and step size"
    about: ClassVar[
        str
    ] = """The paper takes the step size 0.1 for all of its models, the best of this grid by the training loss. It gives neither the
        widths of the network nor its first weights. With ours that step size is of no use to FedAvg. Here is what each is worth in bfloat16, with
        two kinds of weights: on CIFAR-100 as in Figure 2, after 500 local steps, with a seed that no figure has. Training loss:
        mean over the last tenth of the rounds. Features: the norm of what differs between 300 test images, divided by the norm of all.
        For fine-tuning, the loss of Figure 2's new clients on their training samples after ten epochs, mean over its two models, one step
        size for both. What is missing diverged."""
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {"reduced": {}}
    minutes: ClassVar[Mapping[Scale, float]] = {"reduced": 20}
    judged: ClassVar[bool] = False

    steps: Annotated[int, Field(ge=1)] = 500
    """local steps of a model"""

    def parts(self) -> list[str]:
        return [f"{what}, {choice}" for what in CHOSEN for choice in _choices(what)]

    def needs(self) -> Iterable[Mapping[str, Any]]:
        return Figure2().needs()

    def _config(self, part: str, seed: int) -> Config:
        split = {"name": "class-split", "per_client": 5, "train_classes": 100, "new_clients": 0}
        what, init, _ = part.split(", ")
        common = ("cifar100", split, 100, tau_of(what), self.steps, seed + 1)
        return network_config(*common, precision="bfloat16", rate=_rate(part), init=init)

    def recipe(self, part: str, seed: int) -> Facts:
        if not part.startswith(TUNING):
            return recipe_of(self._config(part, seed))
        figure = Figure2.at("reduced")
        return {"step": _rate(part)} | {each: recipe_of(figure.config(each, seed)) for each in figure.parts()}

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        if part.startswith(TUNING):
            return {"loss": float(np.mean([_tuned_loss(each, _rate(part), seed, place) for each in Figure2().parts()]))}
        run, federation = trained(self._config(part, seed), place)
        losses = [loss for _, loss in run.history.column("train_loss")]
        rows = np.arange(0, len(federation.test.y), len(federation.test.y) // PROBES)
        features = shared_features(run, federation, rows)
        differs = float((features - features.mean(0)).norm() / features.norm())
        return {"loss": float(np.mean(losses[-max(1, round(END * len(losses))) :])), "differs": differs}

    def claims(self, found: Measured) -> list[Claim]:
        chosen = []
        for what, choice in CHOSEN.items():
            losses = {other: _mean(found, f"{what}, {other}", "loss") for other in _choices(what)}
            reached = {other: loss for other, loss in losses.items() if loss is not None}
            if choice in reached:
                best = min(reached, key=lambda other: reached[other])
                words = f"{_words(what)}: {choice}"
                chosen.append(holds(words, best == choice, f"lowest with {best}: {reached[best]:.3f}"))
        lost = [
            holds(f"{PAPERS}: below {FORGOTTEN:g}", differs < FORGOTTEN, f"{differs:.2g}")
            for differs in [_mean(found, PAPERS, "differs")]
            if differs is not None
        ]
        words = "with the paper's step size and torch's weights, the features of FedAvg's network are the same for all images"
        least = f"a smaller step is ahead after {self.steps} steps, of the {REDUCED['steps']} that the figures make"
        reason = "" if all(check.holds for check in chosen) else least
        return [
            Claim("what the figures take has the lowest training loss", tuple(chosen), reason, found_here=True),
            Claim(words, tuple(lost), found_here=True),
        ]

    def table(self, found: Measured) -> list[Cell]:
        return [
            Cell(f"{_line(part)}: {fact}", f"{_rate(part):g}", [facts[key] for facts in found[part].values()], None)
            for key, fact in FACTS.items()
            for part in self.parts()
            if part in found and all(key in facts for facts in found[part].values())
        ]

    def figure(self, found: Measured) -> Any:
        charts = []
        for key, fact in FACTS.items():
            rows = [
                row(_line(part), seed, _rate(part), facts[key])
                for part in self.parts()
                for seed, facts in found.get(part, {}).items()
                if key in facts
            ]
            charts.append(banded(rows, fact, "step size", log=key == "differs", log_x=True, points=True))
        return alt.hconcat(*charts)


def _choices(what: str) -> list[str]:
    steps = [f"step {rate:g}" for rate in GRID]
    return steps if what == TUNING else [f"{init}, {step}" for init in INITS for step in steps]


def _rate(part: str) -> float:
    return float(part.rpartition(" ")[2])


def _line(part: str) -> str:
    what, *init, _ = part.split(", ")
    return ", ".join([_words(what), *(INITS[each] for each in init)])


def _mean(found: Measured, part: str, fact: str) -> float | None:
    """The mean over seeds; None for what was not run, or diverged."""
    values = [facts[fact] for facts in found.get(part, {}).values()]
    return float(np.mean(values)) if values else None


def _words(what: str) -> str:
    return what if what == TUNING else line_of(tau_of(what))


def _tuned_loss(part: str, rate: float, seed: int, place: Place) -> float:
    """The loss of the new clients of Figure 2 on the samples that they were fine-tuned on."""
    run, federation = trained(Figure2.at("reduced").config(part, seed), place)
    place.say(f"fine-tuning new clients with step {rate:g}")
    loss = float(run.new_predictions(federation, replace(TUNE, lr=rate), "train").losses.mean())
    if not np.isfinite(loss):
        raise Diverged(f"fine-tuning with step {rate:g} ended in numbers that are not finite")
    return loss
