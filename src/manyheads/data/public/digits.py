"""The handwritten digits that come with scikit-learn."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
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
        found = _samples()
        x, y = (found[:, :-1] / 16).astype(np.float32), found[:, -1].astype(np.int64)
        test = hold_out(y, self.test_fraction, 10, seed)
        return Pool("digits", x[~test], y[~test], x[test], y[test], 10)


def _samples() -> np.ndarray:
    """A row for each sample, 64 pixels and its label: the file is read directly, as scikit-learn is slow to import."""
    package = find_spec("sklearn")
    for folder in (package and package.submodule_search_locations) or ():
        file = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():
            return np.loadtxt(file, delimiter=",")
    from sklearn.datasets import load_digits  # wherever it has them

    digits = load_digits()
    return np.column_stack([digits.data, digits.target])
