"""The runs of Figures 1 and 4: multi-task linear regression in which every client keeps the few samples that it has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch import nn

from manyheads.algorithms import FedAvg, FedRepLinear
from manyheads.core.optim import SGD
from manyheads.core.randomness import Purpose, generator
from manyheads.core.settings import settings
from manyheads.data import Federation, Samples, Truth
from manyheads.engines.engine import Engine
from manyheads.metrics import principal_angle_distance
from manyheads.models import LinearRepresentation, Model
from manyheads.reproduce.claims import Check, above
from manyheads.reproduce.experiment import Experiment
from manyheads.run import Evaluate, simulate
from manyheads.theory import Collins2021

__all__ = [
    "ALONE", "FEDREP", "FixedSamples", "Learned", "Noise", "Tasks", "fitted", "large", "line_of", "small",
    "standard_deviation",
]  # fmt: skip

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


@dataclass(frozen=True)
class Tasks:
    """Clients with ``y = <B_* w_i, x> + noise``, ``|w_i| = sqrt(k)`` (Assumption 3), and a few samples each."""

    clients: int
    dim: int
    rank: int
    samples: int
    noise: float
    """standard deviation"""
    seed: int

    @cached_property
    def truth(self) -> Truth:
        return Collins2021(dim=self.dim, rank=self.rank, clients=self.clients, seed=self.seed).truth()

    @property
    def weights(self) -> np.ndarray:
        """``B_* w_i`` of each client, [n, d]"""
        return self.truth.heads @ self.truth.body.T

    @cached_property
    def drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """x, [n, m, d], and y, [n, m]"""
        rng = generator(self.seed, Purpose.DATA, 1)
        x = rng.normal(size=(self.clients, self.samples, self.dim))
        return x, np.einsum("cmd,cd->cm", x, self.weights) + self.noise * rng.normal(size=x.shape[:2])

    @property
    def federation(self) -> Federation:
        x, y = self.drawn
        offsets = np.arange(self.clients + 1, dtype=np.int64) * self.samples
        train = Samples(x.reshape(-1, self.dim), y.reshape(-1), offsets)
        return Federation("linear", train, train, "regression", 1, truth=self.truth.body, own_test=True)

    def model(self, body: np.ndarray | None = None) -> Model:
        """The linear model with the head 0 and the representation ``body``, by default the Q of a Gaussian matrix."""
        if body is None:
            body, _ = np.linalg.qr(generator(self.seed, Purpose.MODEL).normal(size=(self.dim, self.rank)))
        module, head = LinearRepresentation(rank=self.rank).build((self.dim,), 1)
        values = (body.T, np.zeros((1, self.rank)))
        for layer, value in zip(module.children(), values, strict=True):
            layer.weight = nn.Parameter(torch.from_numpy(value.copy()))
        return Model(module, head)


def fitted(x_CMD: np.ndarray, y_CM: np.ndarray) -> np.ndarray:
    """Least squares for each client, the shortest solution if there are several, [C, D]."""
    return (np.linalg.pinv(x_CMD) @ y_CM[:, :, None])[:, :, 0]


@dataclass(frozen=True)
class Learned:
    """What training ended with."""

    body: np.ndarray
    """B, [d, k]"""
    weights: np.ndarray
    """of each client's own linear model, [n, d]; the same for all of them after FedAvg"""
    train_loss: float | None = None
    """of FedAvg's last round, over clients and local steps"""

    def distance(self, tasks: Tasks) -> float:
        return principal_angle_distance(self.body, tasks.truth.body)

    def own_heads(self, tasks: Tasks) -> np.ndarray:
        """As ``weights``, with the head that fits each client's samples best."""
        x, y = tasks.drawn
        return fitted(x @ self.body, y) @ self.body.T


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
            return self._fedrep(tasks, self.rounds, engine)
        steps = {line_of(tau): (tau, alpha) for tau, alpha in zip(self.taus, self.alphas, strict=True)}
        tau, alpha = steps[line]
        model = tasks.model(self._fedrep(tasks, 1, engine).body if self.start == "moments" else None)
        algorithm = FedAvg(steps=tau, batch=0, sgd=SGD(lr=alpha, momentum=0.0))
        run = simulate(algorithm, model, tasks.federation, rounds=self.rounds, seed=tasks.seed,
                       evaluate=Evaluate(every=self.rounds), engine=engine)  # fmt: skip
        body_KD, head_1K = (v.numpy() for v in run.server.model.values())
        return Learned(body_KD.T, np.tile(head_1K @ body_KD, (tasks.clients, 1)), run.history[-1]["train_loss"])

    def _fedrep(self, tasks: Tasks, rounds: int, engine: Engine) -> Learned:
        spread = np.linalg.norm(tasks.truth.heads, ord=2) ** 2 / tasks.clients  # sigma_max^2
        run = simulate(FedRepLinear(eta=float(1 / (4 * spread))), tasks.model(), tasks.federation, rounds=rounds,
                       seed=tasks.seed, evaluate=Evaluate(every=rounds), engine=engine)  # fmt: skip
        models = [[v.numpy() for v in run.client_model(i).values()] for i in range(tasks.clients)]
        weights = np.stack([(head_1K @ body_KD)[0] for body_KD, head_1K in models])
        return Learned(models[0][0].T, weights)
