"""The inputs of baselines: vectors of numbers."""

from __future__ import annotations

import numpy as np

from manyheads.data import Federation

__all__ = ["flat_inputs"]


def flat_inputs(federation: Federation, x: np.ndarray) -> np.ndarray:
    """Samples as vectors, [n, features]; pixels stored as bytes become numbers as they do for networks."""
    if x.dtype == np.uint8:
        x = x.astype(np.float32) / 255
        if federation.scaling is not None:
            mean, std = (np.reshape(v, (-1, 1, 1)) for v in (federation.scaling.mean, federation.scaling.std))
            x = (x - mean) / std
    return x.reshape(len(x), -1).astype(np.float32)
