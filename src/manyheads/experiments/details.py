"""Curves and tables of each site's models for the report: ROC, calibration, confusion, survival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from manyheads.core.tasks import task_named
from manyheads.data import Federation
from manyheads.experiments.outcomes import OutOfFold
from manyheads.experiments.quality import CalibrationBin, ClassQuality, CrossSites, SurvivalCurve
from manyheads.metrics import Predictions
from manyheads.metrics.curves import calibration, confusion, roc
from manyheads.metrics.kaplan_meier import kaplan_meier

__all__ = ["Details", "qualities", "survival_curves"]

SITES_SHOWN, CLASSES_SHOWN, BINS = 12, 12, 5
"""largest numbers of sites and classes that are shown in detail; bins of a calibration curve"""


@dataclass(frozen=True)
class Details:
    """What takes the predictions themselves, which sites do not tell: only a simulation has it."""

    cross: CrossSites | None = None
    quality: tuple[ClassQuality, ...] = ()
    survival: tuple[SurvivalCurve, ...] = ()


def qualities(federation: Federation, methods: Mapping[str, Sequence[OutOfFold]]) -> tuple[ClassQuality, ...]:
    """How good the predictions of each method are at each site of a classification; empty with many sites."""
    if not task_named(federation.task).classes or len(federation) > SITES_SHOWN:
        return ()
    return tuple(
        _quality(federation.client_name(site), name, own.predictions)
        for name, sites in methods.items()
        for site, own in enumerate(sites)
        if len(own.fold)
    )


def _quality(site: str, method: str, own: Predictions) -> ClassQuality:
    classes, share = own.outputs.shape[1], own.probabilities
    binary = classes == 2
    probability = share[:, 1] if binary else share.max(axis=1)
    right = own.labels == 1 if binary else own.predicted == own.labels
    curve = roc(probability, right.astype(int)) if binary else None
    bins = calibration(probability, right.astype(int), BINS)
    return ClassQuality(
        site=site,
        method=method,
        roc=tuple(zip(*(each.tolist() for each in curve), strict=True)) if curve else (),
        calibration=tuple(CalibrationBin(b.predicted, b.observed, b.low, b.high, b.samples) for b in bins),
        confusion=tuple(map(tuple, confusion(own, classes).tolist())) if classes <= CLASSES_SHOWN else (),
    )


def survival_curves(federation: Federation, sites: Sequence[OutOfFold]) -> tuple[SurvivalCurve, ...]:
    """The share of each site's samples without event over time: of all, and of the halves with low and high risk."""
    if federation.task != "survival" or len(federation) > SITES_SHOWN:
        return ()
    made = []
    for site, own in enumerate(sites):
        if not len(own.fold):
            continue
        high = _above_median(own)
        for group, rows in (("all", np.ones(len(high), bool)), ("high risk", high), ("low risk", ~high)):
            if rows.any():
                made.append(_curve(federation.client_name(site), group, own.predictions.labels[rows]))
    return tuple(made)


def _above_median(own: OutOfFold) -> np.ndarray:
    """Which samples have a risk above the median of their fold: risks of models of different folds do not compare."""
    risk, high = own.predictions.outputs[:, 0], np.zeros(len(own.fold), bool)
    for fold in np.unique(own.fold):
        rows = own.fold == fold
        high[rows] = risk[rows] > np.median(risk[rows])
    return high


def _curve(site: str, group: str, labels: np.ndarray) -> SurvivalCurve:
    found = kaplan_meier(labels[:, 0], labels[:, 1])
    return SurvivalCurve(
        site=site,
        group=group,
        times=tuple(found.times.tolist()),
        survival=tuple(found.survival.tolist()),
        low=tuple(found.low.tolist()),
        high=tuple(found.high.tolist()),
        samples=len(labels),
        events=int(labels[:, 1].sum()),
    )
