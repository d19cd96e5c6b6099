"""Scores of methods at the sites, and differences between two methods, with what intervals need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manyheads.experiments.folds import Fold
from manyheads.experiments.method_result import MetricLevel
from manyheads.experiments.outcomes import OutOfFold, joined
from manyheads.metrics import Metric, spread
from manyheads.metrics.metric import ClosedFormMetric, SampleMetric
from manyheads.metrics.paired import Differences

__all__ = ["Scored", "differences", "level_of", "out_of_fold", "scored"]

SITES_LISTED = 1000
"""largest number of sites for which results list the values of all metrics"""
SiteScore = Differences
"""the score of a method at one site, in the form of its difference from nothing"""
Scored = list[SiteScore | None]
"""for each site; None where the metric is not defined"""


def out_of_fold(folds: Sequence[Fold], outputs: Sequence[Sequence[np.ndarray]]) -> list[OutOfFold]:
    """Predictions for all test samples, for each seed."""
    return [joined(folds, own) for own in outputs]


def scored(metric: Metric, seeds: Sequence[OutOfFold]) -> Scored:
    """The scores at each site."""
    return [_site_score(metric, [each.client(site) for each in seeds]) for site in range(len(seeds[0].predictions))]


def _site_score(metric: Metric, own: Sequence[OutOfFold]) -> SiteScore | None:
    fold = own[0].fold
    if not len(fold) or not all(np.isfinite(each.predictions.outputs).all() for each in own):
        return None
    found = [each for seed in own if (each := metric.contributions(*seed)) is not None]
    if len(found) < len(own):
        return None
    runs = None
    if not isinstance(metric, SampleMetric):  # the value of a run is then no sum of what its samples contribute
        parts = [np.flatnonzero(fold == index) for index in range(int(fold.max()) + 1)]
        runs = np.array([[_value(metric, seed.take(rows)) for rows in parts] for seed in own])
    return SiteScore(
        np.array([each.value for each in found]), np.stack([each.each for each in found]), found[0].stratum, fold,
        found[0].span, runs,
    )  # fmt: skip


def differences(method: Scored, other: Scored, sign: int) -> dict[int, Differences]:
    """By how much a method is better than another, at each site where both are defined."""
    found = {}
    for site, (a, b) in enumerate(zip(method, other, strict=True)):
        if a is not None and b is not None:
            runs = None if a.runs is None or b.runs is None else sign * (a.runs - b.runs)
            found[site] = a._replace(values=sign * (a.values - b.values), each=sign * (a.each - b.each), runs=runs)
    return found


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
    values = [metric.of_client(predictions.take(rows)) for rows in parts]
    known = {i: value for i, value in enumerate(values) if value is not None and not np.isnan(value)}
    weights = [len(parts[i]) for i in known]
    return float(np.average(list(known.values()), weights=weights)) if known else float("nan")
