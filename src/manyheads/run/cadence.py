"""How often a run is evaluated unless that is said: so often that it costs little beside the training.

A function of numbers of samples, never of a clock, so that it is the same on every machine and at real sites.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from manyheads.engines.ways import DIVIDED_ABOVE

__all__ = ["STEP", "usual_every"]

SHARE = 0.1
"""the part of a run's work that its evaluations may be"""
STEP = 3
"""a sample costs so many times as much in training, forward and backward, as in an evaluation"""
FEWEST = 3
"""evaluations that a run has at least, beside that of its first round"""


def usual_every(evaluated: float, trained: float, parameters: int, rounds: int) -> int:
    """Rounds from one evaluation to the next: 1, or the next of 2, 5, 10, 20, ... by which evaluations are a tenth of the work.

    ``evaluated`` samples go through a model of so many ``parameters`` in an evaluation, ``trained`` in the training of a
    round. An evaluation with so little work that its calls cost more than its arithmetic is made in every round.

    FedAvg on CIFAR-10, 10 of 100 clients with 500 samples for training and 100 for the test; then the same with all clients:

    >>> usual_every(evaluated=10_000, trained=5_000, parameters=62_000, rounds=100)
    10
    >>> usual_every(evaluated=10_000, trained=50_000, parameters=62_000, rounds=100)
    1
    """
    if evaluated * parameters < DIVIDED_ABOVE:
        return 1
    allowed = list(takewhile(lambda n: n <= max(1, rounds // FEWEST), _round_numbers()))
    enough = (n for n in allowed if STEP * trained * n * SHARE >= evaluated * (1 - SHARE))
    return next(enough, allowed[-1])


def _round_numbers() -> Iterator[int]:
    """1, 2, 5, 10, 20, 50, ..."""
    unit = 1
    while True:
        yield from (unit, 2 * unit, 5 * unit)
        unit *= 10
