"""Scores of methods at the sites, and differences between two methods, with what intervals need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manyheads.experiments.folds import Fold
from manyheads.experiments.method_result import MetricLevel
from manyheads.experiments.outcomes import OutOfFold, joined
from manyheads.metrics import Metric, spread
from manyheads.metrics.contributions import Contributions
from manyheads.metrics.metric import ClosedFormMetric, SampleMetric
from manyheads.metrics.paired import Differences

__all__ = ["Scored", "differences", "level_of", "levels", "scored"]

SITES_LISTED = 1000
"""largest number of sites for which results list the values of all metrics"""
Scored = list[list[Contributions] | None]
"""for each site the contributions of each seed; None where the metric is not defined"""


def out_of_fold(folds: Sequence[Fold], outputs: Sequence[Sequence[np.ndarray]]) -> list[OutOfFold]:
    """Predictions for all test samples, for each seed."""
    return [joined(folds, own) for own in outputs]


def scored(metric: Metric, seeds: Sequence[OutOfFold]) -> Scored:
    """The contributions to a metric at each site."""
    sites: Scored = []
    for site in range(len(seeds[0].predictions)):
        own = [each.client(site) for each in seeds]
        usable = len(own[0].fold) and all(np.isfinite(o.predictions.outputs).all() for o in own)
        found = [metric.contributions(*each) for each in own] if usable else [None]
        sites.append(None if None in found else found)  # type: ignore[arg-type]
    return sites


def differences(method: Scored, other: Scored, fold: Sequence[np.ndarray], sign: int) -> dict[int, Differences]:
    """By how much a method is better than another, at each site where both are defined."""
    found = {}
    for site, (a, b) in enumerate(zip(method, other, strict=True)):
        if a is not None and b is not None:
            values = np.array([sign * (x.value - y.value) for x, y in zip(a, b, strict=True)])
            each = np.stack([sign * (x.each - y.each) for x, y in zip(a, b, strict=True)])
            found[site] = Differences(values, each, a[0].stratum, fold[site], a[0].span)
    return found


def levels(method: Scored, fold: Sequence[np.ndarray]) -> dict[int, Differences]:
    """The scores themselves, in the form of differences from zero."""
    return {
        site: Differences(
            np.array([x.value for x in own]), np.stack([x.each for x in own]), own[0].stratum, fold[site], own[0].span
        )
        for site, own in enumerate(method)
        if own is not None
    }


def level_of(metric: Metric, seeds: Sequence[OutOfFold]) -> MetricLevel | None:
    """A metric's mean and spread over sites; None if it is defined at no site."""
    values = np.array([_values(metric, each) for each in seeds])  # [seeds, sites]
    known = ~np.isnan(values).any(axis=0)
    if not known.any():
        return None
    sites = values.mean(axis=0)
    facts = spread(sites[known], higher_is_better=metric.higher_is_better is not False)
    per_seed = values[:, known].mean(axis=1)
    return MetricLevel(
        mean=facts["mean"],
        low=float(per_seed.min()),
        high=float(per_seed.max()),
        per_seed=tuple(per_seed.tolist()),
        worst_decile=facts["worst_decile"],
        spread=facts["std"],
        sites=tuple(sites.tolist()) if len(sites) <= SITES_LISTED else (),
    )


def _values(metric: Metric, found: OutOfFold) -> list[float]:
    """The metric at each site; NaN where it is not defined."""
    return [_value(metric, found.client(site)) for site in range(len(found.predictions))]


def _value(metric: Metric, own: OutOfFold) -> float:
    predictions, fold = own
    if not len(fold) or not np.isfinite(predictions.outputs).all():
        return float("nan")
    if isinstance(metric, SampleMetric | ClosedFormMetric):
        found = metric.contributions(predictions, fold)
        return float("nan") if found is None else found.value
    parts = [np.flatnonzero(fold == index) for index in np.unique(fold)]  # models of different folds are not mixed
    values = [(metric.of_client(predictions.take(rows)), len(rows)) for rows in parts]
    known = [(value, size) for value, size in values if value is not None and not np.isnan(value)]
    return float(np.average(*zip(*known, strict=True))) if known else float("nan")  # type: ignore[call-overload]
