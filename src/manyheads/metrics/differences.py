"""What is known of one site about a difference between two models (or a level of one), and what the site tells of it.

A site has a number for every sample; it tells counts and moments of these, which are all that an interval needs, of the
site or of the mean over any number of sites.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from manyheads.core.records import Number

__all__ = ["Differences", "Moments"]


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


@dataclass(frozen=True, kw_only=True)
class Moments:
    """What a site tells of its :class:`Differences`: counts and moments over its samples, and the values of its runs.

    Sums are over the samples of a stratum, of each sample's mean over seeds.

    >>> each, zeros = np.array([[0.0, 1.0, 1.0]]), np.zeros(3, int)
    >>> found = Moments.of(Differences(each.mean(axis=1), each, zeros, zeros, span=1))
    >>> found.counts, found.sums, found.samples
    ((3,), (2.0,), 3)
    """

    values: tuple[Number, ...]
    """the metric's difference for each seed; higher is better"""
    counts: tuple[int, ...]
    """samples of each stratum"""
    sums: tuple[Number, ...]
    """of what they contribute, in each stratum"""
    squares: tuple[Number, ...]
    """the sums of the squares"""
    size: Number
    """of a pseudo-sample: the root mean square of contributions that are not 0; ``span`` if all are"""
    span: Number
    """width of the range of a model's contributions; NaN if it is not bounded"""
    residual: Number
    """the part of the variance over samples that differs from run to run on the same samples"""
    runs: tuple[tuple[Number, ...], ...]
    """for each seed, how far the value in each fold is above the mean over runs; NaN where it has none"""

    def __post_init__(self) -> None:
        strata = {len(self.counts), len(self.sums), len(self.squares)}
        if len(strata) > 1 or 0 in strata or min(self.counts) < 1:
            raise ValueError("every stratum has a count of at least 1, a sum and a sum of squares")
        if len(self.values) != len(self.runs) or not self.values or len({len(row) for row in self.runs}) > 1:
            raise ValueError("every seed has a value, and one for each of the same folds")

    @classmethod
    def of(cls, site: Differences) -> Moments:
        """The moments of a site's samples."""
        _, stratum, n = np.unique(site.stratum, return_inverse=True, return_counts=True)
        each = site.each.mean(axis=0)
        sums, squares = (np.bincount(stratum, each**power) for power in (1, 2))
        return cls(
            values=tuple(site.values.tolist()),
            counts=tuple(n.tolist()),
            sums=tuple(sums.tolist()),
            squares=tuple(squares.tolist()),
            size=_size(each, site.span),
            span=float(site.span),
            residual=_residual(site.each, stratum, n),
            runs=tuple(map(tuple, _deviations(site).tolist())),
        )

    @property
    def samples(self) -> int:
        """The number of the site's samples."""
        return sum(self.counts)

    @property
    def folds(self) -> int:
        """The number of folds, up to the last in which the site has samples."""
        return len(self.runs[0])


def _size(each: np.ndarray, span: float) -> float:
    """How much a pseudo-sample differs: as much as the samples that do; by the whole span if there are none."""
    some = np.count_nonzero(each)
    return float((np.square(each).sum() / some) ** 0.5 if some else span)


def _residual(each: np.ndarray, stratum: np.ndarray, n: np.ndarray) -> float:
    """The variance of the mean of what neither the sample nor the run explains, as in a two-way analysis of variance."""
    seeds = len(each)
    if seeds < 2:
        return 0.0
    rest = each - each.mean(axis=0)
    sums = np.stack([np.bincount(stratum, row) for row in rest])
    squares = np.bincount(stratum, np.square(rest).sum(axis=0)) - (np.square(sums) / n).sum(axis=0)
    return float((squares / (np.maximum(n - 1, 1) * n)).sum()) / ((seeds - 1) * seeds)


def _deviations(site: Differences) -> np.ndarray:
    """How far the site's value in each run is above its mean over runs, [seeds, folds]; NaN where it has none."""
    folds = 1 + int(site.fold.max(initial=0))
    if site.runs is not None:
        known = ~np.isnan(site.runs)
        return site.runs - site.runs[known].mean() if known.any() else site.runs
    found = np.where(np.bincount(site.fold, minlength=folds) > 0, np.zeros((len(site.values), 1)), np.nan)
    for stratum in np.unique(site.stratum):
        own = site.stratum == stratum
        each, fold = site.each[:, own] - site.each[:, own].mean(), site.fold[own]
        size = np.maximum(np.bincount(fold, minlength=folds), 1)
        found += np.stack([np.bincount(fold, row, minlength=folds) for row in each]) / size
    return found
