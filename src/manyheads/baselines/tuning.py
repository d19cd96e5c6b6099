"""Choose a model's setting by cross-validation on the samples that it is fitted to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from manyheads.core.randomness import Purpose, generator
from manyheads.core.tasks import task_named
from manyheads.data import Samples
from manyheads.data.division import fold_numbers

__all__ = ["Fold", "best_setting", "inner_folds", "losses"]

Fold = tuple[np.ndarray, np.ndarray]
"""training and validation rows"""


def inner_folds(y: np.ndarray, task: str, count: int, seed: int, groups: np.ndarray | None = None) -> Iterator[Fold]:
    """Up to ``count`` folds, with an even share of each class, and groups kept whole.

    Folds of which the training rows have a single class are left out: nothing can be learned there.
    """
    kind, rows = task_named(task), np.arange(len(y))
    own = int(generator(seed, Purpose.SPLIT, 3).integers(2**32))  # not the draws that divided the client's samples
    number = fold_numbers(Samples(rows, y, np.array([0, len(y)]), groups=groups), count, own, kind.strata)
    for fold in range(count):
        train, validation = rows[number != fold], rows[number == fold]
        if len(train) and len(validation) and not (kind.classes and len(np.unique(y[train])) == 1):
            yield train, validation


def best_setting(
    path: Callable[[np.ndarray, np.ndarray], Sequence[np.ndarray]], y: np.ndarray, task: str, folds: Iterable[Fold]
) -> int:
    """The index of the setting with the smallest loss on validation rows; 0 if there are no folds.

    ``path`` fits a model with each setting to training rows and gives its outputs for validation rows.
    """
    total: np.ndarray = np.zeros(1)
    for train, validation in folds:
        total = total + [losses(outputs, y[validation], task).sum() for outputs in path(train, validation)]
    return int(np.argmin(total))


def losses(outputs: np.ndarray, y: np.ndarray, task: str) -> np.ndarray:
    """The loss of each sample, as the task reports it."""
    import torch

    kind, out = task_named(task), torch.from_numpy(np.asarray(outputs, np.float64))
    return kind.reported * kind.losses(out, torch.from_numpy(np.asarray(y)).to(kind.label_type(out))).numpy()
