"""What all papers report in the same form: numbers, conditions, fitted rates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

__all__ = ["condition", "fitted_contraction", "fitted_power", "number", "numbers", "within"]


def number(value: float | None) -> float | None:
    """A JSON number; None if it is not finite."""
    return float(value) if value is not None and np.isfinite(value) else None


def numbers(values: Iterable[float]) -> list[float | None]:
    return [number(v) for v in values]


def condition(name: str, holds: bool | None, value: float | None, needs: str) -> dict[str, Any]:
    """One assumption: whether it holds (None: the theorem names no constant, or it cannot be decided), and on what."""
    return {"name": name, "holds": None if holds is None else bool(holds), "value": number(value), "needs": needs}


def within(conditions: Sequence[dict[str, Any]]) -> bool | None:
    """Whether all assumptions hold; None if some cannot be decided and no other fails."""
    holds = [c["holds"] for c in conditions]
    return False if False in holds else None if None in holds else True


def fitted_contraction(values: Sequence[float], low: float, high: float) -> dict[str, Any] | None:
    """The factor per round of a geometrically decreasing sequence, by least squares on its logarithm.

    The linear phase goes from the first value below ``high`` to the last before one below ``low``; None if it is
    shorter than 10 rounds.

    >>> fit = fitted_contraction([0.9**t for t in range(100)], low=1e-3, high=0.5)
    >>> round(fit["contraction"], 6), fit["r2"], fit["first"], fit["last"]
    (0.9, 1.0, 7, 65)
    """
    v = np.asarray(values, dtype=float)
    first = int(np.argmax(v < high)) if (v < high).any() else len(v)
    last = int(np.argmax(v < low)) if (v < low).any() else len(v)
    if last - first < 10:
        return None
    t, log = np.arange(first, last), np.log(v[first:last])
    slope, start = np.polyfit(t, log, 1)
    residual, total = np.square(log - slope * t - start).sum(), np.square(log - log.mean()).sum()
    r2 = float(1 - residual / total) if total > 0 else 1.0
    return {"contraction": float(np.exp(slope)), "r2": round(r2, 9), "first": first, "last": last - 1}


def fitted_power(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent p of ``y = c x^p``, by least squares on the logarithms.

    >>> round(fitted_power([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
