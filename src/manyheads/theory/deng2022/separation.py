"""Inputs on the unit sphere, and how far they are apart: Assumption 1 of Deng et al. 2022."""

from __future__ import annotations

import math

import numpy as np

from manyheads.core.errors import UserError

__all__ = ["cap", "near", "separated", "separation"]

TRIES = 1000
"""inputs rejected before the separation is refused"""


def separation(x: np.ndarray) -> float:
    """phi of Assumption 1: the least distance of two inputs.

    >>> separation(np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])) == 2**0.5
    True
    """
    from scipy.spatial.distance import pdist

    return float(pdist(x.reshape(len(x), -1)).min())


def separated(rng: np.random.Generator, count: int, dim: int, least: float) -> np.ndarray:
    """Random inputs on the sphere, no two closer than ``least``."""
    x, rejected = np.empty((0, dim)), 0
    while len(x) < count:
        one = rng.normal(size=dim)
        one /= np.linalg.norm(one)
        if len(x) and np.linalg.norm(x - one, axis=1).min() < least:
            rejected += 1
            if rejected == TRIES:
                raise UserError(
                    f"{count} inputs do not fit on the unit sphere so far apart",
                    where="separation",
                    given=least,
                    fix="take a smaller separation, fewer samples or a larger dim",
                )
            continue
        x = np.vstack([x, one])
    return x


def near(a: np.ndarray, towards: np.ndarray, phi: float) -> np.ndarray:
    """The point of the sphere at the distance phi of a, on the way to another.

    >>> bool(np.allclose(near(np.array([1.0, 0.0]), np.array([0.6, 0.8]), 2**0.5), [0, 1]))
    True
    """
    aside = towards - (towards @ a) * a
    angle = 2 * math.asin(phi / 2)
    return math.cos(angle) * a + math.sin(angle) * aside / np.linalg.norm(aside)


def cap(x: np.ndarray, radius: float) -> np.ndarray:
    """Inputs drawn together around the first axis: all at the distance ``radius`` of it."""
    axis = np.eye(1, x.shape[1])[0]
    return np.stack([near(axis, one, radius) for one in x])
