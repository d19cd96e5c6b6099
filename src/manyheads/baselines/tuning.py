"""Choose a model's setting by cross-validation on the samples that it is fitted to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from manyheads.core.randomness import Purpose, generator

__all__ = ["best_setting", "inner_folds", "losses"]


def inner_folds(
    y: np.ndarray, count: int, seed: int, *, classes: bool, groups: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Training and validation rows of up to ``count`` folds, with an even share of each class, groups kept whole.

    Folds of which the training rows have a single class are left out: nothing can be learned there.

    >>> [validation.tolist() for _, validation in inner_folds(np.array([0, 0, 0, 1, 1, 2]), 3, seed=1, classes=True)]
    [[1, 3], [2, 4], [0, 5]]
    """
    _, first, unit = np.unique(np.arange(len(y)) if groups is None else groups, return_index=True, return_inverse=True)
    rng = generator(seed, Purpose.SPLIT, 3)
    order = rng.permutation(len(first))
    if classes:
        order = order[np.argsort(y[first][order], kind="stable")]
    fold = np.empty(len(first), np.int64)
    fold[order] = np.arange(len(first)) % min(count, len(first))  # dealt in turn: a class of one sample is no obstacle
    for k in range(fold.max() + 1):
        train, validation = np.flatnonzero(fold[unit] != k), np.flatnonzero(fold[unit] == k)
        if len(train) and not (classes and len(np.unique(y[train])) == 1):
            yield train, validation


def best_setting(
    path: Callable[[np.ndarray, np.ndarray], Sequence[np.ndarray]],
    y: np.ndarray,
    folds: Iterator[tuple[np.ndarray, np.ndarray]],
    *,
    classes: bool,
) -> int:
    """The index of the setting with the smallest loss on validation rows; 0 if there are no folds.

    ``path`` fits a model with each setting to training rows and gives its outputs for validation rows.
    """
    total: np.ndarray = np.zeros(1)
    for train, validation in folds:
        total = total + [losses(out, y[validation], classes=classes).sum() for out in path(train, validation)]
    return int(np.argmin(total))


def losses(outputs: np.ndarray, y: np.ndarray, *, classes: bool) -> np.ndarray:
    """The log loss of each sample, given log-probabilities, or its squared error."""
    if classes:
        return -np.take_along_axis(outputs, y.astype(np.int64)[:, None], axis=1)[:, 0]
    return np.square(outputs - y.reshape(outputs.shape)).sum(axis=1)
