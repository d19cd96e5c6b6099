"""Results of a comparison: frozen dataclasses, saved as ``compare.json``, from which the report is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from manyheads.core.errors import Damaged, UserError
from manyheads.core.files import content
from manyheads.core.machine import Machine
from manyheads.core.quantities import Quantity, named_quantity
from manyheads.core.records import Interval, Real, from_table, to_table
from manyheads.core.sealed import fingerprint, read_json, write_json
from manyheads.experiments.describe import FederationFacts
from manyheads.experiments.gains import Gain, MeanGain, SiteGain
from manyheads.experiments.table import aligned, table_of
from manyheads.metrics import METRICS
from manyheads.run.config_file import COMPARISON

__all__ = [
    "ALONE",
    "RESULTS",
    "ComparisonResult",
    "MethodResult",
    "MetricLevel",
    "Observed",
    "Point",
    "RateTried",
    "Recommendation",
    "description",
]

ALONE = "local"
"""label of the baseline: each client trains alone"""
RESULTS = "compare.json"
SCHEMA, READABLE = 2, (1, 2)
AGAIN = "make it again: manyheads compare --resume --out FOLDER"


@dataclass(frozen=True)
class Point:
    """A point of a learning curve on validation samples: mean, minimum and maximum over seeds."""

    round: int
    bytes: int
    """bytes sent by and to all clients up to this round"""
    score: Real
    low: Real
    high: Real


@dataclass(frozen=True)
class Observed:
    """A monitored quantity after a round, the mean over seeds."""

    round: int
    value: Real


@dataclass(frozen=True)
class MetricLevel:
    """A further metric on test samples, averaged over clients: mean, minimum and maximum over seeds."""

    mean: Real
    low: Real
    high: Real
    per_seed: tuple[Real, ...]


@dataclass(frozen=True)
class RateTried:
    """A step size and its score on validation samples; None if the run diverged."""

    rate: float
    validation: float | None


@dataclass(frozen=True, kw_only=True)
class MethodResult:
    """Results of one method: its scores on test samples, and its cost."""

    algorithm: dict[str, Any]
    """settings of the algorithm"""
    finetuned: bool
    """whether its models were fine-tuned before they were scored"""
    rate: float | None
    """the step size that was chosen; None if the method is not tuned"""
    score: Real
    """mean over clients and seeds"""
    interval: Interval
    per_seed: tuple[Real, ...]
    worst_decile: Real
    """mean over the worst tenth of the clients"""
    spread: Real
    """standard deviation over clients"""
    bytes_up: int
    bytes_down: int
    bytes: int
    """both directions, of a whole run over all clients"""
    seconds: Real
    rounds_to_target: int | None
    bytes_to_target: int | None
    curve: tuple[Point, ...]
    monitors: dict[str, tuple[Observed, ...]] = field(default_factory=dict)
    rates: tuple[RateTried, ...] = ()
    gain: MeanGain | None = None
    """mean gain on test samples; None for training alone, which has no gains"""
    gains: tuple[SiteGain, ...] = ()
    """gain of each client that has test samples"""
    validation_gain: Gain | None = None
    """mean gain on validation samples, on which the recommendation is based"""
    metrics: dict[str, MetricLevel] = field(default_factory=dict)
    """further metrics by name, which are reported only"""


@dataclass(frozen=True)
class Recommendation:
    """The recommended method, if any; based on validation samples alone."""

    method: str | None
    best: str | None
    """the method with the largest mean gain, whether or not it is significant"""
    evidence: Literal["enough", "not enough", "none"]
    alternatives: tuple[str, ...]
    """methods that are as good within the uncertainty"""
    text: str


@dataclass(frozen=True, kw_only=True, repr=False)
class ComparisonResult:
    """The results of a comparison; ``result["fedrep"]`` is the result of one method."""

    rounds: int
    seeds: tuple[int, ...]
    protocol: str
    """what :attr:`MethodResult.score` means, in words"""
    score: str
    """the name of the metric that methods are compared by"""
    target: Real
    """score for which :attr:`MethodResult.rounds_to_target` and ``bytes_to_target`` are counted"""
    methods: dict[str, MethodResult]
    """results by label, training alone first"""
    recommendation: Recommendation
    check: str
    """a sentence on whether test samples, not used for any choice, confirm the recommendation"""
    left_out: dict[str, str]
    """methods that could not be compared, with the reason"""
    data: FederationFacts
    settings: dict[str, Any]
    """nested tables, as in configuration files"""
    machine: Machine
    described: str | None = None
    """hash of the settings file in the same folder: see :func:`description`"""
    command: str = ""
    """the Python call that repeats it, if it was run from Python"""

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
    def further(self) -> dict[str, type[Quantity]]:
        """The further metrics, by name."""
        names = dict.fromkeys(name for method in self.methods.values() for name in method.metrics)
        return {name: METRICS.get(name) or named_quantity(name) for name in names}

    @property
    def ranked(self) -> list[str]:
        """The methods, best first."""
        sign = 1 if self.metric.higher_is_better is False else -1
        return sorted(self.methods, key=lambda name: sign * self.methods[name].score)

    @property
    def alone(self) -> MethodResult:
        """The result of training alone."""
        return self.methods[ALONE]

    @property
    def others(self) -> dict[str, MethodResult]:
        """All methods but training alone."""
        return {name: method for name, method in self.methods.items() if name != ALONE}

    @property
    def target_given(self) -> bool:
        """Whether the user set the target; otherwise it is the final score of training alone."""
        return self.settings.get("comparison", {}).get("target") is not None

    @property
    def monitored(self) -> list[str]:
        """Names of the quantities monitored for any method."""
        return list(dict.fromkeys(name for method in self.methods.values() for name in method.monitors))

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON; the key of a score is the name of its metric, such as ``accuracy``."""
        table = {"schema": SCHEMA, **to_table(self)}
        return table | {"methods": _renamed(table["methods"], "score", self.score)}

    @classmethod
    def from_json(cls, table: Mapping[str, Any], where: object = "the result") -> ComparisonResult:
        """Rebuild the result from the output of :meth:`to_json`; ``where`` names the source in errors."""
        if table.get("schema") not in READABLE:
            allowed = ", ".join(map(str, READABLE))
            raise UserError(
                f"{where} is of another version", given=table.get("schema"), allowed=allowed, fix="upgrade manyheads"
            )
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
