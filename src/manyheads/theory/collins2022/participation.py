"""Lemma 1 of Collins et al. 2022: with enough clients a round, their heads stand for those of all clients.

The event A_0 asks of every round's cohort that the mean of its heads, and of their outer products, be within
``4 alpha^2 L_max^3`` and ``4 alpha^2 L_max^4`` of those of all clients. Its probability comes from the Bernstein inequality
for matrices that are drawn without replacement (Gross and Nesme 2010): of m Hermitian n x n matrices with mean 0, norms of
at most c and ``|mean X^2| <= s^2``, the sum has a norm above t with probability at most ``2 n exp(-e)``, where
``e = t^2 / (4 m s^2)`` up to ``t = 2 m s^2 / c`` and ``e = t / (2 c)`` beyond.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from manyheads.theory.collins2022.linear_fedavg import Problem, spectral_norms

__all__ = ["CORRECTED", "PRINTED", "Cohorts", "Lemma1"]

PRINTED, CORRECTED = 20, 25
"""the constant in front of the number of clients; 20 gives an exponent of 80 log(kT), and the proof needs 100"""


@dataclass(frozen=True)
class Lemma1:
    """The lemma for T rounds with step size alpha."""

    problem: Problem
    alpha: float
    rounds: int

    @property
    def limits(self) -> tuple[float, float]:
        """of A_0: for the mean head, and for the mean outer product"""
        length = self.problem.largest
        return 4 * self.alpha**2 * length**3, 4 * self.alpha**2 * length**4

    @cached_property
    def ranges(self) -> tuple[float, float]:
        """c: the largest distance of a head from the mean, and of an outer product; no cohort can be further away"""
        away = np.linalg.norm(self.problem.heads - self.problem.mean, axis=1).max()
        return float(away), float(spectral_norms(self.problem.outer - self.problem.outer.mean(axis=0)).max())

    def clients(self, constant: float = PRINTED) -> float:
        """How many the lemma asks for, if there are as many."""
        length = self.problem.largest
        few = (self.problem.deviation / length) ** 2 + (self.problem.spread / length) ** 4
        return float(constant * few * (self.alpha * length) ** -4 * np.log(len(self.problem.mean) * self.rounds))

    def exponents(self, m: float) -> tuple[float, float]:
        """e for cohorts of m, for the mean head (as a (k + 1) x (k + 1) dilation) and the mean outer product."""
        found = []
        for limit, variance, c in zip(
            self.limits, (self.problem.deviation**2, self.problem.spread**4), self.ranges, strict=True
        ):
            if variance == 0:  # all clients are alike
                found.append(np.inf)
            else:
                found.append(m * (limit**2 / (4 * variance) if limit * c <= 2 * variance else limit / (2 * c)))
        return found[0], found[1]

    def failure(self, m: int) -> float:
        """A bound of the probability that A_0 fails in any of the rounds."""
        if m >= len(self.problem.heads):
            return 0.0
        k, (mean, outer) = len(self.problem.mean), self.exponents(m)
        return float(min(1.0, self.rounds * (2 * (k + 1) * np.exp(-mean) + 2 * k * np.exp(-outer))))

    def distances(self, cohort: np.ndarray) -> tuple[float, float]:
        """What A_0 bounds, for one cohort."""
        heads = self.problem.heads[cohort]
        second = heads.T @ heads / len(heads) - self.problem.outer.mean(axis=0)
        return float(np.linalg.norm(heads.mean(axis=0) - self.problem.mean)), float(np.linalg.norm(second, 2))

    def holds(self, distances: tuple[float, float]) -> bool:
        return all(found <= limit for found, limit in zip(distances, self.limits, strict=True))


class Cohorts:
    """A_0 along a run."""

    def __init__(self, lemma: Lemma1) -> None:
        self.lemma = lemma
        self.largest = (0.0, 0.0)

    def check(self, cohort: list[int]) -> None:
        mean, outer = self.lemma.distances(np.array(cohort))
        self.largest = max(self.largest[0], mean), max(self.largest[1], outer)

    def facts(self, m: int) -> dict[str, Any]:
        """A_0, how many clients it asks for, and with which probability it may fail; the theorem may fail only then."""
        lemma, k = self.lemma, len(self.lemma.problem.mean)
        return {
            "m": m,
            "needs": lemma.clients(),
            "needs_corrected": lemma.clients(CORRECTED),
            "limit_mean": lemma.limits[0],
            "largest_mean": self.largest[0],
            "limit_outer": lemma.limits[1],
            "largest_outer": self.largest[1],
            "A_0": lemma.holds(self.largest),
            "vacuous": all(limit >= c for limit, c in zip(lemma.limits, lemma.ranges, strict=True)),
            "log10_failure_printed": float(np.log10(4) - 99 * np.log10(k * lemma.rounds)),
            "failure_bound": lemma.failure(m),
        }
