"""Learning curves on validation samples: when training has gone on long enough, and which round is best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from manyheads.run.rounds import RoundFacts

__all__ = [
    "FIRST",
    "Curve",
    "Validated",
    "best",
    "between",
    "curve_of",
    "is_over",
    "mean_curve",
    "reach",
    "rise",
    "smooth",
    "until_over",
]

POINTS = 25
"""approximate number of evaluations in a learning curve of the largest number of rounds"""
FEWEST = 8
"""evaluations before a curve may be over"""
FIRST = 6
"""evaluations before a step size may be given up as hopeless"""
PATIENCE = 1 / 3
"""a curve is over if the best evaluation lies before this last part of its rounds"""
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


def between(limit: int) -> int:
    """The number of rounds from one evaluation to the next in a training of at most ``limit`` rounds."""
    return max(1, limit // POINTS)


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


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """The mean of the curves of several seeds, which were evaluated after the same rounds."""

    def mean(values: Sequence[float | None]) -> float | None:
        return None if None in values else float(np.mean(values))  # type: ignore[arg-type]

    return [
        Validated(
            round=at[0].round,
            bytes=round(np.mean([p.bytes for p in at])),
            score=mean([p.score for p in at]),
            loss=mean([p.loss for p in at]),
            clients=at[0].clients,
            scores=[mean(each) for each in zip(*(p.scores for p in at), strict=True)],
            losses=[mean(each) for each in zip(*(p.losses for p in at), strict=True)],
        )
        for at in zip(*curves, strict=True)
    ]


def smooth(curve: Curve, sign: int) -> list[tuple[float, float]]:
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
    values = smooth(curve, sign)
    at = max(range(len(curve)), key=lambda i: values[i])
    return at, *values[at]


def is_over(curve: Curve, sign: int) -> bool:
    """Whether training may end: the curve has not improved in the last third of its rounds."""
    return len(curve) >= FEWEST and curve[best(curve, sign)[0]].round <= (1 - PATIENCE) * curve[-1].round


def until_over(curve: Curve, sign: int) -> Curve:
    """The curve up to the first evaluation after which it is over; what comes later must not change a choice."""
    return next((curve[:n] for n in range(FEWEST, len(curve)) if is_over(curve[:n], sign)), curve)


def reach(curve: Curve, limit: int, sign: int) -> tuple[float, float]:
    """The score and the negative loss (higher is better) that a curve may reach until the round ``limit``.

    Each doubling of the rounds is taken to gain as much as the last one did, where learning curves gain ever less.

    >>> curve = [Validated(r, 0, r / 100, 1.0) for r in range(1, 9)]  # 0.04 more than half the rounds ago; two doublings to go
    >>> round(reach(curve, 32, 1)[0], 4)
    0.15
    """
    values = np.array(smooth(curve, sign))  # [points, 2]
    now, rounds = values[-1], curve[-1].round
    half = next(i for i, point in enumerate(curve) if 2 * point.round >= rounds)
    with np.errstate(invalid="ignore"):
        later = now + np.maximum(now - values[half], 0.0) * np.log2(limit / rounds)
    most = np.where(np.isnan(later), np.inf, np.maximum(values.max(axis=0), later))  # undefined: nothing is known
    return float(most[0]), float(most[1])


def rise(curve: Curve, sign: int) -> float:
    """How much the mean score of the last quarter of the points is above that of the quarter before (higher is better).

    Infinite for a curve of fewer than two points: then it is not known how much longer training would improve it.
    """
    quarter = max(1, len(curve) // 4)
    if len(curve) < 2:
        return np.inf
    scores = np.array([np.nan if p.score is None else sign * p.score for p in curve])
    return float(scores[-quarter:].mean() - scores[-2 * quarter : -quarter].mean())
