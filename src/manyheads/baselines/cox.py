"""Cox's proportional hazards, linear in the features, fitted by Newton's method."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["fit_cox"]

STEPS = 50
"""at most; a handful suffice unless features separate the events from the others"""
TOLERANCE = 1e-9
"""of the Newton decrement, which is twice the distance of the loss from its minimum"""


def fit_cox(x: np.ndarray, y: np.ndarray, penalty: float = 0.0) -> np.ndarray:
    """The coefficients b that minimise the negative log partial likelihood (Efron's ties) + ``penalty / 2 |b|^2``.

    ``y`` holds (time, event). The log risk of a sample is ``x b``; there is no intercept. Where the minimum is not unique
    (a constant feature, no events), b is the smallest; where it is at infinity, b is large.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 2))
    >>> time = rng.exponential(np.exp(-x @ [1.0, -0.5]))  # the hazard is exp(x b)
    >>> fit_cox(x, np.stack([np.minimum(time, 2), time < 2], axis=1)).round(1).tolist()
    [1.0, -0.5]
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    order = np.lexsort((y[:, 1], -y[:, 0]))  # latest first; of one time, the events come last
    x, terms = x[order] - x.mean(axis=0), _terms(y[order])
    b = np.zeros(x.shape[1])
    loss, gradient, hessian = _derivatives(x, terms, b, penalty)
    for _ in range(STEPS):
        step = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        decrement = float(gradient @ step)
        if decrement <= TOLERANCE:
            break
        for halvings in range(30):
            tried = b - step / 2**halvings
            found = _derivatives(x, terms, tried, penalty)
            if found[0] < loss - 0.25 * decrement / 2**halvings and np.isfinite(found[2]).all():
                break
        else:
            break
        b, (loss, gradient, hessian) = tried, found
    return b


class _Terms(NamedTuple):
    """For each event, what its logarithm sums over: rows of samples sorted by time, latest first."""

    rows: np.ndarray
    """of the events themselves"""
    first: np.ndarray
    """of the first event at the same time; all before it are at risk"""
    last: np.ndarray
    """behind the last event at the same time"""
    share: np.ndarray
    """of the events at the same time that is still at risk, ``1 - k/d`` (Efron)"""


def _terms(y: np.ndarray) -> _Terms:
    rows = np.flatnonzero(y[:, 1])
    _, start, tie, d = np.unique(-y[rows, 0], return_index=True, return_inverse=True, return_counts=True)
    k = np.arange(len(rows)) - start[tie]
    return _Terms(rows, rows - k, rows - k + d[tie], 1 - k / d[tie])


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # of a step that is too long
def _derivatives(x: np.ndarray, terms: _Terms, b: np.ndarray, penalty: float) -> tuple[float, np.ndarray, np.ndarray]:
    """Loss, gradient and Hessian at b."""
    score = x @ b
    highest = score.max(initial=-np.inf)
    risk = np.exp(score - highest)
    rows, first, last, share = terms
    total, mean = (_at_risk(v, first, last, share) for v in (risk[:, None], risk[:, None] * x))
    mean /= total
    # every sample's part in all terms together: in each from row 0 to ``last`` by the share, to ``first`` by the rest
    ends = np.zeros(len(x) + 1)
    np.add.at(ends, last, share / total[:, 0])
    np.add.at(ends, first, (1 - share) / total[:, 0])
    part = risk * np.cumsum(ends[::-1])[::-1][1:]
    loss = (np.log(total[:, 0]) + highest - score[rows]).sum() + penalty / 2 * b @ b
    gradient = x.T @ part - x[rows].sum(axis=0) + penalty * b
    return float(loss), gradient, (x.T * part) @ x - mean.T @ mean + penalty * np.eye(len(b))


def _at_risk(values: np.ndarray, first: np.ndarray, last: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The sum of values over those at risk, for each term."""
    sums = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    return sums[first] + share[:, None] * (sums[last] - sums[first])
