"""Weights of samples in the training loss, by which rare classes count as much as frequent ones."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from manyheads.data import Samples

__all__ = ["Weighing", "sample_weights"]

Weighing: TypeAlias = Literal["none", "balanced", "client"]
"""by which labels the classes are weighed: not at all, those of the federation, or each client's own"""


def sample_weights(samples: Samples, classes: int, everyone: np.ndarray | None = None) -> np.ndarray:
    """The weight of each sample, by the labels of ``everyone``, or by those of its client alone.

    >>> sample_weights(Samples(np.zeros((4, 1)), np.array([0, 0, 0, 1]), np.array([0, 3, 4])), classes=2).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    if everyone is not None:
        return _class_weights(everyone, classes)[samples.y]
    clients = (samples.y[start:stop] for start, stop in pairwise(samples.offsets.tolist()))
    return np.concatenate([_class_weights(y, classes)[y] for y in clients])


def _class_weights(labels: np.ndarray, classes: int) -> np.ndarray:
    """The weight of each class: inverse to its frequency, with a mean over the labels of 1; 1 where there is no label."""
    counts = np.bincount(labels, minlength=classes)
    present = counts > 0
    return np.divide(len(labels), counts * present.sum(), out=np.ones(classes), where=present)
