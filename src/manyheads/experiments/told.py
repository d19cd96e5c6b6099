"""What a site tells of its samples in a comparison: numbers of samples, values of metrics, and moments.

A site tells twice: of its validation samples, by which models are chosen, and then of its test samples, of all methods.
Both are computed from the site's own predictions alone, at a real site as in a simulation, and travel as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from manyheads.core.records import Number, from_table, to_table
from manyheads.experiments.choices import validation_score
from manyheads.experiments.differences import difference, site_score, value_of
from manyheads.experiments.outcomes import OutOfFold, by_fold
from manyheads.experiments.results import ALONE
from manyheads.metrics import Metric, Predictions
from manyheads.metrics.paired import Differences, Moments

__all__ = ["MethodTold", "Told", "ValidationTold", "tell", "tell_validation"]


@dataclass(frozen=True)
class ValidationTold:
    """What a site tells of its validation samples, before anything is chosen."""

    samples: tuple[int, ...]
    """their number in each fold"""
    scores: dict[str, tuple[tuple[Number, Number], ...]]
    """of each kind of model that the site fitted alone, other than networks: score and negative loss in each fold, so
    that higher is better; NaN where they are not defined"""

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return to_table(self)

    @classmethod
    def from_json(cls, table: Mapping[str, Any], where: object) -> ValidationTold:
        """Rebuild it from the output of :meth:`to_json`; ``where`` names the site in errors."""
        return from_table(cls, table, where)


@dataclass(frozen=True, kw_only=True)
class MethodTold:
    """What a site tells of one method."""

    metrics: dict[str, tuple[Number, ...]]
    """the value of each metric for each seed; NaN where it is not defined"""
    score: Moments | None = None
    """of the metric that decides; None where it is not defined"""
    gain: Moments | None = None
    """of its difference from the best alone, positive if the method is better; None for the best alone itself"""


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a site tells of its test samples."""

    samples: int
    """their number, over all folds"""
    methods: dict[str, MethodTold] = field(default_factory=dict)
    """by label; the first is the best alone"""
    chosen: MethodTold | None = None
    """of the federated method that is chosen in each fold; None without federated methods"""

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return to_table(self)

    @classmethod
    def from_json(cls, table: Mapping[str, Any], where: object) -> Told:
        """Rebuild it from the output of :meth:`to_json`; ``where`` names the site in errors."""
        return from_table(cls, table, where)


def tell_validation(
    metric: Metric, samples: Sequence[int], predictions: Mapping[str, Sequence[Predictions]]
) -> ValidationTold:
    """What a site tells of its validation samples, of which it has ``samples`` in each fold.

    ``predictions`` are those for these samples, fold by fold, of each kind of model that it fitted to its training samples.
    """
    scores = {name: tuple(validation_score(metric, own) for own in folds) for name, folds in predictions.items()}
    return ValidationTold(tuple(samples), scores)


def tell(
    metric: Metric,
    metrics: Sequence[Metric],
    predictions: Mapping[str, Sequence[OutOfFold]],
    alone: Sequence[str],
    chosen: Sequence[str],
) -> Told:
    """What a site tells of its test samples: of the ``metric`` that decides, and of the values of all ``metrics``.

    ``predictions`` are those for the site's own samples, of each method for each seed. ``alone`` and ``chosen`` name, for
    each fold, the model that the site chooses alone, and the federated method that all sites choose (none: empty).
    """
    best = by_fold(predictions, alone)
    score = site_score(metric, best)
    methods = {ALONE: _of_method(metric, metrics, best, score, None)}
    for name, own in predictions.items():
        methods[name] = _of_method(metric, metrics, own, site_score(metric, own), score)
    picked = None
    if chosen:
        own = by_fold(predictions, chosen)
        picked = _of_method(metric, metrics, own, site_score(metric, own), score)
    return Told(samples=len(best[0].fold), methods=methods, chosen=picked)


def _of_method(
    metric: Metric,
    metrics: Sequence[Metric],
    own: Sequence[OutOfFold],
    score: Differences | None,
    alone: Differences | None,
) -> MethodTold:
    gain = None if score is None or alone is None else difference(score, alone, metric.sign)
    return MethodTold(
        metrics={each.name: tuple(value_of(each, seed) for seed in own) for each in metrics},
        score=None if score is None else Moments.of(score),
        gain=None if gain is None else Moments.of(gain),
    )
