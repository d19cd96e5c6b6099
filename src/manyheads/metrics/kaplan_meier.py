"""The Kaplan-Meier estimate of a survival curve."""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

__all__ = ["SurvivalCurve", "kaplan_meier"]


class SurvivalCurve(NamedTuple):
    """The share that has not had the event, from each of these times on until the next."""

    times: np.ndarray
    """0, and every time at which a sample had the event or was last seen"""
    survival: np.ndarray
    low: np.ndarray
    """lower end of the confidence interval"""
    high: np.ndarray
    at_risk: np.ndarray
    """samples that were seen at that time or later"""


def kaplan_meier(time: np.ndarray, event: np.ndarray, level: float = 0.95) -> SurvivalCurve:
    """The curve, with pointwise intervals by Greenwood's variance of ``log(-log S)``, which stay within 0 and 1.

    >>> curve = kaplan_meier(np.array([1.0, 2.0, 2.0, 3.0]), np.array([1, 1, 0, 1]))
    >>> curve.survival.tolist(), curve.at_risk.tolist()
    ([1.0, 0.75, 0.5, 0.0], [4, 4, 3, 1])

    Where the interval is not defined (all or none have had the event), it is the curve itself.

    References: Kaplan and Meier, Nonparametric Estimation from Incomplete Observations, 1958; Kalbfleisch and Prentice,
    The Statistical Analysis of Failure Time Data, 1980.
    """
    times, place = np.unique(time, return_inverse=True)
    d = np.bincount(place, event != 0, len(times))
    n = len(time) - np.searchsorted(np.sort(time), times)
    survival = np.cumprod(1 - d / n)
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log(survival)
        deviation = np.sqrt(np.cumsum(d / (n * (n - d)))) / np.abs(log)
        half = NormalDist().inv_cdf((1 + level) / 2) * deviation
        ends = survival ** np.exp(half), survival ** np.exp(-half)
    low, high = (np.where((survival > 0) & (survival < 1), end, survival) for end in ends)
    curve = [times, survival, low, high, n]
    if times[0] > 0:
        curve = [np.concatenate([[first], v]) for first, v in zip((0, 1, 1, 1, len(time)), curve, strict=True)]
    return SurvivalCurve(*curve)
