"""The user's own sites: a folder with one file per client, or one table with a client column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.settings import settings
from manyheads.data.federation import Federation, Samples, split_each
from manyheads.data.survey import Reading, Site, Survey, take

__all__ = ["Prepared", "Sites", "check_sites"]


def check_sites(path: str | Path, **reading: Any) -> Survey:
    """What a user's sites hold and what is wrong with it; ``reading`` as in :class:`Sites`.

    >>> check_sites(tmp_path := __import__("tempfile").mkdtemp()).errors[0].message
    'the folder holds no table'
    """
    return take(Sites(path=str(path), **reading))


@dataclass(frozen=True)
class Prepared:
    """A federation made of tables, and what its numbers mean."""

    federation: Federation
    features: tuple[str, ...]
    """of the inputs: a column's name, or column=category"""
    dropped: tuple[str, ...]
    """columns that do not vary in the training samples"""
    labels: tuple[str, ...]
    """names of the classes 0, 1, ...; empty for a regression"""
    target: tuple[float, float]
    """mean and standard deviation by which the targets of a regression were scaled"""


@settings
class Sites(Reading):
    """Your own tables: a folder with one CSV, Parquet or NPZ file per client, or one table with a client column.

    What a client's scaling needs comes from its own training samples, or from counts, means and squares that the clients
    share; raw rows are never pooled, and test rows are never looked at.
    """

    name: ClassVar[str] = "sites"
    model: ClassVar[str] = "mlp"
    scaling: Literal["client", "federated", "none"] = "client"
    """of numbers to mean 0 and deviation 1: by each client's own training samples, or by those of all, shared as statistics"""
    scale_target: bool = True
    """of a regression, by federated statistics: a loss of 1 is then that of always predicting the mean"""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """part of each client's samples that is kept for its test"""

    def federation(self, seed: int) -> Federation:
        return self.prepare(seed).federation

    def prepare(self, seed: int) -> Prepared:
        """The federation, with the names of its inputs and labels."""
        survey = take(self)
        if survey.errors:
            more = f"; {len(survey.errors) - 1} more errors" if len(survey.errors) > 1 else ""
            raise UserError(f"{survey.errors[0]}{more}; see all: manyheads data check {self.path}")
        rows = [np.arange(len(site.rows)) for site in survey.sites]
        split = split_each(Samples.of([(r, r) for r in rows]), self.test_fraction, seed)
        train, test = ([part.client(i)[0] for i in range(len(rows))] for part in split)
        inputs, features = self._inputs(survey, train)
        targets, target = self._targets(survey, train)
        own, aside = (
            Samples.of([(x[r], y[r]) for x, y, r in zip(inputs, targets, part, strict=True)]) for part in (train, test)
        )
        name = Path(self.path).resolve().name.split(".")[0]
        names = tuple(site.name for site in survey.sites)
        federation = Federation(name, own, aside, survey.task, len(survey.labels) or 1, client_names=names)
        dropped = tuple(f for f in survey.features if not any(n == f or n.startswith(f"{f}=") for n in features))
        return Prepared(federation, features, dropped, survey.labels, target)

    def _inputs(self, survey: Survey, train: Sequence[np.ndarray]) -> tuple[list[np.ndarray], tuple[str, ...]]:
        """Each site's inputs, all rows; whatever they are made with comes from its training rows."""
        numbers = [_stacked(site, survey.numbers) for site in survey.sites]
        own = [_Moments.of(x[rows]) for x, rows in zip(numbers, train, strict=True)]
        shared = _Moments.merged(own)
        varies = shared.low < shared.high
        names = [n for n, v in zip(survey.numbers, varies, strict=True) if v]
        inputs = []
        for x, moments in zip(numbers, own, strict=True):
            by = shared if self.scaling == "federated" else moments.or_else(shared)
            x = np.where(np.isnan(x), by.mean, x)
            inputs.append(((x - by.mean) / by.deviation if self.scaling != "none" else x)[:, varies])
        for column in survey.categories:
            known = {v for s, rows in zip(survey.sites, train, strict=True) for v in s.columns[column][rows]}
            categories = sorted(known - {None})
            if len(known) < 2:
                continue
            names += [f"{column}={category}" for category in categories]
            for i, site in enumerate(survey.sites):
                hot = site.columns[column][:, None] == np.array(categories, object)
                inputs[i] = np.concatenate([inputs[i], hot], axis=1)
        if not names:
            raise UserError(f"{self.path}: no feature varies in the training samples", fix="add samples or features")
        return [x.astype(np.float32) for x in inputs], tuple(names)

    def _targets(self, survey: Survey, train: Sequence[np.ndarray]) -> tuple[list[np.ndarray], tuple[float, float]]:
        columns = [site.columns[survey.label] for site in survey.sites]
        if survey.task == "classification":
            number = {label: i for i, label in enumerate(survey.labels)}
            return [np.array([number[v] for v in y], dtype=np.int64) for y in columns], (0.0, 1.0)
        if not self.scale_target:
            return [y.astype(np.float32) for y in columns], (0.0, 1.0)
        shared = _Moments.merged([_Moments.of(y[rows, None]) for y, rows in zip(columns, train, strict=True)])
        mean, deviation = float(shared.mean[0]), float(shared.deviation[0])
        return [((y - mean) / deviation).astype(np.float32) for y in columns], (mean, deviation)


def _stacked(site: Site, names: Sequence[str]) -> np.ndarray:
    return np.stack([site.columns[n] for n in names], axis=1) if names else np.empty((len(site.rows), 0))


@dataclass(frozen=True)
class _Moments:
    """Statistics of columns that clients may share: from theirs follow those of all, without any row (Chan et al. 1979).

    Squares are about the mean: plain sums of squares would lose all digits of a column such as a date in seconds.
    """

    count: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray) -> _Moments:
        """Of the values that are not missing."""
        known = ~np.isnan(x)
        count = known.sum(axis=0)
        mean = np.where(known, x, 0).sum(axis=0) / np.maximum(count, 1)
        squares = np.where(known, (x - mean) ** 2, 0).sum(axis=0)
        low, high = (pick.reduce(np.where(known, x, at), axis=0, initial=at) for pick, at in _ENDS)
        return cls(count, mean, squares, low, high)

    @classmethod
    def merged(cls, all_: Sequence[_Moments]) -> _Moments:
        count, mean, squares, low, high = (
            np.stack([getattr(m, part) for m in all_]) for part in ("count", "mean", "squares", "low", "high")
        )
        total = count.sum(axis=0)
        middle = (count * mean).sum(axis=0) / np.maximum(total, 1)
        return cls(
            total, middle, (squares + count * (mean - middle) ** 2).sum(axis=0), low.min(axis=0), high.max(axis=0)
        )

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviations; 1 for a column whose values differ by rounding only."""
        std = np.sqrt(self.squares / np.maximum(self.count, 1))
        return np.where(std > 1e-12 * np.abs(self.mean), std, 1.0)

    def or_else(self, other: _Moments) -> _Moments:
        """These, or the others' for columns of which all values are missing here."""
        parts = ("count", "mean", "squares", "low", "high")
        return _Moments(*(np.where(self.count > 0, getattr(self, p), getattr(other, p)) for p in parts))


_ENDS: tuple[tuple[Any, float], ...] = ((np.minimum, np.inf), (np.maximum, -np.inf))
