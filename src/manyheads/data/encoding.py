"""How a client's samples become the numbers that a model reads, and what the model's outputs mean.

What the preparation of a federation learns is kept here as plain values, so that a client who comes later is encoded as
the others were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.settings import settings

__all__ = ["Columns", "Encoding", "Raw", "Scaling", "Task"]

Task = Literal["classification", "regression"]
DTYPES = ("bool", *(f"{kind}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32, 64)))
DTYPES += ("float16", "float32", "float64")
Raw: TypeAlias = Mapping[str, np.ndarray] | np.ndarray
"""samples before they are encoded: the clean columns of a table, or an array"""


@dataclass(frozen=True)
class Scaling:
    """How pixels stored as bytes become numbers, channel by channel: ``(x / 255 - mean) / std``."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


@settings
class Columns:
    """What the columns of the sites' tables became.

    Numbers come first, ``(x - mean) / deviation`` unless scaling is none, missing ones being the mean; then an input for
    every known value of every category, 1 or 0. A missing or unknown category is all zeros.
    """

    label: str
    """the label column"""
    numbers: tuple[str, ...] = ()
    """columns of numbers"""
    mean: tuple[float, ...] = ()
    """of each of them: of all sites, or of the one site that this is for"""
    deviation: tuple[float, ...] = ()
    """likewise, the standard deviation"""
    categories: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """columns of categories, and the values that training rows have"""
    dropped: tuple[str, ...] = ()
    """columns that do not vary in the training samples"""
    ignored: tuple[str, ...] = ()
    """columns that are left out of any table: those that were asked for, and the one that names the client"""
    scaling: Literal["client", "federated", "none"] = "client"
    """whose training samples give mean and deviation"""
    missing: Literal["mean", "error"] = "mean"
    """whether values may be missing"""
    target: tuple[float, float] = (0.0, 1.0)
    """mean and standard deviation by which the targets of a regression are scaled"""

    def __post_init__(self) -> None:
        if not len(self.numbers) == len(self.mean) == len(self.deviation):
            raise UserError("every column of numbers needs a mean and a deviation", where="numbers")
        if not all(d > 0 for d in (*self.deviation, self.target[1])):
            raise UserError("not above 0", where="deviation")

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the inputs: a column's name, or column=category."""
        return self.numbers + tuple(f"{c}={v}" for c, values in self.categories.items() for v in values)

    @classmethod
    def learnt(
        cls,
        tables: Sequence[Mapping[str, np.ndarray]],
        train: Sequence[np.ndarray],
        numbers: Sequence[str],
        categories: Sequence[str],
        **how: Any,
    ) -> Columns:
        """From the training rows of all sites, by statistics that they may share; ``how`` are the other fields."""
        shared = Moments.merged([Moments.of(_stacked(t, numbers)[rows]) for t, rows in zip(tables, train, strict=True)])
        varies = shared.low < shared.high
        seen = {c: {v for t, rows in zip(tables, train, strict=True) for v in t[c][rows]} for c in categories}
        kept = {c: tuple(sorted(values - {None})) for c, values in seen.items() if len(values) > 1}
        constant = [n for n, v in zip(numbers, varies, strict=True) if not v]
        return cls(
            numbers=tuple(n for n, v in zip(numbers, varies, strict=True) if v),
            mean=tuple(shared.mean[varies].tolist()),
            deviation=tuple(shared.deviation[varies].tolist()),
            categories=kept,
            dropped=tuple(constant + [c for c in categories if c not in kept]),
            **how,
        )

    def of_site(self, table: Mapping[str, np.ndarray], rows: np.ndarray) -> Columns:
        """For one site: by its own training rows if that is the scaling, or as for all where these do not vary.

        A column that is constant within a site (the age of its one patient) tells it from the others: scaled by itself it
        would be 0 everywhere.
        """
        if self.scaling == "federated":
            return self
        own = Moments.of(_stacked(table, self.numbers)[rows])
        used = own.varies if self.scaling == "client" else own.count > 0
        mean, deviation = np.where(used, own.mean, self.mean), np.where(used, own.deviation, self.deviation)
        return replace(self, mean=tuple(mean.tolist()), deviation=tuple(deviation.tolist()))

    def inputs(self, table: Mapping[str, np.ndarray]) -> np.ndarray:
        """The inputs of all rows of a table, [rows, features]."""
        x = _stacked(table, self.numbers)
        x = np.where(np.isnan(x), self.mean, x)
        if self.scaling != "none":
            x = (x - self.mean) / self.deviation
        hot = [table[c][:, None] == np.array(values, object) for c, values in self.categories.items()]
        return np.concatenate([x, *hot], axis=1).astype(np.float32)


