"""How a client's samples become a model's inputs, and what the model's outputs mean.

An encoding holds plain values and is saved with a run, so that a client that joins later is encoded as the others were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.settings import settings
from manyheads.core.tasks import task_named
from manyheads.data.sites.columns import Columns

__all__ = ["Encoding", "Raw", "Scaling"]

DTYPES = ("bool", *(f"{kind}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32, 64)))
DTYPES += ("float16", "float32", "float64")
Raw: TypeAlias = Mapping[str, np.ndarray] | np.ndarray
"""samples before they are encoded: the checked columns of a table, or an array"""


@dataclass(frozen=True)
class Scaling:
    """How pixels stored as bytes become numbers, channel by channel: ``(x / 255 - mean) / std``."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


@settings
class Encoding:
    """From a client's samples to the model's inputs, and from the model's outputs to labels or values."""

    task: str
    """name of the task"""
    outputs: int
    """classes, or the length of a regression target"""
    shape: tuple[int, ...]
    """of a sample"""
    dtype: str = "float32"
    """of the inputs: floats, bytes (pixels) or integers (tokens)"""
    label_names: tuple[str, ...] = ()
    """names of the classes 0, 1, ...; empty: their indices are their names"""
    pixels: Scaling | None = None
    """scaling of inputs stored as bytes"""
    columns: Columns | None = None
    """of tables: how their columns become inputs"""
    augment: bool = False
    """training images are cropped and mirrored at random"""

    def __post_init__(self) -> None:
        task_named(self.task)
        if self.outputs < 1 or not all(size > 0 for size in self.shape):
            raise UserError("a sample and its output need at least one number each", where="shape", given=self.shape)
        if self.label_names and len(self.label_names) != self.outputs:
            raise UserError("not a name for every class", where="label_names", given=len(self.label_names))
        if self.dtype not in DTYPES:
            raise UserError("not a type of numbers", where="dtype", given=self.dtype, allowed=", ".join(DTYPES))
        if self.columns and self.shape != (len(self.columns.features),):
            raise UserError("not the number of inputs that the columns give", where="shape", given=self.shape)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes; empty for a regression."""
        numbers = range(self.outputs if task_named(self.task).classes else 0)
        return self.label_names or tuple(str(i) for i in numbers)

    @property
    def target(self) -> tuple[float, float]:
        """Mean and standard deviation by which targets are scaled."""
        return self.columns.target if self.columns else (0.0, 1.0)

    @property
    def loss(self) -> str:
        """What the loss is, in words; empty for a task that is scored by another metric, such as accuracy."""
        words = task_named(self.task).loss_words
        return f"{words} over the variance of the target" if words and self.target[1] != 1 else words

    def of_site(self, samples: Raw, rows: np.ndarray) -> Encoding:
        """The encoding of one site, of which ``rows`` are the training samples."""
        if self.columns is None or isinstance(samples, np.ndarray):
            return self
        return replace(self, columns=self.columns.of_site(samples, rows))

    def inputs(self, samples: Raw) -> np.ndarray:
        """The model's input for each sample (pixels stay bytes until they enter the model)."""
        if isinstance(samples, np.ndarray):
            return samples
        assert self.columns is not None
        return self.columns.inputs(samples)

    def scaled(self, targets: np.ndarray) -> np.ndarray:
        """Targets of a regression, as the model is trained to predict them."""
        mean, deviation = self.target
        kind = np.float64 if self.dtype == "float64" else np.float32
        return ((targets - mean) / deviation).astype(kind)

    def unscaled(self, values: np.ndarray) -> np.ndarray:
        """Predictions in the unit of the target."""
        mean, deviation = self.target
        return values.astype(np.float64) * deviation + mean
