"""What is known of one site about a difference between two models (or a level of one): its samples and its runs."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

__all__ = ["Differences", "Kind", "Sampling", "run_deviations", "sampling"]

Kind = Literal["share", "difference", "measure"]
"""what values are: numbers from 0 to 1, differences of two such numbers, or any numbers"""
TENTH = 0.1
"""how much of a pseudo-sample is added at each end of the range of a share"""


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


class Sampling(NamedTuple):
    """The variance of a site's value over its samples."""

    variances: np.ndarray
    """of each stratum, [strata]; infinite if a stratum has a single sample of any size"""
    freedom: np.ndarray
    """degrees of freedom with which they are known, [strata]"""
    residual: float
    """the part of the variance that differs from run to run on the same samples"""
    shift: float
    """of the value, by the pseudo-samples"""


def sampling(site: Differences, kind: Kind, sites: int) -> Sampling:
    """The variance over samples, stratum by stratum, of means over seeds.

    A few samples that are all alike would leave no variance, so pseudo-samples are added; those of a single site are
    divided among all ``sites``. A share gets a tenth of a sample at either end of its range; a difference gets one
    sample, half of it above and half of it below zero.
    """
    _, stratum, n = np.unique(site.stratum, return_inverse=True, return_counts=True)
    each = site.each.mean(axis=0)
    count, total, square = (np.bincount(stratum, each**power).astype(float) for power in (0, 1, 2))
    mean = total / n
    if kind == "share":
        low = mean * (1 - max(site.span, 1.0))  # of a mean 0; of pairs, a sample that has more of them moves it by more
        ends, added = np.stack([low, low + site.span]), TENTH / sites
        count, total = count + 2 * added, total + added * ends.sum(axis=0)
        square = square + added * np.square(ends).sum(axis=0)
    elif kind == "difference":
        count, square = count + 1 / sites, square + _size(each, site.span) ** 2 / sites
    spread = np.maximum(square / count - (total / count) ** 2, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        variances = np.where(count > 1, spread / (count - 1), np.inf)
    shift = float((total / count - mean).sum())
    return Sampling(variances, np.maximum(count - 1, 1.0), _residual(site.each, stratum, n), shift)


def _size(each: np.ndarray, span: float) -> float:
    """How much a pseudo-sample differs: as much as the samples that do; by the whole span if there are none."""
    some = np.count_nonzero(each)
    return float((np.square(each).sum() / some) ** 0.5) if some else span


def _residual(each: np.ndarray, stratum: np.ndarray, n: np.ndarray) -> float:
    """The variance of the mean of what neither the sample nor the run explains, as in a two-way analysis of variance."""
    seeds = len(each)
    if seeds < 2:
        return 0.0
    rest = each - each.mean(axis=0)
    sums = np.stack([np.bincount(stratum, row) for row in rest])
    squares = np.bincount(stratum, np.square(rest).sum(axis=0)) - (np.square(sums) / n).sum(axis=0)
    return float((squares / (np.maximum(n - 1, 1) * n)).sum()) / ((seeds - 1) * seeds)


def run_deviations(site: Differences, folds: int) -> np.ndarray:
    """How far the site's value in each run is above its mean over runs, [seeds, folds]; NaN where it has none."""
    if folds == 1:
        return (site.values - site.values.mean())[:, None]
    if site.runs is not None:
        found = np.full((len(site.runs), folds), np.nan)
        found[:, : site.runs.shape[1]] = site.runs
        known = ~np.isnan(found)
        return found - found[known].mean() if known.any() else found
    found = np.where(np.bincount(site.fold, minlength=folds) > 0, np.zeros((len(site.values), 1)), np.nan)
    for stratum in np.unique(site.stratum):
        own = site.stratum == stratum
        each, fold = site.each[:, own] - site.each[:, own].mean(), site.fold[own]
        size = np.maximum(np.bincount(fold, minlength=folds), 1)
        found += np.stack([np.bincount(fold, row, minlength=folds) for row in each]) / size
    return found
