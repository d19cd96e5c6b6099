"""Figure 5: more local epochs never hurt FedRep; FedAvg they may."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from manyheads.core.settings import settings
from manyheads.reproduce.claims import Check, Claim, mean_and_interval
from manyheads.reproduce.collins2021.columns import COLUMNS, FIRST, ROWS
from manyheads.reproduce.collins2021.table1 import QUICK, cell_config
from manyheads.reproduce.drawing import banded, row
from manyheads.reproduce.experiment import Experiment, Facts, Measured, Place, Scale, register
from manyheads.reproduce.training import recipe_of, trained
from manyheads.run.config import Config

__all__ = ["Figure5"]

NOISE = 1.0
"""points by which an error may rise with more epochs by chance"""


def _rises(points: float) -> bool | None:
    """Whether an error rises; by so little that it may be chance, that cannot be told."""
    return True if points > NOISE else False if points <= 0 else None


def _fading(rises: list[float]) -> str:
    """That more epochs help less and less, and in the end perhaps not at all; empty if they do otherwise.

    >>> _fading([-7.3, -3.6, -0.5])
    'each step to more epochs helps less: by 7.3, 3.6, 0.5 points, the last of which may be chance'
    """
    if rises != sorted(rises) or not rises or not -NOISE < rises[-1] <= 0:
        return ""
    gains = ", ".join(f"{-rise:.1f}" for rise in rises)
    return f"each step to more epochs helps less: by {gains} points, the last of which may be chance"


@register
@settings
class Figure5(Experiment):
    """Test error against the number of local epochs."""

    name: ClassVar[str] = "collins2021.figure5"
    title: ClassVar[str] = "Test error with more local epochs: of the heads for FedRep, of the whole model for FedAvg"
    about: ClassVar[
        str
    ] = """CIFAR-10 with 100 clients of two shards each, all settings those of Table 1's first column, except for E: the
        epochs of the head in FedRep (with one epoch of the representation), of the whole model in FedAvg. Error on each client's
        own test samples, mean over clients and over the last ten rounds."""
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {"quick": {"share": QUICK, "epochs": (1, 5)}, "paper": {}}
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 2, "paper": 110}

    epochs: tuple[int, ...] = (1, 2, 5, 10)
    """the values of E; the paper does not give its own, and 20 epochs of FedAvg would take as long as all others together"""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """fraction of the paper's rounds"""

    def parts(self) -> list[str]:
        return [f"{method}, E {e}" for e in self.epochs for method in ("FedRep", "FedAvg")]

    def needs(self) -> Iterable[Mapping[str, Any]]:
        return [COLUMNS[FIRST].data]

    def _config(self, part: str, seed: int) -> Config:
        method, e = part.split(", E ")
        config = cell_config(COLUMNS[FIRST], ROWS[method].algorithm, seed, self.share)
        config.algorithm["head_epochs" if method == "FedRep" else "epochs"] = int(e)
        return config

    def recipe(self, part: str, seed: int) -> Facts:
        return recipe_of(self._config(part, seed))

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        run, _ = trained(self._config(part, seed), place)
        assert run.accuracy is not None
        return {"error": 100 * (1 - run.accuracy)}

    def _errors(self, found: Measured, method: str) -> dict[int, dict[int, float]]:
        """By E and seed."""
        parts = {e: found.get(f"{method}, E {e}", {}) for e in self.epochs}
        return {e: {seed: facts["error"] for seed, facts in runs.items()} for e, runs in parts.items() if runs}

    def claims(self, found: Measured) -> list[Claim]:
        fedrep, fedavg = (self._errors(found, method) for method in ("FedRep", "FedAvg"))
        checks = []
        for (less, before), (more, after) in pairwise(fedrep.items()):
            rise, half = mean_and_interval(
                [after[seed] - before[seed] for seed in sorted(after.keys() & before.keys())]
            )
            words = f"{rise:+.2f} points of error" + (f" ± {half:.2f}" if np.isfinite(half) else ", one seed")
            checks.append(
                Check(f"E {less} to {more}: does not rise by more than {NOISE:g} point", rise <= NOISE, words)
            )
        means = [float(np.mean(list(errors.values()))) for errors in fedavg.values()]
        rises = [b - a for a, b in pairwise(means)]
        words = "errors " + ", ".join(f"{e}: {m:.1f}" for e, m in zip(fedavg, means, strict=True))
        turn = () if not rises else (Check("the error rises somewhere", _rises(max(rises)), words),)
        return [
            Claim("FedRep does not get worse with more epochs of the head", tuple(checks)),
            Claim("more local updates do not always improve FedAvg", turn, _fading(rises)),
        ]

    def figure(self, found: Measured) -> Any:
        rows = [
            row(part.split(",")[0], seed, int(part.split()[-1]), facts["error"])
            for part, runs in found.items()
            for seed, facts in runs.items()
        ]
        x = "local epochs E"
        return banded(rows, "test error %", x, points=True, log_x=True, width=380, height=240)
