"""Confidence intervals of a score, and of a difference between two models evaluated on the same samples.

Values have the shape [seeds, samples], and both samples and seeds are random: as in the two-way analysis of variance,
the variance of the mean is that over samples (of means over seeds) plus that over seeds (of means over samples), minus
the residual that both contain.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

__all__ = ["Estimate", "Kind", "estimate", "overall"]

Kind = Literal["share", "difference", "measure"]
"""what the values are: outcomes 0 or 1, differences of two such outcomes, or any numbers"""
_ADDED: dict[Kind, tuple[tuple[float, float], ...]] = {
    "share": ((1, 2), (0, 2)),  # Agresti and Coull 1998
    "difference": ((1, 0.5), (-1, 0.5), (0, 1)),  # Agresti and Min 2005
    "measure": (),
}
"""(value, how often): pseudo-samples added for the interval, which a few equal samples would otherwise make empty"""


class Estimate(NamedTuple):
    """A mean, the variance of its error, and the center of its confidence interval."""

    value: float
    variance: float
    center: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        half = NormalDist().inv_cdf((1 + level) / 2) * self.variance**0.5
        return self.center - half, self.center + half


def estimate(values: np.ndarray, kind: Kind) -> Estimate:
    """An estimate of the mean of one client's values, [seeds, samples].

    >>> low, high = estimate(np.array([[1, 1, 1]]), "difference").interval()
    >>> low < 0.3
    True
    """
    return Estimate(
        float(values.mean()),
        _over_samples(values, kind) + _over_seeds([values]),
        _moments(values, kind, 1.0)[1],
    )


def overall(clients: Sequence[np.ndarray], kind: Kind) -> Estimate:
    """An estimate of the mean over clients of their means; samples differ between clients, seeds are common to all."""
    per_seed = np.stack([values.mean(axis=1) for values in clients]).mean(axis=0)
    added = 1 / len(clients)  # the pseudo-samples of a single client are divided among all clients
    variance = sum(_over_samples(values, kind, added) for values in clients) / len(clients) ** 2
    return Estimate(float(per_seed.mean()), variance + _over_seeds(clients), float(per_seed.mean()))


def _moments(values: np.ndarray, kind: Kind, added: float) -> tuple[float, float, float]:
    """Number, mean and mean square of the samples, including the pseudo-samples."""
    count = values.shape[1] + added * sum(n for _, n in _ADDED[kind])
    each = values.mean(axis=0)
    sums = (float((each**p).sum()) + added * sum(v**p * n for v, n in _ADDED[kind]) for p in (1, 2))
    mean, square = (total / count for total in sums)
    return count, mean, square


def _over_samples(values: np.ndarray, kind: Kind, added: float = 1.0) -> float:
    count, mean, square = _moments(values, kind, added)
    spread = max(square - mean**2, 0.0)
    if kind != "measure":
        return spread / count
    if count < 2:
        return np.inf
    from scipy.special import stdtrit  # slow to import

    few = float(stdtrit(count - 1, 0.975)) / NormalDist().inv_cdf(0.975)  # widens the interval to Student's t
    return few**2 * spread / (count - 1)


def _over_seeds(clients: Sequence[np.ndarray]) -> float:
    """The variance over seeds of the mean over clients, minus the part that samples explain."""
    seeds = len(clients[0])
    if seeds < 2:
        return 0.0
    means = np.stack([values.mean(axis=1) for values in clients]).mean(axis=0)
    shared = sum(_residual(values) / values.shape[1] for values in clients) / len(clients) ** 2
    return max(float(means.var(ddof=1)) - shared, 0.0) / seeds


def _residual(values: np.ndarray) -> float:
    """The mean square of the residual: what neither the seed nor the sample explains."""
    seeds, samples = values.shape
    rest = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    return float((rest**2).sum()) / max((seeds - 1) * (samples - 1), 1)
