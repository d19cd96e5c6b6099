"""Published tables of real sites: a federation as it is, without a partition."""

from __future__ import annotations

import csv
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.settings import settings
from manyheads.data.content import content
from manyheads.data.federation import Federation
from manyheads.data.public.locate import Location
from manyheads.data.sites.source import Sites

__all__ = ["UPDRS", "Heart", "Parkinsons", "heart_files", "parkinsons_files"]

HEART = Path(__file__).parent / "heart"
"""the tables that come with the package, and whose they are"""
UPDRS = "parkinsons_updrs.data"
"""the name of UCI's file of all patients"""
SUBJECT, TOTAL = "subject#", "total_UPDRS"
"""its columns that are no features: the patient, and a score that includes the one to predict"""
AT_RANDOM = "a patient's recordings are divided at random; later ones are harder to predict: --data.division time"


@settings
class Heart:
    """Heart disease at four hospitals (UCI, 1989): 920 patients, 13 features; comes with the package."""

    name: ClassVar[str] = "heart"
    model: ClassVar[str] = "mlp"
    known_by: ClassVar[str] = "Cleveland.csv"
    """a file by which a folder of this name is known to hold these data"""
    path: str = ""
    """folder with a copy of the tables; empty: those that come with the package"""
    scaling: Literal["client", "federated", "none"] = "client"
    """of numbers to mean 0 and deviation 1: by each hospital's own training samples, by shared statistics; or none"""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """fraction of each hospital's patients that is held out for its test"""

    @property
    def reading(self) -> Sites:
        """How the hospitals' tables are read."""
        return Sites(
            path=self.path or str(HEART),
            label="disease",
            task="classification",
            categories=("cp", "restecg", "slope", "thal"),
            missing_codes=("chol=0", "trestbps=0"),
            indicators=False,  # what a hospital did not measure, it lacks of nearly all: they tell of the hospital alone
            scaling=self.scaling,
            test_fraction=self.test_fraction,
        )

    def federation(self, seed: int) -> Federation:
        made = self.reading.federation(seed)
        doubts = tuple(
            doubt.replace(f"{HEART.parent}/", "") for doubt in made.doubts
        )  # where the package is tells nobody
        return replace(made, name=self.name, doubts=doubts)


@settings
class Parkinsons:
    """Telemonitoring of 42 patients with Parkinson's disease (UCI, 2009): 5,875 recordings, to predict the motor UPDRS."""

    name: ClassVar[str] = "parkinsons"
    model: ClassVar[str] = "mlp"
    known_by: ClassVar[str] = "subject01.csv"
    path: str = ""
    """folder with one table per patient; empty: parkinsons under MANYHEADS_DATA"""
    division: Literal["random", "time"] = "random"
    """of a patient's recordings: at random, or tests are on later days, and the day (test_time) is no feature"""
    scaling: Literal["client", "federated", "none"] = "client"
    """of numbers to mean 0 and deviation 1: by each patient's own training samples, by shared statistics; or none"""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """fraction of each patient's recordings that is held out for the test"""

    def federation(self, seed: int) -> Federation:
        place = Location.of(self.name, self.path, "sites")
        found = place.matching("subject*.csv")
        if not found:
            raise place.missing(
                ["subject01.csv, ..., subject42.csv"], f"made of UCI's {UPDRS}: manyheads data get parkinsons"
            )
        sites = Sites(
            path=str(found[0].parent),
            label="motor_UPDRS",
            task="regression",
            time="test_time" if self.division == "time" else "",
            scaling=self.scaling,
            test_fraction=self.test_fraction,
        )
        made = replace(sites.federation(seed), name=self.name)
        return made if self.division == "time" else replace(made, doubts=(*made.doubts, AT_RANDOM))


def heart_files(folder: Path) -> dict[str, bytes]:
    """The tables that come with the package, and their attribution; none is looked for in the folder."""
    return {file.name: content(file) for file in sorted(HEART.iterdir())}


def parkinsons_files(folder: Path) -> dict[str, bytes]:
    """The table of each patient, or UCI's file of all, from the folder or from the one under ``MANYHEADS_DATA``."""
    root = os.environ.get("MANYHEADS_DATA")
    places = [Location(Parkinsons.name, folder, ("sites",))]
    places += [Location.of(Parkinsons.name, "", "sites")] if root else []
    for place in places:
        if tables := place.matching("subject*.csv"):
            return {file.name: content(file) for file in tables}
        if found := place.found([UPDRS]):
            return _by_subject(found[0])
    raise places[0].missing([UPDRS], "it is at https://archive.ics.uci.edu/dataset/189 (CC BY 4.0)")


def _by_subject(file: Path) -> dict[str, bytes]:
    """A table for each patient, without the patient's number and the other score."""
    text = content(file).decode("utf-8", "replace")
    rows = csv.DictReader(text.splitlines(), delimiter="\t" if "\t" in text else ",")
    head = list(rows.fieldnames or ())
    kept = [name for name in head if name not in (SUBJECT, TOTAL)]
    broken = UserError(f"{file} is not UCI's table of all patients", fix="download it again")
    tables: dict[str, list[str]] = {}
    for row in rows:
        if len(kept) != len(head) - 2 or None in row.values() or not row[SUBJECT].isdecimal():
            raise broken
        own = tables.setdefault(f"subject{row[SUBJECT].zfill(2)}.csv", [",".join(kept)])
        own.append(",".join(row[name] for name in kept))
    if not tables:
        raise broken
    return {name: ("\n".join(table) + "\n").encode() for name, table in tables.items()}
