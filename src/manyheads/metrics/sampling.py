"""The variance of a site's value over its samples, with pseudo-samples where these are few and alike."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from manyheads.metrics.differences import Moments

__all__ = ["Kind", "Sampling", "sampling"]

Kind = Literal["share", "difference", "measure"]
"""what values are: numbers from 0 to 1, differences of two such numbers, or any numbers"""
TENTH = 0.1
"""how much of a pseudo-sample is added at each end of the range of a share"""


class Sampling(NamedTuple):
    """The variance of a site's value over its samples."""

    variances: np.ndarray
    """of each stratum, [strata]; infinite if a stratum has a single sample of any size"""
    freedom: np.ndarray
    """degrees of freedom with which they are known, [strata]"""
    shift: float
    """of the value, by the pseudo-samples"""


def sampling(site: Moments, kind: Kind, sites: int) -> Sampling:
    """The variance over samples, stratum by stratum, of means over seeds.

    A few samples that are all alike would leave no variance, so pseudo-samples are added; those of a single site are
    divided among all ``sites``. A share gets a tenth of a sample at either end of its range; a difference gets one
    sample, half of it above and half of it below zero.
    """
    count, total, square = (np.array(each, float) for each in (site.counts, site.sums, site.squares))
    mean = total / count
    if kind == "share":
        low = mean * (1 - max(site.span, 1.0))  # of a mean 0; of pairs, a sample that has more of them moves it by more
        ends, added = np.stack([low, low + site.span]), TENTH / sites
        count, total = count + 2 * added, total + added * ends.sum(axis=0)
        square = square + added * np.square(ends).sum(axis=0)
    elif kind == "difference":
        count, square = count + 1 / sites, square + site.size**2 / sites
    spread = np.maximum(square / count - (total / count) ** 2, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        variances = np.where(count > 1, spread / (count - 1), np.inf)
    return Sampling(variances, np.maximum(count - 1, 1.0), float((total / count - mean).sum()))
