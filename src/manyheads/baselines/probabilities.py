"""Probabilities of all classes from those of the classes that a model has seen."""

from __future__ import annotations

import numpy as np

__all__ = ["log_probabilities"]

SMALLEST = 1e-7
"""a smaller probability is a model's overconfidence: a single wrong one would decide the log loss"""


def log_probabilities(of_seen: np.ndarray, seen: np.ndarray, outputs: int, samples: int) -> np.ndarray:
    """The log-probabilities of classes 0 to ``outputs`` - 1, given those of the classes ``seen`` in so many samples.

    Each class never seen gets Laplace's 1 / (samples + outputs), and the others share the rest.

    >>> np.exp(log_probabilities(np.array([[0.25, 0.75]]), np.array([0, 2]), outputs=3, samples=7)).round(3).tolist()
    [[0.225, 0.1, 0.675]]
    """
    unseen = 1 / (samples + outputs)
    found = np.full((len(of_seen), outputs), unseen)
    found[:, seen] = of_seen * (1 - unseen * (outputs - len(seen)))
    return np.log(np.maximum(found, SMALLEST))
