"""Confidence intervals of a score, and of a difference between two models evaluated on the same samples.

A sample is a test sample of one fold; each (fold, seed) is a run, a training of its own, which may shift everything that
is evaluated with it. ``docs/statistics.md`` explains the interval and shows how often it covers the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from manyheads.metrics.differences import Differences, Moments
from manyheads.metrics.sampling import Kind, sampling

__all__ = ["Differences", "Estimate", "Kind", "Moments", "Part", "estimate", "overall"]

REUSED: dict[Kind, float] = {"share": 1.5, "difference": 1.25, "measure": 1.5}
"""in cross-validation, by how much the variance over samples is larger because test samples train the other folds"""
LEAST_P = 1e-12


class Part(NamedTuple):
    """A part of an estimate's variance, and the degrees of freedom with which it is known."""

    variance: float
    freedom: float

    def square(self, p: float) -> float:
        """The square of the half-width of an interval of level 1 - p, if this were the only part."""
        if not self.variance:
            return 0.0
        from scipy.special import stdtrit  # slow to import

        return float(stdtrit(self.freedom, p / 2)) ** 2 * self.variance


NOTHING = Part(0.0, np.inf)


@dataclass(frozen=True)
class Estimate:
    """A level or difference, with the parts of its variance; squares of half-widths of independent parts add up.

    Test samples vary; runs vary too, by at least as much as their part of the variance over samples says.
    """

    value: float
    common: Part
    """variance over test samples that all runs share"""
    noise: Part
    """variance over test samples that differs between runs"""
    runs: Part
    """variance between runs: over folds; over seeds if there is one fold; over sites if there is one run"""
    by_seed: float
    """the part of ``runs`` that more seeds would make smaller"""
    seeds: int
    folds: int
    near: float = np.nan
    """of a share: the value with pseudo-samples, never 0 or 1"""
    largest: float = np.inf
    """absolute value that is possible"""

    @property
    def runs_known(self) -> bool:
        """Whether there was more than one run; else a shift of the only one is not in the interval."""
        return self.seeds * self.folds > 1

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The confidence interval; of a share that of Wilson 1927, for as many samples as give this variance."""
        p = 1 - level
        square = self.common.square(p) + max(self.noise.square(p), self.runs.square(p))
        center, scale = self.value, 1.0
        if not np.isnan(self.near):
            ratio = square / (self.near * (1 - self.near))
            scale = 1 + ratio
            center = (self.value + ratio / 2) / scale
            square = ratio * self.value * (1 - self.value) + ratio**2 / 4
        half = square**0.5 / scale
        return max(center - half, -self.largest), min(center + half, self.largest)

    @cached_property
    def p_value(self) -> float:
        """The smallest p for which the interval of level 1 - p excludes 0."""
        known, excluded = LEAST_P, 1.0
        while excluded / known > 1 + 1e-6:
            p = (known * excluded) ** 0.5
            low, high = self.interval(1 - p)
            known, excluded = (known, p) if low > 0 or high < 0 else (p, excluded)
        return excluded


def estimate(site: Moments, kind: Kind) -> Estimate:
    """An estimate of one site's level or difference.

    >>> each, zeros = np.ones((1, 3)), np.zeros(3, int)
    >>> site = Moments.of(Differences(each.mean(axis=1), each, zeros, zeros, span=1))
    >>> low, high = estimate(site, "difference").interval()
    >>> low < 0.3
    True
    """
    return overall([site], kind)


def overall(sites: Sequence[Moments], kind: Kind) -> Estimate:
    """An estimate of the mean over sites; samples differ between sites, runs are common to all."""
    count, seeds = len(sites), len(sites[0].values)
    dealt = max(site.folds for site in sites)
    sampled = [sampling(site, kind, count) for site in sites]
    variances, freedom = (np.concatenate(parts) for parts in zip(*(s[:2] for s in sampled), strict=True))
    samples = _sum(variances, freedom, count)
    runs = np.stack([_runs(site, dealt) for site in sites])  # [sites, seeds, folds]
    runs = np.nan_to_num(runs[:, :, ~np.isnan(runs).all(axis=(0, 1))]).mean(axis=0)
    folds = runs.shape[1]
    by_seed = float(runs.var(axis=0, ddof=1).mean()) / runs.size if seeds > 1 and folds else 0.0
    between, differing = NOTHING, 0.0
    if folds > 1:
        between, differing = Part(float(runs.mean(axis=0).var(ddof=1)) / folds, folds - 1), 1.0
    elif seeds > 1:
        between = Part(by_seed, seeds - 1)
        residual = sum(site.residual for site in sites) / count**2
        differing = min(residual / samples.variance, 1.0) if samples.variance else 0.0
    elif count > 1 and kind != "share":
        between = Part(float(np.var([site.values[0] for site in sites], ddof=1)) / count, count - 1)
        differing = 1.0
    value = float(np.mean([np.mean(site.values) for site in sites]))
    variance = samples.variance * (REUSED[kind] if dealt > 1 else 1.0)
    return Estimate(
        value=value,
        common=Part((1 - differing) * variance if differing < 1 else 0.0, samples.freedom),
        noise=Part(differing * variance if differing else 0.0, samples.freedom),
        runs=between,
        by_seed=by_seed,
        seeds=seeds,
        folds=folds,
        near=value + sum(s.shift for s in sampled) / count if kind == "share" else np.nan,
        largest=np.inf if kind == "measure" else 1.0,
    )


def _runs(site: Moments, folds: int) -> np.ndarray:
    """How far the site's value in each run is above its mean over runs, [seeds, folds]; NaN where it has none."""
    if folds == 1:
        values = np.array(site.values)
        return (values - values.mean())[:, None]
    lacking = np.full((len(site.values), folds - site.folds), np.nan)
    return np.concatenate([np.array(site.runs), lacking], axis=1)


def _sum(variances: np.ndarray, freedom: np.ndarray, count: int) -> Part:
    """The variance of a mean over sites, with the degrees of freedom of Satterthwaite 1946."""
    total = float(variances.sum())
    if not 0 < total < np.inf:
        return Part(total, 1.0)
    return Part(total / count**2, total**2 / float((variances**2 / freedom).sum()))
