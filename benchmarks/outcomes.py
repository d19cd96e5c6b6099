"""Outcome tables drawn at random, with a known gain: what two models get right on the same samples, in every run.

A sample is classified right if a normal variable is below a threshold, which the accuracy of the run sets. The variable
is the sum of three: how hard the sample is (the same for both models), how hard it is for this model, and luck of the run.
For the AUC the same variable, plus a distance for positive samples, is the score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from manyheads.metrics.paired import Differences

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


class Site(NamedTuple):
    """The gain of the chosen method at one site, and its level."""

    gain: Differences
    level: Differences


def federation(rng: np.random.Generator, s: Scenario) -> list[Site]:
    """One repetition: every site, with the runs that they have in common."""
    common = s.common * rng.normal(size=(s.seeds, s.folds))
    chosen = _choice(rng, s)
    return [_site(rng, s, n, common + s.own * rng.normal(size=common.shape), chosen) for n in s.sizes]


def _choice(rng: np.random.Generator, s: Scenario) -> np.ndarray:
    """The method that wins in each fold, by the mean over sites of gains on a fifth of the training samples."""
    variance = s.common**2 + sum(s.own**2 + 0.1 / (0.2 * n) for n in s.sizes) / len(s.sizes) ** 2
    return rng.normal(s.gain, variance**0.5, (s.methods, s.folds)).argmax(axis=0)


def _site(rng: np.random.Generator, s: Scenario, n: int, shift: np.ndarray, chosen: np.ndarray) -> Site:
    positive = rng.permutation(np.arange(n) < round(POSITIVE * n))
    order = np.argsort(positive, kind="stable")  # folds are stratified
    fold = np.empty(n, int)
    fold[order] = np.arange(n) % s.folds
    hard, rest = rng.normal(size=n), ((1 - s.alike) / 2) ** 0.5
    own = rng.normal(size=(s.methods + 1, n))
    luck = rng.normal(size=(2, s.seeds, n))
    method, alone = (
        s.alike**0.5 * hard + rest * (mine + lucky)
        for mine, lucky in zip((own[chosen[fold], np.arange(n)], own[-1]), luck, strict=True)
    )
    level = np.clip(LEVEL + s.gain + shift[:, fold], 0.01, 0.99)
    if s.metric == "auc":
        level = 2**0.5 * ndtri(level) * positive
        found = [delong(score, positive, fold, s.folds) for score in (method + level, alone + _distance() * positive)]
    else:
        found = [_means(method < ndtri(level), positive, fold, s), _means(alone < ndtri(LEVEL), positive, fold, s)]
    a, b = found
    gain = Differences(a.values - b.values, a.each - b.each, a.stratum, fold, a.span, _minus(a.runs, b.runs))
    return Site(gain, a)


def _distance() -> float:
    return float(2**0.5 * ndtri(LEVEL))


def _minus(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    return None if a is None or b is None else a - b


def _means(right: np.ndarray, positive: np.ndarray, fold: np.ndarray, s: Scenario) -> Differences:
    """Accuracy, or its mean over the two classes."""
    if s.metric == "accuracy":
        return Differences(right.mean(axis=1), right.astype(float), np.zeros(len(fold), int), fold, 1.0)
    values = (right[:, positive].mean(axis=1) + right[:, ~positive].mean(axis=1)) / 2
    return Differences(values, right / 2, positive.astype(int), fold, 0.5)


def delong(score: np.ndarray, positive: np.ndarray, fold: np.ndarray, folds: int) -> Differences:
    """The AUC of pairs in the same fold, with the components of DeLong, DeLong and Clarke-Pearson 1988."""
    seeds, n = score.shape
    right, runs, pairs = np.zeros((seeds, n)), np.full((seeds, folds), np.nan), np.zeros(n)
    for k in range(folds):
        up, down = np.flatnonzero(positive & (fold == k)), np.flatnonzero(~positive & (fold == k))
        if len(up) and len(down):
            above = score[:, up, None] > score[:, None, down]
            right[:, up], right[:, down] = above.sum(axis=2), above.sum(axis=1)
            pairs[up], pairs[down] = len(down), len(up)
            runs[:, k] = above.mean(axis=(1, 2))
    total = pairs.sum() / 2
    values = right.sum(axis=1) / 2 / total
    size = np.where(positive, positive.sum(), (~positive).sum())
    each = values[:, None] + size * (right - values[:, None] * pairs) / total
    return Differences(values, each, positive.astype(int), fold, 1.0, runs)


def disagreement(alike: float) -> float:
    """How often of two models exactly one is right, by simulation."""
    rng = np.random.default_rng(0)
    hard, others = rng.normal(size=10**6), rng.normal(size=(2, 10**6))
    a, b = (alike**0.5 * hard + (1 - alike) ** 0.5 * other < ndtri(LEVEL) for other in others)
    return float((a != b).mean())


def true_level(s: Scenario) -> float:
    """The level of the method, which shifts do not change on average (but for the clipping of large ones)."""
    return float(ndtr(ndtri(LEVEL + s.gain)))