@settings
class Encoding:
    """From a client's samples to the model's inputs, and from its outputs to labels or values."""

    task: Task
    """what the outputs are for"""
    outputs: int
    """classes, or the length of a regression target"""
    shape: tuple[int, ...]
    """of a sample"""
    dtype: str = "float32"
    """of the inputs: floats, bytes (of pixels) or whole numbers (codes of words)"""
    label_names: tuple[str, ...] = ()
    """names of the classes 0, 1, ...; without any, their numbers"""
    pixels: Scaling | None = None
    """of inputs stored as bytes"""
    columns: Columns | None = None
    """of a table"""
    augment: bool = False
    """training images are cropped and mirrored at random"""

    def __post_init__(self) -> None:
        if self.outputs < 1 or not all(size > 0 for size in self.shape):
            raise UserError("a sample and its output have at least one number", where="shape", given=self.shape)
        if self.label_names and len(self.label_names) != self.outputs:
            raise UserError("not a name for every class", where="label_names", given=len(self.label_names))
        if self.dtype not in DTYPES:
            raise UserError("no numbers", where="dtype", given=self.dtype, allowed=", ".join(DTYPES))
        if self.columns and self.shape != (len(self.columns.features),):
            raise UserError("not those of the columns", where="shape", given=self.shape)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes; empty for a regression."""
        numbers = range(self.outputs if self.task == "classification" else 0)
        return self.label_names or tuple(str(i) for i in numbers)

    @property
    def target(self) -> tuple[float, float]:
        """Mean and standard deviation by which targets are scaled."""
        return self.columns.target if self.columns else (0.0, 1.0)

    @property
    def loss(self) -> str:
        """What the loss of a regression is, in words; nothing for a classification, whose score is the accuracy."""
        if self.task == "classification":
            return ""
        return "squared error" if self.target[1] == 1 else "squared error over the variance of the target"

    def of_site(self, samples: Raw, rows: np.ndarray) -> Encoding:
        """The encoding of one site, of which ``rows`` are the training samples."""
        if self.columns is None or isinstance(samples, np.ndarray):
            return self
        return replace(self, columns=self.columns.of_site(samples, rows))

    def inputs(self, samples: Raw) -> np.ndarray:
        """What the model reads of each sample (bytes are scaled on the way into the model)."""
        if isinstance(samples, np.ndarray):
            return samples
        assert self.columns is not None
        return self.columns.inputs(samples)

    def scaled(self, targets: np.ndarray) -> np.ndarray:
        """Targets of a regression as the model is to predict them."""
        mean, deviation = self.target
        kind = np.float64 if self.dtype == "float64" else np.float32
        return ((targets - mean) / deviation).astype(kind)

    def unscaled(self, values: np.ndarray) -> np.ndarray:
        """Predicted values in the target's own unit."""
        mean, deviation = self.target
        return values.astype(np.float64) * deviation + mean


def _stacked(table: Mapping[str, np.ndarray], names: Sequence[str]) -> np.ndarray:
    rows = len(next(iter(table.values())))
    return np.stack([table[n] for n in names], axis=1) if names else np.empty((rows, 0))


@dataclass(frozen=True)
class Moments:
    """Statistics of columns that clients may share: from theirs follow those of all, without any row (Chan et al. 1979).

    Squares are about the mean: plain sums of squares would lose all digits of a column such as a date in seconds.
    """

    count: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray) -> Moments:
        """Of the values that are not missing."""
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
