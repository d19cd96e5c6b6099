"""The sites' tables before they are encoded: scaling depends on which rows are for training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyheads.core.errors import UserError
from manyheads.data.hashes import sample_hashes
from manyheads.data.samples import Samples
from manyheads.data.sites.columns import Columns, Statistics
from manyheads.data.sites.moments import Moments
from manyheads.data.sites.survey import Survey

__all__ = ["RawTables"]


@dataclass(frozen=True, eq=False)
class RawTables:
    """The sites' checked tables, to be encoded for any division of their rows."""

    survey: Survey
    scale_target: bool
    how: Mapping[str, Any]
    """the settings among the arguments of :meth:`Columns.fit`"""
    least: int = 1
    """rows of which something must be true to be part of a site's statistics"""

    @property
    def rows(self) -> Samples:
        """The rows of all sites, not encoded yet."""
        survey = self.survey
        labels = [site.columns[survey.label] for site in survey.sites]
        rows = Samples.of([(np.arange(len(y)), y) for y in labels]).numbered(np.zeros(len(labels), int))
        return replace(rows, groups=self._values(survey.group), times=self._values(survey.time))

    @property
    def tested(self) -> np.ndarray | None:
        """Which rows are for the test, if the tables say so."""
        return self._values(self.survey.split)

    def _values(self, column: str) -> np.ndarray | None:
        """Those of all sites, one after another."""
        return np.concatenate([site.columns[column] for site in self.survey.sites]) if column else None

    def select(self, clients: np.ndarray) -> RawTables:
        """The tables of some sites."""
        return replace(self, survey=replace(self.survey, sites=tuple(self.survey.sites[i] for i in clients)))

    def encoded(self, train: Samples, *, columns: Columns | None = None, **others: Samples | None) -> dict[str, Any]:
        """The columns, and these parts of the rows as they become inputs, by statistics of the training rows alone.

        Sites that take no part in training are encoded by the ``columns`` of those that do.
        """
        columns = columns or self.columns(_rows(train))
        tables = [site.columns for site in self.survey.sites]
        x = [own.inputs(table) for own, table in zip(self.of_sites(columns, train), tables, strict=True)]
        y = self._targets(columns.target)
        hashes = [sample_hashes(table, targets, columns) for table, targets in zip(tables, y, strict=True)]

        def encode(part: Samples | None) -> Samples | None:
            if part is None:
                return None
            rows = _rows(part)
            x_, y_, hashes_ = (
                np.concatenate([values[r] for values, r in zip(each, rows, strict=True)]) for each in (x, y, hashes)
            )
            return replace(part, x=x_, y=y_, hashes=hashes_)

        return {"columns": columns, "train": encode(train)} | {name: encode(part) for name, part in others.items()}

    def of_sites(self, columns: Columns, train: Samples) -> tuple[Columns, ...]:
        """How each site's columns become inputs."""
        sites = zip(self.survey.sites, _rows(train), strict=True)
        return tuple(columns.of_site(site.columns, rows) for site, rows in sites)

    def columns(self, train: Sequence[np.ndarray]) -> Columns:
        """How columns become inputs if these are the sites' training rows."""
        return self.agreed(self.statistics(train))

    def statistics(self, train: Sequence[np.ndarray]) -> list[Statistics]:
        """What each site's training rows say about its columns."""
        survey = self.survey
        target = survey.label if survey.task == "regression" and self.scale_target else ""
        return [
            Statistics.of(site.columns, rows, survey.numbers, survey.categories, target, self.least)
            for site, rows in zip(survey.sites, train, strict=True)
        ]

    def agreed(self, sites: Sequence[Statistics]) -> Columns:
        """How columns become inputs, from the statistics of all sites."""
        survey = self.survey
        target = 0.0, 1.0
        if targets := [site.target for site in sites if site.target]:
            shared = Moments.merged(targets)
            target = float(shared.mean[0]), float(shared.deviation[0])
        columns = Columns.fit(
            sites,
            survey.numbers,
            survey.categories,
            label=survey.label,
            target=target,
            booleans=survey.booleans,
            dates=survey.dates,
            **self.how,
        )
        if not columns.features:
            raise UserError(f"{survey.path}: no feature varies in the training samples", fix="add samples or features")
        return columns

    def _targets(self, scaling: tuple[float, float]) -> list[np.ndarray]:
        targets = [site.columns[self.survey.label] for site in self.survey.sites]
        if self.survey.task == "classification":
            number = {label: i for i, label in enumerate(self.survey.labels)}
            return [np.array([number[v] for v in y], dtype=np.int64) for y in targets]
        mean, deviation = scaling
        return [((y - mean) / deviation).astype(np.float32) for y in targets]


def _rows(part: Samples) -> list[np.ndarray]:
    """The rows of each client."""
    assert part.rows is not None
    return [part.rows[part.span(client)] for client in range(len(part))]
