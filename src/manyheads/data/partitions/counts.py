"""Counts of samples, [clients, classes], and the rows that clients get by them."""

from __future__ import annotations

import numpy as np

from manyheads.core.errors import UserError

__all__ = ["Parts", "at_least", "balanced_classes", "classes_present", "deal", "proportional"]

Parts = list[np.ndarray]
"""the rows of each client"""


def balanced_classes(total: int, classes: int, rng: np.random.Generator) -> np.ndarray:
    """``total`` labels, every class equally often; the classes of the remainder are drawn."""
    whole, rest = divmod(total, classes)
    return np.concatenate([np.repeat(np.arange(classes), whole), rng.choice(classes, rest, replace=False)])


def classes_present(per_class: np.ndarray, per_client: int, where: str) -> np.ndarray:
    """The classes that have samples; an error if they are fewer than ``per_client``."""
    present = np.flatnonzero(per_class)
    if per_client > len(present):
        raise UserError(
            "more classes per client than there are", where=where, given=per_client, allowed=f"1 to {len(present)}"
        )
    return present


def deal(labels: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> Parts:
    """Rows for each client: of the shuffled samples of class ``c``, client ``i`` gets ``counts[i, c]``."""
    dealt: list[list[np.ndarray]] = [[] for _ in counts]
    order = rng.permutation(len(labels))
    by_class = np.split(
        order[np.argsort(labels[order], kind="stable")], np.cumsum(np.bincount(labels, minlength=counts.shape[1]))[:-1]
    )
    for column, rows in enumerate(by_class):
        for client, own in enumerate(np.split(rows, np.cumsum(counts[:, column]))[:-1]):
            if len(own):
                dealt[client].append(own)
    return [np.sort(np.concatenate(rows)) if rows else np.empty(0, np.int64) for rows in dealt]


def proportional(shares: np.ndarray, per_class: np.ndarray) -> np.ndarray:
    """``shares * per_class`` rounded to integers by the largest remainder method, class by class."""
    exact = shares * per_class
    counts = np.floor(exact + 1e-9).astype(np.int64)
    missing = np.floor(exact.sum(axis=0) + 1e-6).astype(np.int64) - counts.sum(axis=0)
    order = np.argsort(-(exact - counts), axis=0, kind="stable")
    for column in np.flatnonzero(missing > 0):
        counts[order[: missing[column], column], column] += 1
    return counts


def at_least(minimum: int, counts: np.ndarray) -> np.ndarray:
    """Move samples from the largest clients to those with fewer than ``minimum``."""
    counts = counts.copy()
    sizes = counts.sum(axis=1)
    if sizes.sum() < minimum * len(counts):
        raise UserError(
            "too few samples for every client's minimum",
            given=f"{len(counts)} clients of {minimum} out of {sizes.sum()} samples",
            fix="use fewer clients or a smaller minimum",
        )
    for client in np.flatnonzero(sizes < minimum):
        while sizes[client] < minimum:
            donor = int(sizes.argmax())
            column = int(counts[donor].argmax())
            moved = min(minimum - sizes[client], max(1, (sizes[donor] - minimum) // 2), counts[donor, column])
            for row, change in ((donor, -moved), (client, moved)):
                counts[row, column] += change
                sizes[row] += change
    return counts
