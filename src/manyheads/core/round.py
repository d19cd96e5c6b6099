"""A round, as everybody in it knows it."""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.core.randomness import Purpose, generator

__all__ = ["Round"]


@dataclass(frozen=True)
class Round:
    """What server and clients both know about a round."""

    index: int
    """1 for the first round"""
    seed: int
    population: int
    """clients in the federation, the papers' n or N"""
    cohort: int
    """clients in this round, the papers' rn or |S|"""
    rate: float = 1.0
    """by what a schedule multiplies the step sizes in this round"""

    def uniform(self, later: int = 0) -> float:
        """A random number in [0, 1), the same at server and clients; with ``later``, that of so many rounds later."""
        return float(generator(self.seed, Purpose.COIN, self.index + later).random())

    def coin(self, probability: float, later: int = 0) -> bool:
        """A coin toss with the same outcome at the server and all clients."""
        return self.uniform(later) < probability
