"""How a metric is distributed over clients."""

from __future__ import annotations

import numpy as np

__all__ = ["spread"]


def spread(values: np.ndarray, weights: np.ndarray | None = None, higher_is_better: bool = True) -> dict[str, float]:
    """Mean, standard deviation over clients, and the mean of the worst tenth (at least one client).

    >>> spread(np.array([0.5, 1.0, 0.9, 0.8]))["worst_decile"]
    0.5
    """
    mean = float(np.average(values, weights=weights))
    tenth = max(1, len(values) // 10)
    return {
        "mean": mean,
        "std": float(np.std(values)),
        "worst_decile": float(np.mean(np.sort(values)[:tenth] if higher_is_better else np.sort(values)[-tenth:])),
        "min": float(values.min()),
        "max": float(values.max()),
    }
