"""Learning curves on validation samples: when training has gone on long enough, and which round is best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from manyheads.run.rounds import RoundFacts

__all__ = ["Curve", "Validated", "best", "curve_of", "long_enough", "rise"]

POINTS = 25
"""approximate number of evaluations in a learning curve of the largest number of rounds"""
FEWEST = 8
"""evaluations before training may end early"""
SMOOTHED = 3
"""a single evaluation may be lucky: rounds are compared by the mean of so many evaluations, up to that round"""


@dataclass(frozen=True)
class Validated:
    """Scores on validation samples after a round."""

    round: int
    bytes: int
    """bytes sent by and to all clients up to this round"""
    score: float | None
    loss: float | None
    clients: Sequence[int] = ()
    """clients with validation samples; empty if they are too many for the history to list"""
    scores: Sequence[float | None] = ()
    """score and loss of each of them"""
    losses: Sequence[float | None] = ()


Curve = list[Validated]


def curve_of(rounds: Iterable[RoundFacts], score: str, finetuned: bool) -> Curve:
    """The evaluations of a run, of its models as they are or after fine-tuning."""
    sent, points = 0, []
    for at in rounds:
        sent += at.bytes
        found = [at.evaluation] if at.evaluation else []
        if finetuned:
            found = [each for each in at.also if each.model == "finetuned" and each.who == "all"]
        for each in found:
            values, own = each.values, each.per_client
            scores, losses = own.get(score, ()), own.get("loss", ())
            points.append(
                Validated(at.round, sent, values.get(score), values.get("loss"), each.clients, scores, losses)
            )
    return points


def _smooth(curve: Curve, sign: int) -> list[tuple[float, float]]:
    """Score and negative loss at each point (higher is better), means of the last few points; -inf if undefined."""
    scores = np.array([-np.inf if p.score is None else sign * p.score for p in curve])
    losses = np.array([np.inf if p.loss is None else p.loss for p in curve])
    spans = [slice(max(0, i - SMOOTHED + 1), i + 1) for i in range(len(curve))]
    return [(float(scores[s].mean()), -float(losses[s].mean())) for s in spans]


def best(curve: Curve, sign: int) -> tuple[int, float, float]:
    """Position of the best point, its smoothed score (higher is better) and its smoothed negative loss.

    >>> best([Validated(r, 0, s, 1.0) for r, s in enumerate([0.1, 0.6, 0.7, 0.8, 0.7, 0.6], start=1)], 1)[0]
    4
    """
    smooth = _smooth(curve, sign)
    at = max(range(len(curve)), key=lambda i: smooth[i])
    return at, *smooth[at]


def long_enough(curves: Sequence[Curve], sign: int) -> bool:
    """Whether training may end: no curve has improved in the second half of its rounds."""

    def over(curve: Curve) -> bool:
        return len(curve) >= FEWEST and 2 * curve[best(curve, sign)[0]].round <= curve[-1].round

    return all(map(over, curves))


def rise(curve: Curve, sign: int) -> float:
    """How much the mean score of the last quarter of the points is above that of the quarter before (higher is better).

    Infinite for a curve of fewer than two points: then it is not known how much longer training would improve it.
    """
    quarter = max(1, len(curve) // 4)
    if len(curve) < 2:
        return np.inf
    scores = np.array([np.nan if p.score is None else sign * p.score for p in curve])
    return float(scores[-quarter:].mean() - scores[-2 * quarter : -quarter].mean())
