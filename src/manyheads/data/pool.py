"""Labelled samples that are not divided into clients yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from manyheads.core.randomness import Purpose, generator
from manyheads.data.encoding import Scaling

__all__ = ["Pool", "hold_out"]


@dataclass(frozen=True)
class Pool:
    """Training and test samples of a dataset, before a partition divides them into clients."""

    name: str
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    classes: int
    keys: dict[str, np.ndarray] = field(default_factory=dict)
    """natural clients: by name of the key (such as writer), the owner of every training, then of every test sample"""
    scaling: Scaling | None = None
    """of the pixels, if inputs are stored as bytes"""
    keep_split: bool = False
    """natural clients keep this split into training and test, since something (a vocabulary) comes from the training part"""
    label_names: tuple[str, ...] = ()
    """names of the classes; empty: their indices are their names"""
    own_test: bool = False
    """the test samples are those that the dataset is published with"""

    def only(self, labels: Sequence[int]) -> Pool:
        """The samples of some classes, relabelled 0, 1, ... in this order."""
        number = np.full(self.classes, -1)
        number[list(labels)] = np.arange(len(labels))
        kept, kept_test = number[self.y] >= 0, number[self.y_test] >= 0
        names = self.label_names or tuple(str(label) for label in range(self.classes))
        return replace(
            self,
            x=self.x[kept],
            y=number[self.y[kept]],
            x_test=self.x_test[kept_test],
            y_test=number[self.y_test[kept_test]],
            classes=len(labels),
            keys={key: owners[np.concatenate([kept, kept_test])] for key, owners in self.keys.items()},
            label_names=tuple(names[label] for label in labels),
        )


def hold_out(y: np.ndarray, fraction: float, classes: int, seed: int) -> np.ndarray:
    """Which samples are for tests: a random fraction of every class."""
    test = np.zeros(len(y), bool)
    for label in range(classes):
        rows = generator(seed, Purpose.SPLIT, label).permutation(np.flatnonzero(y == label))
        test[rows[: round(fraction * len(rows))]] = True
    return test
