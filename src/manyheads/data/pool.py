"""Samples before they have owners."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from manyheads.core.randomness import Purpose, generator
from manyheads.data.encoding import Scaling

__all__ = ["Pool", "hold_out"]


@dataclass(frozen=True)
class Pool:
    """Labelled samples of no client yet, with a test part of its own."""

    name: str
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    classes: int
    keys: dict[str, np.ndarray] = field(default_factory=dict)
    """natural clients: the owner of every training, then of every test sample"""
    scaling: Scaling | None = None
    """of inputs stored as bytes"""
    keep_split: bool = False
    """something was learned from the training part (a vocabulary), so natural clients keep its split too"""
    label_names: tuple[str, ...] = ()
    """names of the classes, if they have any but their numbers"""


def hold_out(y: np.ndarray, fraction: float, classes: int, seed: int) -> np.ndarray:
    """Which samples are for tests: a part of every class, drawn."""
    test = np.zeros(len(y), bool)
    for label in range(classes):
        rows = generator(seed, Purpose.SPLIT, label).permutation(np.flatnonzero(y == label))
        test[rows[: round(fraction * len(rows))]] = True
    return test
