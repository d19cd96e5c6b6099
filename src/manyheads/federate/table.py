"""A site's own table, as one client of a federation whose other clients are elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.settings import settings
from manyheads.core.words import quoted
from manyheads.data import Federation
from manyheads.data.sites.columns import Columns, Statistics
from manyheads.data.sites.problems import Problem
from manyheads.data.sites.raw import RawTables
from manyheads.data.sites.reading import read_one
from manyheads.data.sites.survey import Survey, surveyed
from manyheads.federate.agreement import Agreement
from manyheads.federate.rules import Policy
from manyheads.federate.study import Study
from manyheads.federate.told import TableTold, told_of

__all__ = ["Divided", "Division", "SiteTable", "TableError"]


class TableError(UserError):
    """A site's table cannot be used. The message is for the site; others are told the column alone."""

    def __init__(self, message: str, column: str | None = None, fix: str | None = None) -> None:
        super().__init__(message, fix=fix)
        where = f" in column {quoted(column)}" if column else ""
        self.told = f"its table cannot be used{where}; manyheads federate check at the site says why"


@settings
class Division:
    """Which divisions of the rows are used: training and test rows, or folds with validation rows of each."""

    seed: int
    validation: float = 0.0
    folds: int = 0
    """0: one training and one test part; otherwise those of a comparison"""

    def of(self, whole: Federation) -> list[Federation]:
        """The federations of a division; of a comparison the whole, that for final models of each fold, those for choices."""
        if not self.folds:
            return [whole.with_validation(self.validation, self.seed)]
        finals = whole.folds(self.folds, self.seed)
        choices = [fold.with_validation(self.validation, self.seed, by_label=True) for fold in finals]
        return [whole, *finals, *choices]

    @property
    def count(self) -> int:
        """How many federations it has."""
        return 1 + 2 * self.folds

    def final(self, fold: int) -> int:
        """The place of a fold's federation for final models."""
        return 1 + fold

    def tuning(self, fold: int) -> int:
        """The place of a fold's federation for choices."""
        return 1 + self.folds + fold


@dataclass(frozen=True, eq=False)
class _Divided(RawTables):
    """Tables that collect the statistics of each division of their rows, and are encoded by what all sites agreed on."""

    given: Iterator[Columns] | None = None
    """for each division, in the order in which they are made; None: only this site's"""
    told: list[Statistics] = field(default_factory=list)
    made: list[Columns] = field(default_factory=list)

    def columns(self, train: Sequence[np.ndarray]) -> Columns:
        own = self.statistics(train)
        self.told.extend(own)
        self.made.append(self.agreed(own) if self.given is None else next(self.given))
        return self.made[-1]

    def place(self, federation: Federation) -> int:
        """By which of the columns a federation is encoded."""
        return next(i for i, columns in enumerate(self.made) if columns is federation.columns)


@dataclass(frozen=True)
class Divided:
    """The federations of a division at one site, and what the site tells about them."""

    federations: list[Federation]
    statistics: list[Statistics]
    encoded_by: list[int]
    """for each federation, the place of its columns among those of all statistics"""


@dataclass(frozen=True)
class SiteTable:
    """The table of one site of a study."""

    study: Study
    site: str
    path: Path
    policy: Policy
    number: int = 0
    """of the site among those that take part"""

    def told(self) -> TableTold:
        """What the site tells about its table."""
        return self.looked_at()[0]

    def looked_at(self) -> tuple[TableTold, list[Problem]]:
        """What the site tells about its table, and what is wrong with it, looked at alone, which is for the site itself."""
        reading = self.study.reading(str(self.path))
        sites, label, problems = read_one(reading, self.site)
        _refuse(problems)
        if not sites:
            raise TableError(f"{self.path} holds no table")
        errors = surveyed(reading, sites, label, list(problems)).errors
        own = [f"an error in column {quoted(p.column)}" if p.column else "an error" for p in errors]
        return told_of(reading, sites[0], label, own, self.policy.min_count, self.policy.label_counts), errors

    def survey(self, agreement: Agreement) -> Survey:
        """The clean table by what all sites agreed on; an error if it does not fit."""
        reading = self.study.reading(str(self.path))
        sites, label, problems = read_one(reading, self.site)
        if sites:
            names = [*agreement.kinds, *reading.roles]
            lacks = [name for name in names if name not in sites[0].columns]
            if lacks or label != agreement.label:
                raise TableError(f"{self.path} lacks the columns {', '.join(lacks) or agreement.label}")
            order = {**dict.fromkeys(names), label: None}
            sites = [replace(sites[0], columns={name: sites[0].columns[name] for name in order})]
        survey = surveyed(reading, sites, label, list(problems), agreement.agreed)
        _refuse(survey.problems)
        known = set(agreement.labels)
        strange = [y for y in dict.fromkeys(survey.sites[0].columns[label].tolist()) if y not in known] if known else []
        if strange:
            fix = f"the study has {quoted(*agreement.labels)}; it is rarer than min_count everywhere: leave these rows out"
            raise TableError(f"{self.path}: a label that the study does not know: {strange[0]!r}", label, fix)
        return survey

    def divided(self, agreement: Agreement, division: Division, columns: Sequence[Columns] | None = None) -> Divided:
        """The site's federations of one client, encoded by ``columns``; and the statistics of each division of its rows."""
        reading = self.study.reading(str(self.path))
        given = iter(columns) if columns is not None else None
        tables = _Divided(self.survey(agreement), reading.scale_target, reading.how, self.policy.min_count, given)
        whole = reading.divided(tables, self.study.name, division.seed, self.number)
        made = division.of(whole)
        return Divided(made, tables.told, [tables.place(each) for each in made])


def _refuse(problems: Sequence[Problem]) -> None:
    for problem in problems:
        if problem.severity == "error":
            raise TableError(str(problem), problem.column)
