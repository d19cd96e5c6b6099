"""Breast-cancer survival in the six regions of FLamby's Fed-TCGA-BRCA."""

from __future__ import annotations

import csv
import io
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

__all__ = ["PATIENTS", "REGIONS", "SPLIT", "TABLE", "TcgaBrca", "tcga_files"]

PATIENTS, SPLIT = "brca.csv", "train_test_split.csv"
"""FLamby's files: the patients, and each one's region and part"""
REGIONS = ("Northeast", "South", "West", "Midwest", "Europe", "Canada")
"""names of the regions that FLamby numbers from 0 on; the first four are of the USA"""
TABLE, REGION, FOLD = "regions.csv", "region", "fold"
"""the table that is made of them, and its columns that are no features"""


@settings
class TcgaBrca:
    """Survival of 1,088 breast-cancer patients of six regions (TCGA-BRCA, as in FLamby): 39 clinical features."""

    name: ClassVar[str] = "tcga-brca"
    model: ClassVar[str] = "mlp"
    tables: ClassVar[str] = TABLE
    """a file by which a folder of this name is known to hold these data"""
    path: str = ""
    """folder with the table of all regions; empty: tcga-brca under MANYHEADS_DATA"""
    division: Literal["flamby", "random"] = "flamby"
    """the test patients: FLamby's own, or any, at random"""
    scaling: Literal["client", "federated", "none"] = "client"
    """of numbers to mean 0 and deviation 1: by each region's own training samples, by shared statistics; or none"""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """fraction of each region's patients that is held out for its test, if they are divided at random"""

    def federation(self, seed: int) -> Federation:
        place = Location.of(self.name, self.path)
        if not place.has([TABLE]):
            raise place.missing([TABLE], f"made of FLamby's {PATIENTS} and {SPLIT}: manyheads data get tcga-brca")
        own = self.division == "flamby"
        sites = Sites(
            path=str(place.folder / TABLE),
            client=REGION,
            label="time,event",
            split=FOLD if own else "",
            ignore=() if own else (FOLD,),
            scaling=self.scaling,
            test_fraction=self.test_fraction,
        )
        return replace(sites.federation(seed), name=self.name)


def tcga_files(folder: Path) -> dict[str, bytes]:
    """The table of all regions, from FLamby's files in the folder or in one of this name under ``MANYHEADS_DATA``."""
    root = os.environ.get("MANYHEADS_DATA")
    candidates = [folder, *(Path(root) / name for name in (TcgaBrca.name, "tcga_brca") if root)]
    places = [Location(TcgaBrca.name, place, ("dataset_creation_scripts",)) for place in candidates]
    for place in places:
        if found := place.found([PATIENTS, SPLIT]):
            return {TABLE: _joined(*found)}
    raise places[0].missing(
        [PATIENTS, SPLIT], "they are in FLamby, flamby/datasets/fed_tcga_brca (open access; no re-identification)"
    )


def _joined(patients: Path, split: Path) -> bytes:
    """Region, features, time, event and FLamby's part of every patient; not their names."""
    known = {f"{part}_{i}": (part, region) for part in ("train", "test") for i, region in enumerate(REGIONS)}
    parts = {row["pid"]: known.get(row["fold2"]) for row in _rows(split, "pid", "fold2")}
    rows = _rows(patients, "pid", "E", "T")
    features = [name for name in rows[0] if name not in ("pid", "E", "T")]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([REGION, *features, "time", "event", FOLD])
    for row in rows:
        if found := parts.get(row["pid"]):  # the others are of no region
            part, region = found
            table.writerow([region, *(row[name] for name in features), row["T"], row["E"], part])
    return text.getvalue().encode()


def _rows(file: Path, *columns: str) -> list[dict[str, str]]:
    rows = list(csv.DictReader(content(file).decode("utf-8", "replace").splitlines()))
    if not rows or not rows[0].keys() >= set(columns):
        raise UserError(f"{file} is not FLamby's", fix=f"it has the columns {', '.join(columns)}")
    return rows
