"""Confidence intervals of a score, and of a difference between two models evaluated on the same samples.

A sample is a test sample of one fold; each (fold, seed) is a run, a training of its own, which may shift everything that
is evaluated with it. ``docs/statistics.md`` explains the interval and shows how often it covers the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

__all__ = ["Differences", "Estimate", "Kind", "Part", "estimate", "overall"]

Kind = Literal["share", "difference", "measure"]
"""what the values are: numbers from 0 to ``span``, differences of two such numbers, or any numbers"""
_ADDED: dict[Kind, tuple[tuple[float, float], ...]] = {
    "share": ((1, 2), (0, 2)),  # Agresti and Coull 1998
    "difference": ((1, 0.5), (-1, 0.5), (0, 1)),  # Agresti and Min 2005
    "measure": (),
}
"""(value, how often): pseudo-samples added for the interval, which a few equal samples would otherwise make empty"""


class Differences(NamedTuple):
    """One site's difference between two models (or the level of one), of every seed and every sample."""

    values: np.ndarray
    """the metric's difference, [seeds]; higher is better"""
    each: np.ndarray
    """how much each sample contributes, [seeds, samples]; see ``Contributions``"""
    stratum: np.ndarray
    """[samples]"""
    fold: np.ndarray
    """[samples]"""
    span: float = np.nan
    """width of the range of a model's ``each``; NaN if it is not bounded"""
    runs: np.ndarray | None = None
    """the metric's difference on the samples of each fold, [seeds, folds], NaN where it is not defined; None: the sum
    over strata of the means of ``each``"""


class Part(NamedTuple):
    """A part of an estimate's variance, and the degrees of freedom with which it is known."""

    variance: float
    freedom: float

    def square(self, quantile: float) -> float:
        """The square of the half-width that the part alone would give the interval."""
        return _student(self.freedom, quantile) ** 2 * self.variance if self.variance else 0.0


NOTHING = Part(0.0, np.inf)


@dataclass(frozen=True)
class Estimate:
    """A difference or level with its uncertainty: the squares of the half-widths of independent parts add up (MOVER)."""

    value: float
    center: float
    """of the interval"""
    samples: Part
    """that there are only so many test samples"""
    residual: Part
    """within ``samples``: what differs from run to run on the same sample"""
    runs: Part
    """variance over seeds of the means of runs"""
    folds: Part
    """variance over folds of their means"""
    overlap: Part
    """that training sets of folds overlap (Nadeau and Bengio 2003)"""
    runs_known: bool
    """whether there was more than one run; else shifts of a run are not in the interval"""

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        half = self._half(1 - level)
        return self.center - half, self.center + half

    @cached_property
    def p_value(self) -> float:
        """The smallest p for which the interval of level 1 - p excludes 0."""
        low, high = -40.0, 0.0  # logarithms
        if not np.isfinite(self.samples.variance):
            return 1.0
        while high - low > 1e-6:
            middle = (low + high) / 2
            low, high = (low, middle) if self._half(np.exp(middle)) < abs(self.center) else (middle, high)
        return float(np.exp(high))

    def _half(self, p: float) -> float:
        q = p / 2
        run = self.samples.square(q) + max(self.runs.square(q) - self.residual.square(q), 0.0)
        return float((max(run, self.folds.square(q)) + self.overlap.square(q)) ** 0.5)


def estimate(site: Differences, kind: Kind) -> Estimate:
    """An estimate of one site's difference or level.

    >>> ones, zeros = np.ones((1, 3)), np.zeros(3, int)
    >>> low, high = estimate(Differences(ones.mean(axis=1), ones, zeros, zeros, span=1), "difference").interval()
    >>> low < 0.3
    True
    """
    return overall([site], kind)


