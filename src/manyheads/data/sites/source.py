"""The user's own sites: a folder with one file per client, or one table with a client column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.settings import settings
from manyheads.data.federation import Federation
from manyheads.data.hashes import sample_hashes
from manyheads.data.samples import Samples, split_each
from manyheads.data.sites.columns import Columns
from manyheads.data.sites.moments import Moments
from manyheads.data.sites.reading import CLIENT_NAMES, Reading
from manyheads.data.sites.survey import Survey, survey_of

__all__ = ["Sites", "check_sites"]

LONGEST_NAME = 60
"""of a federation: it becomes part of folder names"""


def check_sites(path: str | Path, **reading: Any) -> Survey:
    """What a user's tables hold, and every problem with them; ``reading`` are the fields of :class:`Sites`.

    >>> check_sites(tmp_path := __import__("tempfile").mkdtemp()).errors[0].message
    'the folder holds no table'
    """
    return survey_of(Sites(path=str(path), **reading))


@settings
class Sites(Reading):
    """Your own tables: a folder with one CSV, Excel, Parquet or NPZ file per client, or one table with a client column.

    Columns are scaled by statistics of the training rows: the client's own, or counts, means and sums of squares that the
    clients share. Rows are never pooled, and test rows are never used.
    """

    name: ClassVar[str] = "sites"
    model: ClassVar[str] = "mlp"
    scaling: Literal["client", "federated", "none"] = "client"
    """of numbers to mean 0 and deviation 1: by each client's own training samples, by shared statistics of all; or none"""
    indicators: bool | Literal["auto"] = "auto"
    """inputs that tell where a number is missing; auto: of columns missing in over 5 % of some client's training samples"""
    scale_target: bool = True
    """scale the target of a regression by shared statistics: a loss of 1 is then that of always predicting the mean"""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """fraction of each client's samples that is held out for its test"""

    def federation(self, seed: int) -> Federation:
        survey = survey_of(self)
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
        own, held_out = (
            Samples.of([(x[r], y[r]) for x, y, r in zip(inputs, targets, part, strict=True)]) for part in (train, test)
        )
        hashes = [sample_hashes(site.columns, y, columns) for site, y in zip(survey.sites, targets, strict=True)]
        return Federation(
            Path(self.path).resolve().name.split(".")[0][:LONGEST_NAME],
            own,
            held_out,
            survey.task,
            len(survey.labels) or 1,
            client_names=tuple(site.name for site in survey.sites),
            label_names=survey.labels,
            columns=columns,
            doubts=tuple(str(p) for p in survey.problems),
            hashes=Samples.of([(h[r], y[r]) for h, y, r in zip(hashes, targets, train, strict=True)]),
        )

    def _columns(self, survey: Survey, train: Sequence[np.ndarray]) -> Columns:
        """How the columns become inputs, from statistics of the training rows."""
        tables = [site.columns for site in survey.sites]
        owner = (self.client,) if self.client else CLIENT_NAMES
        return Columns.fit(
            tables,
            train,
            survey.numbers,
            survey.categories,
            label=survey.label,
            ignored=self.ignore + (owner if Path(self.path).is_file() else ()),
            scaling=self.scaling,
            missing=self.missing,
            indicate=self.indicators,
            booleans=survey.booleans,
            dates=survey.dates,
            missing_codes=self.missing_codes,
            sheet=self.sheet,
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
