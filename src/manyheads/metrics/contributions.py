"""How much each sample contributes to a client's value of a metric: what confidence intervals are made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from manyheads.metrics.predictions import Predictions

__all__ = ["Contributions", "jackknife"]

GROUPS = 200
"""largest number of groups of samples of a fold that the jackknife leaves out in turn"""


@dataclass(frozen=True)
class Contributions:
    """A client's value of a metric, and how much each sample contributes to it.

    The variance of the value is the sum over strata of the variance of ``each`` in the stratum over its samples. For a
    difference between two models on the same samples, it is that of the difference of their ``each``.
    """

    value: float
    each: np.ndarray
    """[samples]"""
    stratum: np.ndarray
    """of each sample, [samples]: integers that depend on labels and folds alone, so they are the same for every model"""
    span: float = np.nan
    """width of the range that ``each`` can have; NaN if it is not bounded"""

    @classmethod
    def of_mean(cls, each: np.ndarray, span: float = np.nan) -> Contributions:
        """Those of a mean over samples."""
        return cls(float(each.mean()), each, np.zeros(len(each), int), span)


def jackknife(
    of_client: Callable[[Predictions], float | None], own: Predictions, fold: np.ndarray
) -> Contributions | None:
    """Contributions to any metric, given by its value for some samples; None if it is defined in no fold.

    The value is the mean over folds, weighted by their samples, without folds where it is not defined. A sample
    contributes what its fold's value loses without it (Tukey's pseudo-values). In a fold with more than 200 samples
    random groups are left out instead; their change is shared out so that the variance stays right.
    """
    total, used, change = 0.0, 0, np.zeros(len(fold))
    for index in np.unique(fold):
        rows = np.random.default_rng(0).permutation(np.flatnonzero(fold == index))
        value = of_client(own.take(rows))
        if value is None or np.isnan(value):
            continue
        total, used = total + value * len(rows), used + len(rows)
        for places in np.array_split(np.arange(len(rows)), min(len(rows), GROUPS)):
            rest = np.delete(rows, places)
            without = of_client(own.take(rest)) if len(rest) else None
            if without is not None and not np.isnan(without):
                change[rows[places]] = len(rest) * (value - without) / len(places) ** 0.5
    if not used:
        return None
    value = total / used
    return Contributions(value, value + change * len(fold) / used, np.zeros(len(fold), int))
