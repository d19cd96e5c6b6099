"""What is chosen by validation samples: step size and rounds of a method, a method, and a model for each site alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from manyheads.experiments.curves import SMOOTHED, Curve, best, rise
from manyheads.experiments.method_result import Choice, RateTried
from manyheads.metrics import METRICS, Metric, Predictions

__all__ = ["SiteScores", "Tuned", "chosen_alone", "scores_of_local", "tuned", "validation_score"]

RISES = 0.005
"""a curve still rises if its last quarter is above the quarter before by more than this (as a share, or relatively)"""
COMMON = 100
"""samples for which the mean score over all sites counts when a site chooses a model"""
Rates = Mapping[float | None, Curve]
"""the learning curve with each step size; empty if training diverged"""
SiteScores = np.ndarray
"""of a model, [sites, 2]: score and negative loss on the validation samples of each site (higher is better)"""


@dataclass(frozen=True)
class Tuned:
    """Step size and number of rounds of a method, chosen in each fold."""

    choices: tuple[Choice, ...]
    curves: tuple[Curve, ...]
    """the learning curve with the chosen step size, in each fold"""
    rates: tuple[RateTried, ...]
    rising: bool

    @property
    def rate(self) -> float | None:
        """The step size that is best over all folds."""
        if not self.rates:
            return None
        common = Counter(choice.rate for choice in self.choices)
        return max(common, key=lambda rate: common[rate])

    @property
    def rounds(self) -> int:
        """The median number of rounds, of the folds that chose that step size."""
        return int(np.median([c.rounds for c in self.choices if c.rate == self.rate]))

    @property
    def validation(self) -> float:
        return float(np.mean([choice.validation for choice in self.choices]))


def tuned(metric: Metric, folds: Sequence[Rates], limit: int) -> Tuned | str:
    """Choose in each fold from the learning curves of a method; the reason if there is nothing to choose.

    ``limit`` is the number of rounds after which training had to end.
    """
    choices, curves, rises, tried = [], [], [], dict[float | None, list[float | None]]()
    for number, curves_tried in enumerate(folds):
        found: dict[float | None, tuple[float, float, int, Curve]] = {}
        for rate, curve in curves_tried.items():
            tried.setdefault(rate, []).append(None)
            if curve and all(p.loss is not None and np.isfinite(p.loss) for p in curve[-1:]):
                at, score, loss = best(curve, metric.sign)
                found[rate] = (score, loss, at, curve)
                tried[rate][-1] = metric.sign * score
        if not found:
            return "diverged with every step size"
        rate = max(found, key=lambda r: found[r][:2])
        score, _, at, curve = found[rate]
        choices.append(Choice(number, rate, curve[at].round, metric.sign * score))
        curves.append(curve)
        rises.append(rise(curve, metric.sign) if curve[-1].round >= limit else 0.0)
    rates = tuple(
        RateTried(rate, None if None in each else float(np.mean(each)))  # type: ignore[arg-type]
        for rate, each in tried.items()
        if rate is not None
    )
    return Tuned(tuple(choices), tuple(curves), rates, _still_rises(rises, metric, choices))


def _still_rises(rises: Sequence[float], metric: Metric, choices: Sequence[Choice]) -> bool:
    size = 1.0 if metric.unit == "%" else abs(float(np.mean([choice.validation for choice in choices])))
    return float(np.mean(rises)) > RISES * size


def scores_of_local(found: Tuned, fold: int, sites: int, sign: int) -> SiteScores:
    """Validation scores of the network that each site trains alone, at the chosen round."""
    curve, rounds = found.curves[fold], found.choices[fold].rounds
    at = next(i for i, point in enumerate(curve) if point.round == rounds)
    scores = np.full((sites, 2, SMOOTHED), np.nan)
    for place, point in enumerate(curve[max(0, at - SMOOTHED + 1) : at + 1]):
        if not point.clients:  # too many for the history to list: all get the mean
            scores[:, :, place] = [np.nan if point.score is None else sign * point.score, -(point.loss or np.nan)]
        for site, score, loss in zip(point.clients, point.scores, point.losses, strict=True):
            scores[site, :, place] = [np.nan if score is None else sign * score, np.nan if loss is None else -loss]
    known = ~np.isnan(scores)
    return np.where(
        known.any(axis=2), np.where(known, scores, 0).sum(axis=2) / np.maximum(known.sum(axis=2), 1), np.nan
    )


def validation_score(metric: Metric, own: Predictions) -> tuple[float, float]:
    """Score and negative loss (higher is better) from predictions for one site's validation samples; NaN if undefined."""
    values, defined = metric.of_clients(own)
    losses, _ = METRICS.find("loss")().of_clients(own)
    return metric.sign * float(values[0]) if defined[0] else float("nan"), -float(losses[0])


def chosen_alone(scores: Mapping[str, SiteScores], samples: np.ndarray) -> list[str]:
    """For each site the model with the best score on its validation samples, of which it has ``samples``.

    Few samples make a lucky choice likely, so the mean score over all sites counts as much as 100 samples of the site's
    own. Ties, and scores that are defined at no site, are decided by the loss; then the first, simplest model is taken.

    >>> few, much = np.array([[1.0, 0.0], [0.5, 0.0]]), np.array([[0.8, 0.0], [0.8, 0.0]])
    >>> chosen_alone({"few": few, "much": much}, np.array([10, 10])), chosen_alone({"few": few, "much": much}, np.array([900, 9]))
    (['much', 'much'], ['few', 'few'])
    """
    names = list(scores)
    table = np.stack([scores[name] for name in names])  # [models, sites, 2]
    known = ~np.isnan(table)
    weight = known * np.maximum(samples, 1)[None, :, None]
    filled = np.where(known, table, 0.0)
    total = np.maximum(weight.sum(axis=1, keepdims=True), 1)
    mean = (filled * weight).sum(axis=1, keepdims=True) / total
    shrunk = (filled * weight + mean * COMMON) / (weight + COMMON)
    return [max(names, key=lambda name: tuple(shrunk[names.index(name), site])) for site in range(len(samples))]
