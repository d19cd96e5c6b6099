"""What a report draws of a client's predictions: a confusion matrix, a ROC curve, a calibration curve."""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from manyheads.metrics.predictions import Predictions

__all__ = ["CalibrationBin", "calibration", "confusion", "roc"]

POINTS = 100
"""most points of a ROC curve: more cannot be seen"""


def confusion(predictions: Predictions, classes: int) -> np.ndarray:
    """How many samples of each class (rows) are predicted to be of each class (columns), [classes, classes].

    >>> two = Predictions(np.array([[1, 0], [1, 0], [0, 1]]), np.array([0, 1, 1]), np.zeros(3), np.array([3]))
    >>> confusion(two, 2).tolist()
    [[1, 0], [1, 1]]
    """
    pairs = predictions.labels * classes + predictions.predicted
    return np.bincount(pairs, minlength=classes**2).reshape(classes, classes)


def roc(scores: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The shares of negative and of positive samples (labels 0 and 1) whose score is above a falling threshold.

    Of a long curve up to 100 points are kept, its convex hull among them. None if all labels are the same.
    """
    from sklearn.metrics import roc_curve  # slow to import

    if len(np.unique(labels)) < 2:
        return None
    false, true, _ = roc_curve(labels, scores)
    hull = _upper_hull(false, true)
    kept = np.union1d(_thinned(hull, POINTS), _thinned(np.arange(len(false)), POINTS - len(hull)))
    return false[kept], true[kept]


def _upper_hull(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The corners of the upper convex hull of points that are sorted by x and y (Andrew 1979)."""
    corners: list[int] = []
    for i in range(len(x)):
        while len(corners) > 1:
            a, b = corners[-2:]
            if (x[b] - x[a]) * (y[i] - y[a]) < (y[b] - y[a]) * (x[i] - x[a]):  # a, b, i turn right
                break
            corners.pop()
        corners.append(i)
    return np.array(corners)


def _thinned(indices: np.ndarray, most: int) -> np.ndarray:
    """The indices, or as many of them at even distances, the first and the last included."""
    if len(indices) <= most:
        return indices
    return indices[np.linspace(0, len(indices) - 1, max(most, 0)).astype(int)]


class CalibrationBin(NamedTuple):
    """Samples with similar predicted probabilities, and the share of them that are positive."""

    predicted: float
    """mean of the predicted probabilities"""
    observed: float
    samples: int
    low: float
    high: float
    """95 % interval of the observed share (Wilson 1927)"""


def calibration(probability: np.ndarray, labels: np.ndarray, bins: int = 10) -> list[CalibrationBin]:
    """Up to so many bins with about the same number of samples; equal probabilities are in the same one.

    >>> [(b.predicted, b.observed, b.samples) for b in calibration(np.array([0.2, 0.2, 0.8]), np.array([0, 1, 1]), bins=2)]
    [(0.2, 0.5, 2), (0.8, 1.0, 1)]
    """
    edges = np.unique(np.quantile(probability, np.arange(1, bins) / bins))
    _, bin_of = np.unique(np.searchsorted(edges, probability), return_inverse=True)
    n = np.bincount(bin_of)
    predicted, positive = (np.bincount(bin_of, values) for values in (probability, labels))
    z = NormalDist().inv_cdf(0.975)
    center, half = (
        (positive + z**2 / 2) / (n + z**2),
        z * np.sqrt(positive * (n - positive) / n + z**2 / 4) / (n + z**2),
    )
    rows = np.stack([predicted / n, positive / n, n, center - half, center + half], axis=1).tolist()
    return [CalibrationBin(p, o, int(samples), low, high) for p, o, samples, low, high in rows]
