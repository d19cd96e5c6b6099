"""Extreme singular values over all subsets of a given number of clients (Collins et al. 2021, Theorem 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

__all__ = ["Extremes", "extreme_singular_values"]

MOST_SUBSETS = 20_000
STARTS = 200
"""random directions from which the search starts"""


@dataclass(frozen=True)
class Extremes:
    """The smallest and the largest singular value of ``W_I / sqrt(|I|)`` over subsets I, each between two numbers."""

    smallest: tuple[float, float]
    largest: tuple[float, float]

    @property
    def exact(self) -> bool:
        return self.smallest[0] == self.smallest[1] and self.largest[0] == self.largest[1]


def extreme_singular_values(heads: np.ndarray, size: int, rng: np.random.Generator) -> Extremes:
    """Over all subsets of ``size`` rows of ``heads``: exact if there are few, otherwise bounds.

    The search gives the inner ends: it finds subsets that attain them. The outer ends are certain: leaving rows out
    lowers an eigenvalue of ``W^T W`` by at most the sum of their squared norms.

    >>> found = extreme_singular_values(np.eye(2), 2, np.random.default_rng(0))
    >>> found.exact, round(found.largest[0] ** 2, 12)
    (True, 0.5)
    """
    outer = heads[:, :, None] * heads[:, None, :]
    if math.comb(len(heads), size) <= MOST_SUBSETS:
        rows = np.array(list(combinations(range(len(heads)), size)))
        values = np.linalg.eigvalsh(np.stack([outer[chosen].sum(axis=0) for chosen in rows]))
        low, high = (float(np.sqrt(max(v, 0.0) / size)) for v in (values[:, 0].min(), values[:, -1].max()))
        low = low if size >= heads.shape[1] else 0.0
        return Extremes((low, low), (high, high))
    lengths = np.sort(np.square(heads).sum(axis=1))
    whole = np.linalg.eigvalsh(outer.sum(axis=0))
    least = max(0.0, whole[0] - min(lengths[size:].sum(), whole[-1]))
    most = min(whole[-1], lengths[len(heads) - size :].sum())
    starts = rng.normal(size=(STARTS, heads.shape[1]))
    found_low = min(_search(heads, outer, size, v, 0) for v in starts)
    found_high = max(_search(heads, outer, size, v, -1) for v in starts)
    scale = [float(np.sqrt(max(v, 0.0) / size)) for v in (least, found_low, found_high, most)]
    return Extremes((scale[0], scale[1]), (scale[2], scale[3]))


def _search(heads: np.ndarray, outer: np.ndarray, size: int, v: np.ndarray, end: int) -> float:
    """The extreme eigenvalue of a subset that no exchange along its own eigenvector improves (0: smallest, -1: largest)."""
    chosen, value = np.empty(0, int), 0.0
    while True:
        order = np.argsort(np.square(heads @ v), kind="stable")
        better = np.sort(order[:size] if end == 0 else order[len(order) - size :])
        if np.array_equal(better, chosen):
            return value
        values, vectors = np.linalg.eigh(outer[better].sum(axis=0))
        chosen, v, value = better, vectors[:, end], float(values[end])
