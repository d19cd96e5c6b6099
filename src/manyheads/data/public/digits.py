"""The handwritten digits that come with scikit-learn."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from manyheads.core.settings import settings
from manyheads.data.pool import Pool, hold_out

__all__ = ["Digits"]


@settings
class Digits:
    """scikit-learn's 1,797 handwritten digits of 8x8 pixels; comes with the package, needs no download."""

    name: ClassVar[str] = "digits"
    model: ClassVar[str] = "mlp"
    """the default model for the data"""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """fraction of every class that is held out for the clients' tests"""

    def pool(self, seed: int) -> Pool:
        from sklearn.datasets import load_digits

        digits = load_digits()
        x, y = (digits.data / 16).astype(np.float32), digits.target.astype(np.int64)
        test = hold_out(y, self.test_fraction, 10, seed)
        return Pool("digits", x[~test], y[~test], x[test], y[test], 10)
