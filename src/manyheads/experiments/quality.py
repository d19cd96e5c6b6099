"""How good the models of each site are, in detail: curves and tables for the report, from out-of-fold predictions."""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.core.records import Real

__all__ = ["CalibrationBin", "ClassQuality", "CrossSites", "SurvivalCurve"]


@dataclass(frozen=True)
class CalibrationBin:
    """Samples with similar predicted probabilities: the mean prediction, the share observed, and its 95 % interval."""

    predicted: Real
    observed: Real
    low: Real
    high: Real
    samples: int


@dataclass(frozen=True, kw_only=True)
class ClassQuality:
    """Predictions of one model for the test samples of one site, in a classification; of the first seed."""

    site: str
    method: str
    roc: tuple[tuple[Real, Real], ...]
    """false and true positive rates; of two classes only, and empty if the site has one class"""
    calibration: tuple[CalibrationBin, ...]
    """of the last class if there are two, else of the predicted class"""
    confusion: tuple[tuple[int, ...], ...]
    """[true, predicted] numbers of samples; empty if there are many classes"""


@dataclass(frozen=True, kw_only=True)
class SurvivalCurve:
    """Kaplan-Meier estimate of the share without event over time, for a site or a group of its samples."""

    site: str
    group: str
    """all, or those with low or high predicted risk"""
    times: tuple[Real, ...]
    survival: tuple[Real, ...]
    low: tuple[Real, ...]
    high: tuple[Real, ...]
    samples: int
    events: int


@dataclass(frozen=True)
class CrossSites:
    """Whose model works at whose site: the score of each row's model on the test samples of each column's site."""

    models: tuple[str, ...]
    """the sites whose models they are; last, the federated method, if there is one"""
    sites: tuple[str, ...]
    scores: tuple[tuple[Real, ...], ...]
    """[models, sites]; NaN where the score is not defined"""
