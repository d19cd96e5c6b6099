"""Schedules: how the step sizes of a run change from round to round, for any method."""

from __future__ import annotations

from dataclasses import replace
from math import cos, pi
from typing import Annotated, Literal

from pydantic import Field

from manyheads.core.settings import settings

__all__ = ["Schedule"]


@settings
class Schedule:
    """The step sizes of a round, as a multiple of the method's own.

    ``cosine``: ``end + (1 - end) (1 + cos(pi (t - 1) / T)) / 2`` in round t of T; ``step``: ``factor`` to the power of
    ``(t - 1) // every``.

    >>> [round(Schedule(kind="cosine").rate(t, 4), 2) for t in (1, 2, 3, 4)]
    [1.0, 0.85, 0.5, 0.15]
    >>> [Schedule(kind="step", factor=0.5, every=2).rate(t, 4) for t in (1, 2, 3, 4)]
    [1.0, 1.0, 0.5, 0.5]

    Reference for the cosine: Loshchilov, Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, ICLR 2017.
    """

    kind: Literal["constant", "cosine", "step"] = "constant"
    """how the step sizes of local training change from round to round: not at all; along a cosine from the method's own
    to a fraction of it; or by a factor every so many rounds"""
    end: Annotated[float, Field(ge=0, le=1)] = 0.0
    """cosine: the fraction of the step size that it falls to"""
    rounds: Annotated[int, Field(ge=0)] = 0
    """cosine: the round in which it has fallen, and after which it stays; 0: the run's last"""
    factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    """step: the factor"""
    every: Annotated[int, Field(ge=1)] = 10
    """step: the number of rounds"""

    def rate(self, round: int, rounds: int) -> float:
        """The multiple in a round (1 is the first) of a run of so many rounds; never 0, which is no step size."""
        if self.kind == "constant":
            return 1.0
        if self.kind == "step":
            return max(self.factor ** ((round - 1) // self.every), 1e-30)
        whole = self.rounds or rounds
        passed = min(round - 1, whole) / whole
        return max(self.end + (1 - self.end) * (1 + cos(pi * passed)) / 2, 1e-30)

    @property
    def ends_with_the_run(self) -> bool:
        """Whether the number of the run's rounds decides its course."""
        return self.kind == "cosine" and not self.rounds

    def over(self, rounds: int) -> Schedule:
        """The same course, whatever the number of rounds of a run; a comparison chooses that after the first runs."""
        return replace(self, rounds=rounds) if self.ends_with_the_run else self
