"""How good a new client's model is with fewer training samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.randomness import Purpose, generator
from manyheads.core.tasks import task_named
from manyheads.metrics import metrics_for
from manyheads.onboarding.alone import Alone
from manyheads.onboarding.newcomer import Newcomer, Tuning
from manyheads.onboarding.scores import score

__all__ = ["curve_point", "curve_sizes", "learning_curve"]

SUBSETS = 5
"""random subsets of the training samples for each point"""
SMALLEST = 5
"""samples at the first point, unless told otherwise; then doubled"""


def learning_curve(
    newcomer: Newcomer,
    tuning: Tuning,
    alone: tuple[Alone, str] | None,
    sizes: Sequence[int],
    train: np.ndarray,
    test: np.ndarray,
    say: Callable[[str], None],
) -> Iterator[dict[str, Any]]:
    """Models trained on random subsets of the training samples, at each of the sizes, and a model alone beside them."""
    encoding = newcomer.encoding
    for place, size in enumerate(sizes):
        say(f"learning curve: {SUBSETS} times {size} samples")
        rng = generator(newcomer.round.seed, Purpose.SAMPLING, size)
        subsets = [np.sort(rng.choice(train, size, replace=False)) for _ in range(SUBSETS)]
        tuned, encodings = newcomer.tuned(tuning, subsets, first=1 + place * SUBSETS)
        beside = None
        if alone:
            models, name = alone
            beside = [score(models.predictions(name, rows, test), encoding) for rows in subsets]
        yield curve_point(size, newcomer.scores(tuned, encodings, test), beside, encoding.task)


def curve_sizes(given: Sequence[int] | None, most: int) -> list[int]:
    """Numbers of training samples at which the learning curve is measured, besides all of them."""
    if given is None:
        doubled = (SMALLEST * 2**i for i in range(64))
        return [n for n in doubled if n < most]
    wrong = [n for n in given if not 1 <= n <= most]
    if wrong:
        raise UserError("no such number of training samples", where="curve", given=wrong[0], allowed=f"1 to {most}")
    return sorted(set(given) - {most})


def curve_point(
    samples: int, scores: list[dict[str, Any]], alone: list[dict[str, Any]] | None, task: str
) -> dict[str, Any]:
    """A point of the learning curve, and under ``alone`` that of a model alone."""
    measure = metrics_for(task_named(task))[0].name
    point = {"samples": samples, "subsets": len(scores), **_spread(scores, measure)}
    return point | ({"alone": _spread(alone, measure)} if alone else {})


def _spread(scores: list[dict[str, Any]], measure: str) -> dict[str, float | None]:
    """Mean and standard deviation over subsets; None where the score is not defined."""
    values = [s[measure] for s in scores]
    if None in values:  # depends on the held-out samples alone, so it is undefined for all subsets
        return {measure: None, "min": None, "max": None, "std": None}
    std = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {measure: float(np.mean(values)), "min": min(values), "max": max(values), "std": std}
