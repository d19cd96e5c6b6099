"""Mean and deviation of columns over all clients, from statistics that clients share in place of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Moments"]


@dataclass(frozen=True)
class Moments:
    """Statistics of columns that can be merged over clients (Chan et al. 1979).

    ``squares`` are sums of squared differences from the mean: plain sums of squares would lose all digits of a column
    such as a date in seconds.
    """

    count: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray) -> Moments:
        """Of the columns of ``x``; NaN is a missing value."""
        known = ~np.isnan(x)
        count = known.sum(axis=0)
        mean = np.where(known, x, 0).sum(axis=0) / np.maximum(count, 1)
        squares = np.where(known, (x - mean) ** 2, 0).sum(axis=0)
        low, high = (pick.reduce(np.where(known, x, at), axis=0, initial=at) for pick, at in _ENDS)
        return cls(count, mean, squares, low, high)

    @classmethod
    def merged(cls, all_: Sequence[Moments]) -> Moments:
        count, mean, squares, low, high = (
            np.stack([getattr(m, part) for m in all_]) for part in ("count", "mean", "squares", "low", "high")
        )
        total = count.sum(axis=0)
        middle = (count * mean).sum(axis=0) / np.maximum(total, 1)
        return cls(
            total, middle, (squares + count * (mean - middle) ** 2).sum(axis=0), low.min(axis=0), high.max(axis=0)
        )

    def of_at_least(self, least: int) -> Moments:
        """The same, as if columns with fewer known values had none."""
        few = self.count < least
        instead = (0, 0, 0, np.inf, -np.inf)
        parts = (self.count, self.mean, self.squares, self.low, self.high)
        return Moments(*(np.where(few, none, part) for none, part in zip(instead, parts, strict=True)))

    @property
    def varies(self) -> np.ndarray:
        """Whether the values differ by more than rounding."""
        return self._std > 1e-12 * np.abs(self.mean)

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviations; 1 for a column that does not vary."""
        return np.where(self.varies, self._std, 1.0)

    @property
    def _std(self) -> np.ndarray:
        return np.sqrt(self.squares / np.maximum(self.count, 1))


_ENDS: tuple[tuple[Any, float], ...] = ((np.minimum, np.inf), (np.maximum, -np.inf))
