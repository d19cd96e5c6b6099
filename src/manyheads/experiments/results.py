"""Results of a comparison: frozen dataclasses, saved as ``compare.json``, from which the report is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from manyheads.core.errors import Damaged, UserError
from manyheads.core.files import content
from manyheads.core.machine import Machine
from manyheads.core.plain import plain
from manyheads.core.quantities import Quantity, named_quantity
from manyheads.core.records import from_table, to_table
from manyheads.core.sealed import fingerprint, read_json, write_json
from manyheads.experiments.describe import FederationFacts
from manyheads.experiments.gains import Gain, SiteAdvice
from manyheads.experiments.method_result import MethodResult, Tried
from manyheads.experiments.quality import ClassQuality, CrossSites, SurvivalCurve
from manyheads.experiments.table import aligned, table_of
from manyheads.metrics import METRICS
from manyheads.run.config_file import COMPARISON

__all__ = [
    "ALONE",
    "POOLED",
    "RESULTS",
    "ComparisonResult",
    "Recommendation",
    "description",
]

ALONE, POOLED = "alone", "pooled"
"""labels of the best that each site can do alone, and of one model trained on the data of all sites together"""
RESULTS = "compare.json"
SCHEMA = 3
AGAIN = "make it again: manyheads compare --resume --out FOLDER"


@dataclass(frozen=True)
class Recommendation:
    """The recommended method, if any."""

    method: str | None
    best: str | None
    """the method that validation samples favour, whether or not it is recommended"""
    evidence: Literal["enough", "not enough", "too short", "none"]
    alternatives: tuple[str, ...]
    """methods that are as good within the uncertainty"""
    text: str
    gain: Gain | None = None
    """mean gain of what validation samples chose, fold by fold, on test samples that took no part in the choice"""
    chosen: tuple[str, ...] = ()
    """the method chosen in each fold"""
    rising: tuple[str, ...] = ()
    """methods whose validation score still rose at the end"""


@dataclass(frozen=True, kw_only=True, repr=False)
class ComparisonResult:
    """The results of a comparison; ``result["fedrep"]`` is the result of one method."""

    rounds: int
    """the largest number of rounds allowed"""
    folds: int
    seeds: tuple[int, ...]
    protocol: str
    """what :attr:`MethodResult.score` means, in words"""
    score: str
    """the name of the metric that methods are compared by"""
    reason: str
    """why this metric decides"""
    target: float | None
    """validation score for which :attr:`MethodResult.rounds_to_target` and ``bytes_to_target`` are counted"""
    methods: dict[str, MethodResult]
    """results by label: the best alone first, then what it was chosen from, the federated methods, and the ceiling"""
    recommendation: Recommendation
    check: str
    """a sentence on how many sites gain and lose"""
    sites: tuple[SiteAdvice, ...]
    """advice for each site at which the score is defined"""
    left_out: dict[str, str]
    """methods that could not be compared, with the reason"""
    data: FederationFacts
    settings: dict[str, Any]
    """nested tables, as in configuration files"""
    machine: Machine
    cross: CrossSites | None = None
    quality: tuple[ClassQuality, ...] = ()
    survival: tuple[SurvivalCurve, ...] = ()
    described: str | None = None
    """hash of the settings file in the same folder: see :func:`description`"""
    command: str = ""
    """the Python call that repeats it, if it was run from Python"""
    next_step: str = ""
    """the command that trains what is recommended, if it was run from the command line"""

    def __getitem__(self, method: str) -> MethodResult:
        return self.methods[method]

    def __repr__(self) -> str:
        """The table of methods, best first, and the recommendation."""
        return f"{aligned(*table_of(self))}\n\n{self.recommendation.text}\n{self.check}".strip()

    @property
    def metric(self) -> type[Quantity]:
        """The metric named by :attr:`score`: its title, unit and direction."""
        return METRICS.get(self.score) or named_quantity(self.score)

    @property
    def measured(self) -> dict[str, type[Quantity]]:
        """All metrics, by name: the deciding one first."""
        names = dict.fromkeys([self.score, *(name for method in self.methods.values() for name in method.metrics)])
        return {name: METRICS.get(name) or named_quantity(name) for name in names}

    @property
    def ranked(self) -> list[str]:
        """The methods, best first."""
        sign = 1 if self.metric.higher_is_better is False else -1
        return sorted(self.methods, key=lambda name: sign * self.methods[name].score)

    @property
    def alone(self) -> MethodResult:
        """The best that each site can do alone."""
        return self.methods[ALONE]

    @property
    def others(self) -> dict[str, MethodResult]:
        """The federated methods."""
        return {name: method for name, method in self.methods.items() if method.kind == "federated"}

    @property
    def target_given(self) -> bool:
        """Whether the user set the target; otherwise it is the final score of training alone."""
        return self.settings.get("comparison", {}).get("target") is not None

    @property
    def searched(self) -> dict[str, tuple[Tried, ...]]:
        """All settings that were tried for each method, if more than a list of step sizes was; otherwise empty."""
        if not self.settings.get("comparison", {}).get("search"):
            return {}
        return {name: method.rates for name, method in self.methods.items() if method.rates}

    @property
    def monitored(self) -> list[str]:
        """Names of the quantities monitored for any method."""
        return list(dict.fromkeys(name for method in self.methods.values() for name in method.monitors))

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON; the key of a score is the name of its metric, such as ``accuracy``."""
        table = {"schema": SCHEMA, **plain(to_table(self))}
        return table | {"methods": _renamed(table["methods"], "score", self.score)}

    @classmethod
    def from_json(cls, table: Mapping[str, Any], where: object = "the result") -> ComparisonResult:
        """Rebuild the result from the output of :meth:`to_json`; ``where`` names the source in errors."""
        if (schema := table.get("schema")) != SCHEMA:
            old = isinstance(schema, int) and schema < SCHEMA
            fix = "compare again: manyheads compare DATA --out NEW" if old else "upgrade manyheads"
            raise UserError(f"{where} is of another version", given=schema, allowed=str(SCHEMA), fix=fix)
        try:
            methods = _renamed(table["methods"], table["score"], "score")
            methods[ALONE]
        except (KeyError, TypeError, AttributeError):
            raise UserError(f"{where} is not that of a comparison") from None
        return from_table(cls, {**table, "methods": methods}, where)

    def write(self, folder: Path) -> None:
        """Write the result to a folder."""
        write_json(folder / RESULTS, self.to_json())

    @classmethod
    def read(cls, folder: str | Path) -> ComparisonResult:
        """Read the result in a folder; an error if it belongs to other settings than those in the folder."""
        path = Path(folder) / RESULTS
        if not path.is_file():
            raise UserError(f"{folder} holds no {RESULTS}", fix="make one: manyheads compare DATA --out FOLDER")
        found = cls.from_json(read_json(path, fix=AGAIN), path)
        described = description(Path(folder))
        if described and found.described not in (None, described):
            raise Damaged(f"{path} is damaged, or of other settings than those beside it", fix=AGAIN)
        return found


def _renamed(methods: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    """Rename the key of the score in the tables of methods and of their sites."""

    def renamed(table: Mapping[str, Any]) -> dict[str, Any]:
        return {new if k == old else k: v for k, v in table.items()}

    return {
        name: renamed(method) | {k: [renamed(row) for row in method[k]] for k in ("gains",) if k in method}
        for name, method in methods.items()
    }


def description(folder: Path) -> str | None:
    """Return the hash of the settings file in a comparison's folder, which its results must match; None without one."""
    file = folder / COMPARISON
    return fingerprint(content(file)) if file.is_file() else None
