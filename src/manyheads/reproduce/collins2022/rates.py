"""The step sizes of Figures 2, 4 and 5, chosen from the paper's grid by the training loss, as the paper chose its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import altair as alt
import numpy as np
from pydantic import Field

from manyheads.core.settings import settings
from manyheads.reproduce.claims import Claim, holds
from manyheads.reproduce.collins2022.figure2 import Figure2
from manyheads.reproduce.collins2022.linear import tau_of
from manyheads.reproduce.collins2022.networks import (
    FEDAVG_RATE,
    GRID,
    RATE,
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
CHOSEN = {"tau 50": FEDAVG_RATE, "tau 1": RATE, TUNING: TUNE.lr}
PROBES = 300
"""test images whose features are looked at"""
FORGOTTEN = 0.01
"""share of the features' norm that differs between images, below which they are the same for all"""
END = 0.1
"""part of the rounds, the last ones, whose training loss counts"""


@register
@settings
class Rates(Experiment):
    """Training loss of FedAvg, of D-SGD and of fine-tuning, for every step size of the paper's grid."""

    name: ClassVar[str] = "collins2022.rates"
    title: ClassVar[str] = (
        "Step sizes of the six-layer network: training loss, and how much its features depend on the image"
    )
    about: ClassVar[
        str
    ] = """The paper takes 0.1 for all of its models, the best of this grid by the training loss. It gives neither the widths of the
        network nor its first weights; with ours (torch's usual weights) the choice is made again, in the same way: on
        CIFAR-100 as in Figure 2, after 1000 local steps, with a seed that no figure has. Training loss: mean over the last tenth of
        the rounds. Features: the norm of what differs between 300 test images, divided by the norm of all. For fine-tuning, the loss
        of the new clients of Figure 2 on their training samples after ten epochs, mean over its two models, one step size for both."""
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {"reduced": {}}
    minutes: ClassVar[Mapping[Scale, float]] = {"reduced": 20}
    judged: ClassVar[bool] = False

    steps: Annotated[int, Field(ge=1)] = 1000
    """local steps of a model"""

    def parts(self) -> list[str]:
        return [f"{what}, step {rate:g}" for what in CHOSEN for rate in GRID]

    def needs(self) -> Iterable[Mapping[str, Any]]:
        return Figure2().needs()

    def _config(self, part: str, seed: int) -> Config:
        split = {"name": "class-split", "per_client": 5, "train_classes": 100}
        common = (split, 100, tau_of(part.partition(",")[0]), self.steps, seed + 1, "bfloat16")
        return network_config("cifar100", *common, rate=_rate(part))

    def recipe(self, part: str, seed: int) -> Facts:
        if not part.startswith(TUNING):
            return recipe_of(self._config(part, seed))
        figure = Figure2.at("reduced")
        return {"step": _rate(part)} | {each: figure.recipe(each, seed) for each in figure.parts()}

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        if part.startswith(TUNING):
            return {"loss": float(np.mean([_tuned_loss(each, _rate(part), seed, place) for each in Figure2().parts()]))}
        run, federation = trained(self._config(part, seed), place)
        losses = [loss for _, loss in run.history.column("train_loss")]
        rows = np.arange(0, len(federation.test.y), len(federation.test.y) // PROBES)
        features = shared_features(run, federation, rows)
        differs = float((features - features.mean(0)).norm() / features.norm())
        return {"loss": float(np.mean(losses[-max(1, round(END * len(losses))) :])), "differs": differs}

    def _chosen(self, found: Measured, what: str) -> float | None:
        """The step size with the lowest training loss; one that diverged has none."""
        losses = {rate: [f["loss"] for f in found.get(f"{what}, step {rate:g}", {}).values()] for rate in GRID}
        means = {rate: float(np.mean(values)) for rate, values in losses.items() if values}
        return min(means, key=lambda rate: means[rate]) if means else None

    def claims(self, found: Measured) -> list[Claim]:
        best = {what: self._chosen(found, what) for what in CHOSEN}
        chosen = [
            holds(f"{_words(what)}: {CHOSEN[what]:g}", rate == CHOSEN[what], f"lowest with {rate:g}")
            for what, rate in best.items()
            if rate is not None
        ]
        lost = [
            holds(f"{_words('tau 50')}, step {RATE:g}: below {FORGOTTEN:g}", differs < FORGOTTEN, f"{differs:.2g}")
            for facts in found.get(f"tau 50, step {RATE:g}", {}).values()
            for differs in (facts["differs"],)
        ]
        words = "with the paper's step size, the features of FedAvg's network are the same for all images"
        return [
            Claim("the figures' step sizes have the lowest training loss", tuple(chosen), found_here=True),
            Claim(words, tuple(lost), found_here=True),
        ]

    def table(self, found: Measured) -> list[Cell]:
        return [
            Cell(f"{_words(what)}: {fact}", f"{rate:g}", [facts[key] for facts in runs.values()], None)
            for what in CHOSEN
            for key, fact in (
                ("loss", "training loss"),
                ("differs", "share of the features that differs between images"),
            )
            for rate in GRID
            if (runs := found.get(f"{what}, step {rate:g}", {})) and all(key in facts for facts in runs.values())
        ]

    def figure(self, found: Measured) -> Any:
        charts = []
        for key, y in (("loss", "training loss"), ("differs", "features that differ between images")):
            rows = [
                row(_words(part.partition(",")[0]), seed, _rate(part), facts[key])
                for part, runs in found.items()
                for seed, facts in runs.items()
                if key in facts
            ]
            charts.append(banded(rows, y, "step size", log=key == "differs", log_x=True, points=True))
        return alt.hconcat(*charts)


def _rate(part: str) -> float:
    return float(part.rpartition(" ")[2])


def _words(what: str) -> str:
    return what if what == TUNING else line_of(tau_of(what))


def _tuned_loss(part: str, rate: float, seed: int, place: Place) -> float:
    """The loss of the new clients of Figure 2 on the samples that they were fine-tuned on."""
    run, federation = trained(Figure2.at("reduced").config(part, seed), place)
    place.say(f"fine-tuning new clients with step {rate:g}")
    return float(run.new_predictions(federation, replace(TUNE, lr=rate), "train").losses.mean())
