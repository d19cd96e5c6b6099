"""Features that tell the label by themselves: perhaps they were known only after it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manyheads.data.sites.reading import Site

__all__ = ["correlation", "leaking", "separation"]

SEPARATES, CORRELATES = 0.98, 0.999
"""above which a feature tells the label: an AUC of 0.99, and this correlation with the target"""
FEWEST, FEWEST_OF_CLASS = 30, 5
"""samples that are needed to say so: of all sites, and of each class at a site"""
FEWEST_KNOWN = 10
"""values that a correlation is computed of, at least"""
PER_CATEGORY = 5
"""samples that a category needs on average: with fewer, any label is told by chance"""
CELLS = 10_000_000
"""most values of a site that are looked at"""


def leaking(sites: Sequence[Site], features: Sequence[str], labels: Sequence[np.ndarray], classes: bool) -> list[str]:
    """Features that predict the label almost perfectly at every site that has enough samples to tell."""
    left, seen = list(features), 0
    for site, label in zip(sites, labels, strict=True):
        if not left:
            break
        some = slice(None, None, len(site.rows) * len(left) // CELLS + 1)
        y = label[some]
        if classes:
            _, y, counts = np.unique(y.astype(str), return_inverse=True, return_counts=True)
            if len(counts) < 2 or counts.min() < FEWEST_OF_CLASS:
                continue
        x = np.stack([_as_numbers(site.columns[f][some], y, classes) for f in left], axis=1)
        tells = separation(x, y) > SEPARATES if classes else np.abs(correlation(x, y)) > CORRELATES
        left, seen = [f for f, t in zip(left, tells, strict=True) if t], seen + len(y)
    return left if seen >= FEWEST else []


def _as_numbers(column: np.ndarray, y: np.ndarray, classes: bool) -> np.ndarray:
    """A column of numbers as it is; of categories, the class that is most common with each, or its mean target."""
    if column.dtype != object:
        return column
    names, category = np.unique(column.astype(str), return_inverse=True)
    if PER_CATEGORY * len(names) > len(column):
        return np.zeros(len(column))
    if classes:
        counts = np.zeros((len(names), y.max() + 1))
        np.add.at(counts, (category, y), 1)
        return counts.argmax(axis=1)[category].astype(np.float64)
    return (np.bincount(category, y) / np.bincount(category))[category]


def separation(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How well each column of ``x`` alone separates the classes ``y``: 0 not at all, 1 each class has its own range.

    It is the root of Kruskal and Wallis' variance of the classes' mean ranks, over that of classes without overlap; for
    two classes ``|2 AUC - 1|``. Missing values rank lowest.

    >>> separation(np.array([[1.0, 4, 7], [2, 3, 7], [3, 2, 7], [4, 1, 7]]), np.array([0, 1, 0, 1])).tolist()
    [0.5, 0.5, 0.0]
    """
    n, sizes = len(y), np.bincount(y)
    ranks = np.stack([_ranks(column) for column in np.where(np.isnan(x), -np.inf, x).T], axis=1) - n / 2
    means = np.stack([ranks[y == c].mean(axis=0) for c in range(len(sizes))])  # [classes, features]
    order = np.argsort(means, axis=0)
    size = sizes[order]
    apart = np.cumsum(size, axis=0) - size / 2 - n / 2  # mean ranks of classes without overlap, in this order
    return np.sqrt((sizes[:, None] * means**2).sum(axis=0) / (size * apart**2).sum(axis=0))


def _ranks(values: np.ndarray) -> np.ndarray:
    """How many values are smaller, and half of those that are equal."""
    ordered = np.sort(values)
    return (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2


def correlation(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of each column of ``x`` with ``y``, over the rows where it is known; 0 if these are few, or have one value.

    >>> x = np.stack([np.arange(12.0), np.full(12, np.nan), np.ones(12)], axis=1)
    >>> correlation(x, 3 - 2 * np.arange(12.0)).round(9).tolist()
    [-1.0, 0.0, 0.0]
    """
    known = ~np.isnan(x)
    count = known.sum(axis=0)

    def centred(v: np.ndarray) -> np.ndarray:
        return np.where(known, v - np.where(known, v, 0).sum(axis=0) / np.maximum(count, 1), 0)

    with np.errstate(over="ignore", invalid="ignore"):
        a, b = centred(x), centred(np.broadcast_to(y[:, None], x.shape))
        scale = np.sqrt((a * a).sum(axis=0) * (b * b).sum(axis=0))
        return np.divide(
            (a * b).sum(axis=0), scale, out=np.zeros(len(scale)), where=(scale > 0) & (count >= FEWEST_KNOWN)
        )
