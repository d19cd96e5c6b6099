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
from manyheads.data.federation import Federation
from manyheads.data.marks import marks_of
from manyheads.data.samples import Samples, split_each
from manyheads.data.sites.columns import Columns
from manyheads.data.sites.moments import Moments
from manyheads.data.sites.reading import CLIENT_NAMES, Reading
from manyheads.data.sites.survey import Survey, take

__all__ = ["Prepared", "Sites", "check_sites"]

LONGEST_NAME = 60
"""of a federation: it becomes part of the names of folders"""


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
    columns: Columns

    @property
    def features(self) -> tuple[str, ...]:
        """Of the inputs: a column's name, or column=category."""
        return self.columns.features

    @property
    def dropped(self) -> tuple[str, ...]:
        """Columns that do not vary in the training samples."""
        return self.columns.dropped

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes 0, 1, ...; empty for a regression."""
        return self.federation.label_names

    @property
    def target(self) -> tuple[float, float]:
        """Mean and standard deviation by which the targets of a regression were scaled."""
        return self.columns.target


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
        rows = Samples.of([(np.arange(len(s.rows)), s.columns[survey.label]) for s in survey.sites])
        split = split_each(rows, self.test_fraction, seed, by_label=survey.task == "classification")
        train, test = ([part.client(i)[0] for i in range(len(rows))] for part in split)
        columns = self._columns(survey, train)
        if not columns.features:
            raise UserError(f"{self.path}: no feature varies in the training samples", fix="add samples or features")
        inputs = [
            columns.of_site(site.columns, rows).inputs(site.columns)
            for site, rows in zip(survey.sites, train, strict=True)
        ]
        targets = self._targets(survey, columns.target)
        own, aside = (
            Samples.of([(x[r], y[r]) for x, y, r in zip(inputs, targets, part, strict=True)]) for part in (train, test)
        )
        marks = [marks_of(site.columns, y, columns) for site, y in zip(survey.sites, targets, strict=True)]
        federation = Federation(
            Path(self.path).resolve().name.split(".")[0][:LONGEST_NAME],
            own,
            aside,
            survey.task,
            len(survey.labels) or 1,
            client_names=tuple(site.name for site in survey.sites),
            label_names=survey.labels,
            columns=columns,
            doubts=tuple(str(p) for p in survey.problems),
            marks=Samples.of([(m[r], y[r]) for m, y, r in zip(marks, targets, train, strict=True)]),
        )
        return Prepared(federation, columns)

    def _columns(self, survey: Survey, train: Sequence[np.ndarray]) -> Columns:
        """What the sites' training rows tell about the columns."""
        tables = [site.columns for site in survey.sites]
        owner = (self.client,) if self.client else CLIENT_NAMES
        return Columns.learnt(
            tables,
            train,
            survey.numbers,
            survey.categories,
            label=survey.label,
            ignored=self.ignore + (owner if Path(self.path).is_file() else ()),
            scaling=self.scaling,
            missing=self.missing,
            target=self._target_scaling(survey, train),
        )

    def _target_scaling(self, survey: Survey, train: Sequence[np.ndarray]) -> tuple[float, float]:
        if survey.task == "classification" or not self.scale_target:
            return 0.0, 1.0
        targets = [site.columns[survey.label][rows, None] for site, rows in zip(survey.sites, train, strict=True)]
        shared = Moments.merged([Moments.of(y) for y in targets])
        return float(shared.mean[0]), float(shared.deviation[0])

    def _targets(self, survey: Survey, scaling: tuple[float, float]) -> list[np.ndarray]:
        targets = [site.columns[survey.label] for site in survey.sites]
        if survey.task == "classification":
            number = {label: i for i, label in enumerate(survey.labels)}
            return [np.array([number[v] for v in y], dtype=np.int64) for y in targets]
        mean, deviation = scaling
        return [((y - mean) / deviation).astype(np.float32) for y in targets]
