"""FLamby's published numbers and ours, cell by cell."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyheads.core.errors import UserError
from manyheads.experiments.flamby.benchmark import POOLED

__all__ = ["Cell", "compared", "published"]

METHODS = {
    "Pooled Training": "pooled",
    "FedAvg100": "fedavg",
    "FedProx100": "fedprox",
    "Scaffold100": "scaffold",
    "FedAdam100": "fedadam",
    "FedYogi100": "fedyogi",
    "FedAdagrad100": "fedadagrad",
}
"""FLamby's names of the methods that we have too; with 100 local updates a round"""


@dataclass(frozen=True)
class Cell:
    """A method's values at the test samples of one site, or of all, one for each seed: FLamby's and ours."""

    method: str
    site: str
    published: tuple[float, ...]
    ours: tuple[float, ...]

    @property
    def within(self) -> bool:
        """Whether our mean is within the range of FLamby's seeds."""
        return min(self.published) - 1e-9 <= float(np.mean(self.ours)) <= max(self.published) + 1e-9

    @property
    def apart(self) -> float:
        """The difference of the means, in its standard errors by the spread of both; NaN if neither has any."""
        error = np.sqrt(sum(np.var(values, ddof=1) / len(values) for values in (self.published, self.ours)))
        return float((np.mean(self.ours) - np.mean(self.published)) / error) if error else np.nan


def published(folder: Path, sites: Sequence[str]) -> dict[tuple[str, str], tuple[float, ...]]:
    """By method and site, the values of FLamby's result files, in the order of their seeds."""
    files = sorted(folder.glob("*.csv"))
    if not files:
        raise UserError(f"no results of FLamby in {folder}", fix="put its result files there, one CSV for each seed")
    names = {f"client_test_{i}": site for i, site in enumerate(sites)} | {"Pooled Test": POOLED}
    local = {f"Local {i}": site for i, site in enumerate(sites)}
    found: dict[tuple[str, str], list[float]] = {}
    for file in files:
        with open(file, newline="") as lines:
            for row in csv.DictReader(lines):
                method, site = METHODS.get(row["Method"]), names[row["Test"]]
                if local.get(row["Method"]) == site:
                    method = "local"
                if method:
                    found.setdefault((method, site), []).append(float(row["Metric"]))
    return {cell: tuple(values) for cell, values in found.items()}


def compared(
    theirs: dict[tuple[str, str], tuple[float, ...]], runs: Iterable[Iterable[tuple[str, str, float]]]
) -> list[Cell]:
    """The cells of our runs, one for each seed, beside FLamby's."""
    ours: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        for method, site, value in run:
            ours.setdefault((method, site), []).append(value)
    return [Cell(*cell, theirs[cell], tuple(values)) for cell, values in ours.items()]
