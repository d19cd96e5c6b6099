"""The user's own sites: a folder with one file per client, or one table with a client column."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.settings import settings
from manyheads.core.tasks import task_named
from manyheads.data.division import set_aside
from manyheads.data.federation import Federation
from manyheads.data.sites.raw import RawTables
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
    """fraction of each client's samples that is held out for its test, unless there is a split of your own"""

    def federation(self, seed: int) -> Federation:
        survey = survey_of(self)
        if survey.errors:
            more = f"; {len(survey.errors) - 1} more errors" if len(survey.errors) > 1 else ""
            raise UserError(f"{survey.errors[0]}{more}; see all: manyheads data check {self.path}")
        name = Path(self.path).resolve().name.split(".")[0][:LONGEST_NAME]
        return self.divided(RawTables(survey, self.scale_target, self.how), name, seed)

    def divided(self, tables: RawTables, name: str, seed: int, first: int = 0) -> Federation:
        """The federation of these tables, with their own test parts, or with such drawn from ``seed``.

        ``first`` is the number of the first site, if it is not 0: a site holds one client of a larger federation.
        """
        survey, rows = tables.survey, tables.rows
        aside = tables.tested
        if aside is None:
            aside = set_aside(rows, self.test_fraction, seed, strata=task_named(survey.task).strata, first=first)
        return Federation(
            name=name,
            task=survey.task,
            outputs=len(survey.labels) or 1,
            client_names=tuple(site.name for site in survey.sites),
            label_names=survey.labels,
            doubts=tuple(str(p) for p in survey.problems),
            own_test=tables.tested is not None,
            tables=tables,
            first=first,
            **tables.encoded(rows.where(~aside), test=rows.where(aside)),
        )

    @property
    def how(self) -> dict[str, Any]:
        """The settings among the arguments of :meth:`Columns.fit`."""
        owner = (self.client,) if self.client else CLIENT_NAMES
        return {
            "ignored": self.ignore + self.roles + (owner if Path(self.path).is_file() else ()),
            "scaling": self.scaling,
            "missing": self.missing,
            "missing_codes": self.missing_codes,
            "sheet": self.sheet,
            "indicate": self.indicators,
        }
