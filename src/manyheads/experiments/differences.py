"""The score of a method at one site, and its difference from that of another, with what intervals need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manyheads.experiments.outcomes import OutOfFold
from manyheads.metrics import Metric
from manyheads.metrics.metric import ClosedFormMetric, SampleMetric
from manyheads.metrics.paired import Differences

__all__ = ["difference", "site_score", "value_of"]


def site_score(metric: Metric, own: Sequence[OutOfFold]) -> Differences | None:
    """The score from predictions for the site's samples, for each seed; None where the metric is not defined."""
    fold = own[0].fold
    if not len(fold) or not all(np.isfinite(each.predictions.outputs).all() for each in own):
        return None
    found = [each for seed in own if (each := metric.contributions(*seed)) is not None]
    if len(found) < len(own):
        return None
    runs = None
    if not isinstance(metric, SampleMetric):  # the value of a run is then no sum of what its samples contribute
        parts = [np.flatnonzero(fold == index) for index in range(int(fold.max()) + 1)]
        runs = np.array([[value_of(metric, seed.take(rows)) for rows in parts] for seed in own])
    return Differences(
        np.array([each.value for each in found]), np.stack([each.each for each in found]), found[0].stratum, fold,
        found[0].span, runs,
    )  # fmt: skip


def difference(method: Differences, other: Differences, sign: int) -> Differences:
    """By how much a method is better than another."""
    runs = None if method.runs is None or other.runs is None else sign * (method.runs - other.runs)
    values, each = sign * (method.values - other.values), sign * (method.each - other.each)
    return method._replace(values=values, each=each, runs=runs)


def value_of(metric: Metric, own: OutOfFold) -> float:
    """A metric's value from predictions for the site's samples; NaN where it is not defined."""
    predictions, fold = own
    if not len(fold) or not np.isfinite(predictions.outputs).all():
        return float("nan")
    if isinstance(metric, SampleMetric | ClosedFormMetric):
        found = metric.contributions(predictions, fold)
        return float("nan") if found is None else found.value
    parts = [np.flatnonzero(fold == index) for index in np.unique(fold)]  # models of different folds are not mixed
    values = [metric.of_client(predictions.take(rows)) for rows in parts]
    known = {i: value for i, value in enumerate(values) if value is not None and not np.isnan(value)}
    weights = [len(parts[i]) for i in known]
    return float(np.average(list(known.values()), weights=weights)) if known else float("nan")
