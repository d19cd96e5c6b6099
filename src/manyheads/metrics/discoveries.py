"""Which of many tests found something, with few false ones among them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["discoveries"]


def discoveries(p_values: Sequence[float] | np.ndarray, rate: float = 0.05) -> np.ndarray:
    """Which p-values are discoveries, by Benjamini and Hochberg 1995.

    Of the discoveries, a share of at most ``rate`` is false, on average over repetitions of the whole.

    >>> discoveries([0.01, 0.04, 0.03, 0.5]).tolist()
    [True, False, False, False]
    """
    p = np.asarray(p_values, float)
    ordered = np.sort(p)
    below = ordered <= rate * np.arange(1, len(p) + 1) / max(len(p), 1)
    return p <= ordered[below].max() if below.any() else np.zeros(len(p), bool)
