"""The runs of Figures 1 and 4: multi-task linear regression in which every client keeps the few samples that it has."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from manyheads.core.settings import settings
from manyheads.engines.engine import Engine
from manyheads.reproduce.claims import Check, above
from manyheads.reproduce.experiment import Experiment
from manyheads.theory.collins2021.tasks import Learned, Tasks, train_fedavg, train_fedrep

__all__ = ["ALONE", "FEDREP", "FixedSamples", "Noise", "large", "line_of", "small", "standard_deviation"]

Noise = Literal["variance", "std"]
ALONE, FEDREP = "local only", "FedRep"
LARGE, SMALL = 0.25, 0.01
"""shares of the squared length k of the true weights: errors above and below count as large and small"""


def standard_deviation(noise: float, noise_is: Noise) -> float:
    """Of noise written as N(., noise).

    >>> standard_deviation(0.04, "variance"), standard_deviation(0.04, "std")
    (0.2, 0.04)
    """
    return float(np.sqrt(noise)) if noise_is == "variance" else noise


def line_of(tau: int) -> str:
    return f"FedAvg, tau {tau}"


def large(what: str, errors: np.ndarray, rank: int) -> Check:
    """Whether squared errors, one for each seed, are large."""
    return above(f"{what} above {LARGE:g} of the squared length k", errors, np.full_like(errors, LARGE * rank))


def small(what: str, errors: np.ndarray, rank: int) -> Check:
    return above(f"{what} below {SMALL:g} of the squared length k", np.full_like(errors, SMALL * rank), errors)


@settings
class FixedSamples(Experiment):
    """What the figures share: the problem, and how its methods are run."""

    seeds: int = 5
    dim: int = 20
    rank: int = 2
    clients: int = 100
    rounds: int = 500
    noise: Annotated[float, Field(ge=0)] = 1e-3
    noise_is: Noise = "variance"
    """what the paper's N(., 1e-3) gives: the variance, as notation has it, or the standard deviation"""
    taus: tuple[int, ...] = (1, 2, 10)
    """numbers of local steps of FedAvg"""
    alphas: tuple[float, ...] = (0.2, 0.2, 0.1)
    """step size of FedAvg for each of them"""
    start: Literal["random", "moments"] = "random"
    """FedAvg's first representation: random, or by the method of moments, as FedRep's"""

    def lines(self) -> list[str]:
        return [ALONE, *map(line_of, self.taus), FEDREP]

    def tasks(self, samples: int, seed: int) -> Tasks:
        noise = standard_deviation(self.noise, self.noise_is)
        return Tasks(self.clients, self.dim, self.rank, samples, noise, seed)

    def learned(self, line: str, tasks: Tasks, engine: Engine) -> Learned:
        """Train FedRep, with the largest step that Theorem 1 allows, or FedAvg."""
        if line == FEDREP:
            return train_fedrep(tasks, self.rounds, engine=engine)
        steps = {line_of(tau): (tau, alpha) for tau, alpha in zip(self.taus, self.alphas, strict=True)}
        tau, alpha = steps[line]
        body = train_fedrep(tasks, 1, engine=engine).body if self.start == "moments" else None
        return train_fedavg(tasks, tau, alpha, self.rounds, engine=engine, body=body)
