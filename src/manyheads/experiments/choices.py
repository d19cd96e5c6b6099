"""What is chosen by validation samples: step size and rounds of a method, a method, and a model for each site alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from manyheads.experiments.candidates import Candidate
from manyheads.experiments.curves import SMOOTHED, Curve, rise
from manyheads.experiments.method_result import Choice, Tried
from manyheads.metrics import METRICS, Metric, Predictions

if TYPE_CHECKING:
    from manyheads.experiments.race import Attempt

__all__ = ["SiteScores", "Tuned", "chosen_alone", "scores_of_local", "tried", "tuned", "validation_score"]

RISES = 0.005
"""a curve still rises if its last quarter is above the quarter before by more than this (as a share, or relatively)"""
COMMON = 100
"""samples for which the mean score over all sites counts when a site chooses a model"""
SiteScores = np.ndarray
"""of a model, [sites, 2]: score and negative loss on the validation samples of each site (higher is better)"""


@dataclass(frozen=True)
class Tuned:
    """Step size and number of rounds of a method, chosen in each fold, with further settings if these were searched."""

    choices: tuple[Choice, ...]
    curves: tuple[Curve, ...]
    """the learning curve with what was chosen, in each fold"""
    rates: tuple[Tried, ...]
    rising: bool
    candidates: tuple[Candidate, ...]
    """what was chosen in each fold"""
    searched: bool = False
    """whether step sizes were drawn, and so hardly ever the same in two folds"""

    @property
    def candidate(self) -> Candidate:
        """What most folds chose; of step sizes that were searched, the middle one of the folds with these settings."""
        common = Counter(self.candidates)
        most = max(common, key=lambda each: common[each])
        if not self.searched:
            return most
        knobs = Counter(each.knobs for each in self.candidates).most_common(1)[0][0]
        alike = sorted((each for each in self.candidates if each.knobs == knobs), key=lambda each: each.rate or 0.0)
        return alike[(len(alike) - 1) // 2]

    @property
    def rounds(self) -> int:
        """The median number of rounds, of the folds that chose that."""
        chosen = zip(self.choices, self.candidates, strict=True)
        return int(np.median([choice.rounds for choice, each in chosen if each == self.candidate]))

    @property
    def validation(self) -> float:
        return float(np.mean([choice.validation for choice in self.choices]))


def tuned(metric: Metric, folds: Sequence[Sequence[Attempt]], limit: int, searched: bool = False) -> Tuned | str:
    """Choose in each fold from the attempts with a method; the reason if there is nothing to choose.

    ``limit`` is the number of rounds after which training had to end.
    """
    best, choices = [], []
    for number, attempts in enumerate(folds):
        winner = max(attempts, key=lambda each: each.standing)
        if not winner.defined:
            return "diverged with every step size"
        best.append(winner)
        score, rate, knobs = metric.sign * winner.standing[0], winner.candidate.rate, dict(winner.candidate.knobs)
        choices.append(Choice(number, rate, winner.rounds, score, knobs))
    rises = [rise(each.curve, metric.sign) if each.curve[-1].round >= limit else 0.0 for each in best]
    return Tuned(
        choices=tuple(choices),
        curves=tuple(each.curve for each in best),
        rates=tried(metric, folds),
        rising=_still_rises(rises, metric, choices),
        candidates=tuple(each.candidate for each in best),
        searched=searched,
    )


def tried(metric: Metric, folds: Sequence[Sequence[Attempt]]) -> tuple[Tried, ...]:
    """What was tried, each candidate with the mean of its scores over folds; nothing if there was nothing to vary."""
    each: dict[Candidate, list[Attempt]] = {}
    for attempt in (attempt for attempts in folds for attempt in attempts):
        each.setdefault(attempt.candidate, []).append(attempt)
    return tuple(
        Tried(
            rate=candidate.rate,
            validation=metric.sign * float(np.mean([a.standing[0] for a in own]))
            if all(a.defined for a in own)
            else None,
            knobs=dict(candidate.knobs),
            folds=len(own),
            stopped=sum(not a.over and not a.diverged for a in own),
            rounds=sum(a.trained for a in own),
        )
        for candidate, own in each.items()
        if candidate != Candidate(None)
    )


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