def overall(sites: Sequence[Differences], kind: Kind) -> Estimate:
    """An estimate of the mean over sites; samples differ between sites, runs are common to all."""
    count = len(sites)
    # the pseudo-samples of a single site are divided among all sites
    sampled = [_sampling(site, kind, 1 / count) for site in sites]
    value = float(np.mean([site.values.mean() for site in sites]))
    center = value + (sampled[0].shift if count == 1 else 0.0)
    samples = _sum([part for s in sampled for part in s.parts], count)
    residual = Part(sum(s.residual for s in sampled) / count**2, samples.freedom)
    folds = max(int(site.fold.max(initial=0)) for site in sites) + 1
    runs = np.mean([_deviations(site, folds) for site in sites], axis=0)
    seeds = len(runs)
    within = between = overlap = NOTHING
    if seeds > 1:
        variance = float(runs.var(axis=0, ddof=1).mean())
        within = Part(variance / runs.size, folds * (seeds - 1))
    if folds > 1:
        variance = float(runs.mean(axis=0).var(ddof=1))
        between = Part(variance / folds, folds - 1)
        beyond = max(variance - folds * samples.variance, 0.0)
        overlap = Part(beyond / (folds - 1), folds - 1)
    return Estimate(value, center, samples, residual, within, between, overlap, runs.size > 1)


class _Sampling(NamedTuple):
    parts: list[Part]
    """of each stratum"""
    residual: float
    shift: float
    """of the value, by pseudo-samples"""


def _sampling(site: Differences, kind: Kind, added: float) -> _Sampling:
    """The variance of a site's value over its samples."""
    each = site.each.mean(axis=0)
    rest = site.each - each
    _, stratum, n = np.unique(site.stratum, return_inverse=True, return_counts=True)
    mean = np.bincount(stratum, each) / n
    count, total, square = n.astype(float), np.bincount(stratum, each), np.bincount(stratum, each**2)
    size = _size(site) if kind == "difference" else site.span
    for pseudo, often in _ADDED[kind]:
        count, total, square = (
            count + added * often,
            total + added * often * pseudo * size,
            square + added * often * (pseudo * size) ** 2,
        )
    spread = np.maximum(square / count - (total / count) ** 2, 0.0)
    free = count - (kind == "measure")
    parts = [
        Part(float(s / f) if f > 0 else np.inf, max(float(c - 1), 1.0))
        for s, f, c in zip(spread, free, count, strict=True)
    ]
    residual = 0.0
    if len(rest) > 1:
        rest = rest - np.stack([np.bincount(stratum, row) / n for row in rest])[:, stratum]
        variances = np.bincount(stratum, (rest**2).sum(axis=0)) / ((len(rest) - 1) * np.maximum(n - 1, 1))
        residual = float((variances / n).sum()) / len(rest)
    return _Sampling(parts, residual, float((total / count - mean).sum()))


def _size(site: Differences) -> float:
    """How much a pseudo-sample differs: as much as the samples that do; by the whole span if there are none."""
    square = site.each**2
    some = np.count_nonzero(square)
    return float((square.sum() / some) ** 0.5) if some else site.span


def _deviations(site: Differences, folds: int) -> np.ndarray:
    """How much a site's value in each run, [seeds, folds], is above its mean over runs."""
    if folds == 1:
        return (site.values - site.values.mean())[:, None]
    if site.runs is not None:
        found = site.runs - np.nanmean(site.runs)
        return np.where(np.isnan(found), 0.0, found)
    found = np.zeros((len(site.values), folds))
    for stratum in np.unique(site.stratum):
        own = site.stratum == stratum
        each = site.each[:, own] - site.each[:, own].mean()
        size = np.bincount(site.fold[own], minlength=folds)
        found += np.stack([np.bincount(site.fold[own], row, minlength=folds) for row in each]) / np.maximum(size, 1)
    return found


def _sum(parts: Sequence[Part], count: int) -> Part:
    """The variance of a mean over sites, with the degrees of freedom of Satterthwaite 1946."""
    variance = sum(part.variance for part in parts)
    if not 0 < variance < np.inf:
        return Part(variance, 1.0)
    freedom = variance**2 / sum(part.variance**2 / part.freedom for part in parts)
    return Part(variance / count**2, freedom)


def _student(freedom: float, quantile: float) -> float:
    from scipy.special import stdtrit  # slow to import

    return float(stdtrit(freedom, quantile))
