"""Predictions drawn at random, with a known gain: of two models, for the same samples, in every run.

A sample is classified right if a normal variable is below a threshold, which the accuracy of the run sets. The variable
is the sum of three: how hard the sample is (the same for both models), how hard it is for this model, and the luck of
the run. For the AUC the same variable, plus a distance for positive samples, is the score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from manyheads.experiments.differences import difference, site_score
from manyheads.experiments.outcomes import OutOfFold
from manyheads.metrics import METRICS, Metric, Predictions
from manyheads.metrics.paired import Differences, Moments

SIZES = (20, 20, 50, 50, 100, 100, 200, 200, 500, 1000)
"""test samples of each site, over all folds"""
POSITIVE = 0.25
LEVEL = 0.8
"""the true accuracy or AUC of training alone"""


@dataclass(frozen=True)
class Scenario:
    """What is drawn."""

    metric: str = "accuracy"
    """accuracy, balanced_accuracy or auc"""
    folds: int = 5
    seeds: int = 3
    common: float = 0.0
    """standard deviation of a run's shift at all sites alike"""
    own: float = 0.0
    """standard deviation of a run's shift at each site by itself"""
    gain: float = 0.0
    methods: int = 1
    """of which the one with the best gain on validation samples is taken in each fold"""
    alike: float = 0.9
    """the part of the variance of a sample's difficulty that is the same for all models"""
    sizes: tuple[int, ...] = SIZES

    @property
    def level(self) -> float:
        """The true level of the method."""
        return LEVEL + self.gain


class Drawn(NamedTuple):
    """The gain of the chosen method at every site, and its level."""

    gains: list[Moments]
    levels: list[Moments]


Scored = list[Differences | None]
"""the score at each site; None where the metric is not defined"""


def scored(metric: Metric, seeds: list[OutOfFold]) -> Scored:
    """The scores at each site."""
    return [site_score(metric, [each.client(site) for each in seeds]) for site in range(len(seeds[0].predictions))]


def differences(method: Scored, other: Scored, sign: int) -> list[Differences]:
    """By how much a method is better than another, at each site where both are defined."""
    both = zip(method, other, strict=True)
    return [difference(a, b, sign) for a, b in both if a is not None and b is not None]


def draw(rng: np.random.Generator, s: Scenario) -> Drawn:
    """One repetition."""
    sizes = np.array(s.sizes)
    n, site = sizes.sum(), np.repeat(np.arange(len(sizes)), sizes)
    positive = np.concatenate([rng.permutation(size) < round(POSITIVE * size) for size in sizes])
    fold = np.empty(n, int)
    fold[np.lexsort([positive, site])] = np.arange(n) % s.folds  # stratified by label at every site
    shift = s.common * rng.normal(size=(s.seeds, 1, s.folds)) + s.own * rng.normal(size=(s.seeds, len(sizes), s.folds))
    hard, luck = rng.normal(size=n), rng.normal(size=(2, s.seeds, n))
    own = rng.normal(size=(s.methods + 1, n))
    mine = own[_chosen(rng, s)[fold], np.arange(n)], own[-1]
    levels = np.clip(s.level + shift[:, site, fold], 0.01, 0.99), np.full((s.seeds, n), LEVEL)
    rest = ((1 - s.alike) / 2) ** 0.5
    method, alone = (
        scored(
            METRICS[s.metric](),
            [_predictions(s, row, at, positive, fold) for row, at in zip(s.alike**0.5 * hard + rest * (m + e), level, strict=True)],
        )
        for m, e, level in zip(mine, luck, levels, strict=True)
    )  # fmt: skip
    gains, levels = differences(method, alone, 1), [each for each in method if each is not None]
    return Drawn([Moments.of(each) for each in gains], [Moments.of(each) for each in levels])


def _chosen(rng: np.random.Generator, s: Scenario) -> np.ndarray:
    """The method that wins in each fold, by the mean over sites of gains on a fifth of the training samples."""
    variance = s.common**2 + sum(s.own**2 + 0.1 / (0.2 * n) for n in s.sizes) / len(s.sizes) ** 2
    return rng.normal(s.gain, variance**0.5, (s.methods, s.folds)).argmax(axis=0)


def _predictions(
    s: Scenario, variable: np.ndarray, level: np.ndarray, positive: np.ndarray, fold: np.ndarray
) -> OutOfFold:
    labels = positive.astype(int)
    score = variable + 2**0.5 * ndtri(level) * positive
    if s.metric != "auc":
        score = np.where((variable < ndtri(level)) == positive, 1.0, -1.0)
    outputs = np.stack([np.zeros_like(score), score], axis=1)
    return OutOfFold(Predictions(outputs, labels, np.zeros_like(score), np.array(s.sizes)), fold)
