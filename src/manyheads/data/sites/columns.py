"""How the columns of the sites' tables become a model's inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.settings import settings
from manyheads.data.sites.moments import Moments

__all__ = ["OFTEN", "Columns", "Statistics", "often_missing"]

OFTEN, FEWEST = 0.05, 5
"""a column gets an indicator if more than this share of a site's values is missing, and at least so many"""


@dataclass(frozen=True, eq=False)
class Statistics:
    """What a site's training rows say about its columns, of which :meth:`Columns.fit` needs to know no row."""

    rows: int
    moments: Moments
    """of the columns of numbers"""
    categories: Mapping[str, Collection[str | None]]
    """the values of each column of categories; None if some are missing"""
    target: Moments | None = None
    """of the target of a regression"""

    @classmethod
    def of(
        cls,
        table: Mapping[str, np.ndarray],
        rows: np.ndarray,
        numbers: Sequence[str],
        categories: Sequence[str],
        target: str = "",
        least: int = 1,
    ) -> Statistics:
        """Of some rows of a table; nothing is told that is of fewer than ``least`` rows."""
        counts = {c: Counter(table[c][rows].tolist()) for c in categories}
        return cls(
            len(rows),
            Moments.of(_stacked(table, numbers)[rows]).of_at_least(least),
            {c: {value for value, count in found.items() if count >= least} for c, found in counts.items()},
            Moments.of(table[target][rows, None]) if target else None,
        )


@settings
class Columns:
    """How each column of the sites' tables becomes inputs.

    Numbers come first, as ``(x - mean) / deviation`` unless scaling is none; a missing number is the mean. Then come the
    categories, one-hot encoded; a missing or unknown category is all zeros. Last come the indicators, 1 where a number
    is missing.
    """

    label: str
    """the label column; of survival, the two columns TIME,EVENT"""
    numbers: tuple[str, ...] = ()
    """columns of numbers"""
    mean: tuple[float, ...] = ()
    """the mean of each of them, over all sites or over one (see :meth:`of_site`)"""
    deviation: tuple[float, ...] = ()
    """the standard deviation of each of them, likewise"""
    categories: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """columns of categories, each with its values in the training rows"""
    dropped: tuple[str, ...] = ()
    """columns left out because they do not vary in the training rows"""
    ignored: tuple[str, ...] = ()
    """columns to leave out of any table: those the user named, and the client column"""
    scaling: Literal["client", "federated", "none"] = "client"
    """whose training rows give mean and deviation"""
    missing: Literal["mean", "error"] = "mean"
    """whether values may be missing"""
    target: tuple[float, float] = (0.0, 1.0)
    """mean and standard deviation by which the targets of a regression are scaled"""
    indicators: tuple[str, ...] = ()
    """columns of numbers that have an indicator of missing values"""
    booleans: tuple[str, ...] = ()
    """columns of numbers that are 0 and 1 for booleans"""
    dates: dict[str, str] = Field(default_factory=dict)
    """columns of numbers that are days, for dates; with the order of day and month, if all sites have the same"""
    missing_codes: tuple[str, ...] = ()
    """the user's codes of missing values"""
    sheet: str = ""
    """of Excel files, the sheet that was read"""

    def __post_init__(self) -> None:
        if not len(self.numbers) == len(self.mean) == len(self.deviation):
            raise UserError("every column of numbers needs a mean and a deviation", where="numbers")
        if not all(d > 0 for d in (*self.deviation, self.target[1])):
            raise UserError("not above 0", where="deviation")
        if not {*self.indicators, *self.booleans, *self.dates} <= {*self.numbers, *self.dropped}:
            raise UserError("indicators, booleans and dates are columns of numbers", where="indicators")

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the inputs: a column's name, column=category, or "column missing"."""
        hot = tuple(f"{c}={v}" for c, values in self.categories.items() for v in values)
        return self.numbers + hot + tuple(f"{c} missing" for c in self.indicators)

    @classmethod
    def fit(
        cls,
        sites: Sequence[Statistics],
        numbers: Sequence[str],
        categories: Sequence[str],
        indicate: bool | Literal["auto"] = False,
        **how: Any,
    ) -> Columns:
        """From statistics of all sites' training rows; ``how`` are the other fields.

        ``indicate`` says which numbers get an indicator: none, all that are missing in some row, or, with auto, those
        that are often missing at some site.
        """
        shared = Moments.merged([site.moments for site in sites])
        varies = shared.low < shared.high
        seen = {c: set[str | None]().union(*(site.categories[c] for site in sites)) for c in categories}
        kept = {c: tuple(sorted(v for v in values if v is not None)) for c, values in seen.items() if len(values) > 1}
        constant = [n for n, v in zip(numbers, varies, strict=True) if not v]
        told = np.zeros(len(numbers), bool)
        for site in sites:
            missing = site.rows - site.moments.count
            told |= often_missing(missing, site.rows) if indicate == "auto" else (missing > 0) & indicate
        return cls(
            numbers=tuple(n for n, v in zip(numbers, varies, strict=True) if v),
            mean=tuple(shared.mean[varies].tolist()),
            deviation=tuple(shared.deviation[varies].tolist()),
            categories=kept,
            dropped=tuple(constant + [c for c in categories if c not in kept]),
            indicators=tuple(n for n, t in zip(numbers, varies & told, strict=True) if t),
            **how,
        )

    def of_site(self, table: Mapping[str, np.ndarray], rows: np.ndarray) -> Columns:
        """For one site: scaled by its own training rows, unless scaling is federated.

        A column that is constant within the site (the age of its only patient) is scaled as for all sites: by its own
        statistics it would be 0, and what distinguishes the site would be lost.
        """
        if self.scaling == "federated":
            return self
        own = Moments.of(_stacked(table, self.numbers)[rows])
        used = own.varies if self.scaling == "client" else own.count > 0
        mean, deviation = np.where(used, own.mean, self.mean), np.where(used, own.deviation, self.deviation)
        return replace(self, mean=tuple(mean.tolist()), deviation=tuple(deviation.tolist()))

    def changes(self, own: Columns) -> dict[str, Any]:
        """The fields in which ``own`` differs: what distinguishes a site from the others."""
        return {f.name: getattr(own, f.name) for f in fields(self) if getattr(own, f.name) != getattr(self, f.name)}

    def inputs(self, table: Mapping[str, np.ndarray]) -> np.ndarray:
        """The inputs of a table, [rows, features]."""
        x = _stacked(table, self.numbers)
        missing = np.isnan(_stacked(table, self.indicators))
        x = np.where(np.isnan(x), self.mean, x)
        if self.scaling != "none":
            x = (x - self.mean) / self.deviation
        hot = [table[c][:, None] == np.array(values, object) for c, values in self.categories.items()]
        return np.concatenate([x, *hot, missing], axis=1).astype(np.float32)


def often_missing(missing: np.ndarray, rows: int | np.ndarray) -> np.ndarray:
    """Whether so many of a site's rows are missing that an indicator may tell something.

    >>> often_missing(np.array([4, 5]), 20), often_missing(np.array([5, 6]), 100)
    (array([False,  True]), array([False,  True]))
    """
    return (missing >= FEWEST) & (missing > OFTEN * rows)


def _stacked(table: Mapping[str, np.ndarray], names: Sequence[str]) -> np.ndarray:
    rows = len(next(iter(table.values())))
    return np.stack([table[n] for n in names], axis=1) if names else np.empty((rows, 0))
