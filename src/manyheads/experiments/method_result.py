"""Results of one method of a comparison: its scores on test samples, what was chosen for it, and its cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from manyheads.core.records import Interval, Real
from manyheads.experiments.gains import MeanGain, SiteGain

__all__ = ["Choice", "MethodResult", "MetricLevel", "Observed", "Point", "Tried"]


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


@dataclass(frozen=True, kw_only=True)
class MetricLevel:
    """A metric on test samples, averaged over the sites at which it is defined."""

    mean: Real
    low: Real
    """smallest and largest mean of a seed"""
    high: Real
    per_seed: tuple[Real, ...]
    worst_decile: Real
    """mean over the worst tenth of the sites"""
    spread: Real
    """standard deviation over sites"""
    sites: tuple[Real, ...] = ()
    """value at each site, the mean over seeds; NaN where it is undefined; empty if there are very many sites"""


@dataclass(frozen=True)
class Tried:
    """A step size, with values of other settings if these were searched, and what it scored on validation samples."""

    rate: float | None
    """None: the method's own"""
    validation: float | None
    """its best score, mean over the folds in which it was tried; None if a run diverged"""
    knobs: dict[str, Any] = field(default_factory=dict)
    folds: int = 1
    """in how many folds it was tried"""
    stopped: int = 0
    """in how many of them it was stopped early, as it could not become the best"""
    rounds: int = 0
    """rounds of all its trainings"""


@dataclass(frozen=True)
class Choice:
    """What was chosen in a fold, by validation samples: the step size, the number of rounds, and searched settings."""

    fold: int
    rate: float | None
    rounds: int
    validation: Real
    """the validation score by which they were chosen"""
    knobs: dict[str, Any] = field(default_factory=dict)
    """values of further settings, if these were searched"""


@dataclass(frozen=True, kw_only=True)
class MethodResult:
    """Results of one method: its scores on test samples, and its cost."""

    kind: Literal["federated", "alone", "ceiling"]
    title: str
    """what it is, in words"""
    score: Real
    """mean over sites and seeds"""
    interval: Interval
    per_seed: tuple[Real, ...]
    worst_decile: Real
    """mean over the worst tenth of the sites"""
    spread: Real
    """standard deviation over sites"""
    metrics: dict[str, MetricLevel] = field(default_factory=dict)
    """all metrics by name, the deciding one too"""
    validation: float | None = None
    """score on validation samples at the chosen settings, mean over folds; None if it is defined at no site"""
    algorithm: dict[str, Any] = field(default_factory=dict)
    """name and settings of the algorithm, with the chosen step size; empty for models that are not networks of ours"""
    finetuned: bool = False
    """whether its models were fine-tuned before they were scored"""
    rate: float | None = None
    """the step size that is best over all folds; None if the method is not tuned"""
    knobs: dict[str, Any] = field(default_factory=dict)
    """further settings that were chosen with it, if these were searched"""
    rounds: int = 0
    """the number of rounds to train with it: the median over the folds"""
    choices: tuple[Choice, ...] = ()
    rising: bool = False
    """whether the validation score still rose when the training reached its largest number of rounds"""
    passes: Real = 0.0
    """passes over a site's training samples in one training, mean over sites, folds and seeds"""
    bytes_up: int = 0
    bytes_down: int = 0
    bytes: int = 0
    """both directions, of one training over all sites"""
    seconds: Real = 0.0
    rounds_to_target: int | None = None
    bytes_to_target: int | None = None
    curve: tuple[Point, ...] = ()
    monitors: dict[str, tuple[Observed, ...]] = field(default_factory=dict)
    rates: tuple[Tried, ...] = ()
    """all that was tried to choose its settings"""
    gain: MeanGain | None = None
    """mean gain over the best alone; None for models alone"""
    gains: tuple[SiteGain, ...] = ()
    """gain of each site at which the score is defined"""
