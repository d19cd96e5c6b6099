"""Figure 4: with local steps, features of one class are alike and those of two classes are not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, ClassVar

import altair as alt
import numpy as np
from pydantic import Field

from manyheads.core.settings import settings
from manyheads.metrics import class_cosine_similarity
from manyheads.reproduce.claims import Claim, above_by_units, holds
from manyheads.reproduce.collins2022.linear import tau_of
from manyheads.reproduce.collins2022.networks import (
    OURS,
    QUICK,
    REDUCED,
    STEPS,
    Precision,
    line_of,
    network_config,
    shared_features,
    untrained,
)
from manyheads.reproduce.drawing import matrix
from manyheads.reproduce.experiment import Experiment, Facts, Measured, Place, Scale, register
from manyheads.reproduce.training import recipe_of, trained
from manyheads.run.config import Config

__all__ = ["Figure4", "contrast"]

NONE = 0.1
"""a diagonal that stands out by less than this is none"""


def contrast(similarity: list[list[float]]) -> np.ndarray:
    """For each class, how much more alike its own features are than those of it and another class, on average.

    >>> contrast([[0.9, 0.2], [0.4, 0.7]]).round(3).tolist()
    [0.7, 0.3]
    """
    s = np.array(similarity)
    own = np.diag(s)
    return np.asarray(own - (s.sum(axis=1) - own) / (len(s) - 1))


def _as_good(accuracies: Mapping[str, Sequence[float]]) -> str:
    """That D-SGD's network is as good as those of FedAvg, with the accuracies of each; empty if it is not.

    >>> _as_good({"D-SGD": [0.7], "FedAvg, 10 local steps": [0.6]})
    "D-SGD learns here, from He's weights with a step size of its own: accuracies are D-SGD 70.0, FedAvg, 10 local steps 60.0 %"
    """
    means = {line: 100 * float(np.mean(values)) for line, values in accuracies.items()}
    if means.get(line_of(1), 0) < max(means.values()):
        return ""
    words = ", ".join(f"{line} {mean:.1f}" for line, mean in means.items())
    return f"D-SGD learns here, from He's weights with a step size of its own: accuracies are {words} %"


@register
@settings
class Figure4(Experiment):
    """Cosine similarity of the features of two classes, for several numbers of local steps."""

    name: ClassVar[str] = "collins2022.figure4"
    title: ClassVar[str] = "Similarity of features within and between the classes of CIFAR-10"
    about: ClassVar[str] = (
        """The six-layer network on CIFAR-10, 100 clients with 500 images each whose class shares are drawn from a
        Dirichlet distribution with parameter 0.6. Mean absolute cosine of 25 pairs of features (512, before the last layer) of
        test images for each two classes; on the diagonal, of two different images of the class. Every model makes the same number
        of local steps in all."""
        + OURS
        + " FedAvg's was looked at with 50 local steps, and serves 10 and 30, too."
    )
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {
        "quick": QUICK | {"taus": (1, 50)},
        "reduced": REDUCED,
        "paper": {},
    }
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 3, "reduced": 85, "paper": 1000}

    steps: Annotated[int, Field(ge=1)] = STEPS
    """local steps of a model, T tau"""
    precision: Precision = "float32"
    """of the products in training"""
    taus: tuple[int, ...] = (1, 10, 30, 50)
    pairs: Annotated[int, Field(ge=2)] = 25

    def parts(self) -> list[str]:
        return [f"tau {tau}" for tau in self.taus]

    def needs(self) -> Iterable[Mapping[str, Any]]:
        return [{"name": "cifar10"}]

    def _config(self, part: str, seed: int) -> Config:
        split = {"name": "dirichlet-shares", "alpha": 0.6, "samples": 500}
        return network_config("cifar10", split, 100, tau_of(part), self.steps, seed, self.precision)

    def recipe(self, part: str, seed: int) -> Facts:
        return recipe_of(self._config(part, seed)) | {"pairs": self.pairs}

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        run, federation = trained(self._config(part, seed), place)
        y = federation.test.y
        rows = np.concatenate([np.flatnonzero(y == label)[: self.pairs] for label in range(federation.outputs)])
        features = shared_features(run, federation, rows)
        similarity = class_cosine_similarity(features, y[rows], self.pairs, distinct=True)
        return {"similarity": similarity.tolist(), "accuracy": run.accuracy}

    def claims(self, found: Measured) -> list[Claim]:
        by_tau = {
            tau_of(part): [contrast(facts["similarity"]) for facts in runs.values()] for part, runs in found.items()
        }
        taus = sorted(by_tau)
        grows = [
            above_by_units(f"tau {more} above tau {less}", by_tau[more], by_tau[less], units="classes")
            for less, more in pairwise(taus)
        ]
        none = [
            holds("D-SGD: diagonal minus the rest is below 0.1", bool(np.mean(by_tau[1]) < NONE), f"{np.mean(by_tau[1]):.3f}")
        ] if 1 in by_tau else []  # fmt: skip
        own = {tau: [np.diag(f["similarity"]) for f in found[f"tau {tau}"].values()] for tau in taus}
        alike = [
            above_by_units(f"tau {tau} above tau 1", own[tau], own[1], units="classes") for tau in taus[1:] if 1 in own
        ]
        reached = {line_of(tau_of(part)): [f["accuracy"] for f in runs.values()] for part, runs in found.items()}
        idle = untrained(reached, classes=10)
        return [
            Claim("the diagonal stands out more with more local steps", tuple(grows), idle or _as_good(reached)),
            Claim("D-SGD's matrix has no diagonal", tuple(none), idle or _as_good(reached)),
            Claim("features of one class are more alike by FedAvg than by D-SGD", tuple(alike), found_here=True),
        ]

    def figure(self, found: Measured) -> Any:
        charts = []
        for tau in self.taus:
            runs = found.get(f"tau {tau}", {})
            if runs:
                mean = np.mean([facts["similarity"] for facts in runs.values()], axis=0).tolist()
                stands = np.mean([contrast(facts["similarity"]) for facts in runs.values()])
                charts.append(matrix(mean, f"{line_of(tau)} ({stands:+.2f})", x="class", y="class"))
        return alt.hconcat(*charts)
