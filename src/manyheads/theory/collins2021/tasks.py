"""Multi-task linear regression in which every client keeps the few samples that it has, and how it is learned."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import nn

from manyheads.algorithms import FedAvg, FedRepLinear
from manyheads.core.errors import UserError
from manyheads.core.optim import SGD
from manyheads.core.randomness import Purpose, generator
from manyheads.data import Federation, LinearTasks, Samples, Truth
from manyheads.engines.engine import Engine
from manyheads.metrics import principal_angle_distance
from manyheads.models import LinearRepresentation, Model
from manyheads.run import Evaluate, Run, simulate

__all__ = ["Learned", "Tasks", "enough_for_a_sweep", "fitted", "normalised", "train_fedavg", "train_fedrep"]

FEWEST = 10


def normalised(truth: Truth) -> Truth:
    """The same truth with heads of length sqrt(k) (Assumption 3)."""
    lengths = np.linalg.norm(truth.heads, axis=1, keepdims=True)
    return Truth(truth.body, truth.heads * np.sqrt(truth.body.shape[1]) / lengths)


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
    apart: float = 0.0
    """length, relative to |w_i|, of what a client's weights have outside the shared subspace"""

    @cached_property
    def truth(self) -> Truth:
        return normalised(LinearTasks(clients=self.clients, dim=self.dim, rank=self.rank).truth(self.seed))

    @cached_property
    def weights(self) -> np.ndarray:
        """``B_* w_i`` of each client, and what it has apart, [n, d]"""
        shared = self.truth.heads @ self.truth.body.T
        if self.apart == 0:
            return shared
        own = generator(self.seed, Purpose.DATA, 2).normal(size=shared.shape)
        own -= own @ self.truth.body @ self.truth.body.T
        return shared + self.apart * np.sqrt(self.rank) * own / np.linalg.norm(own, axis=1, keepdims=True)

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

    def model(self, body: np.ndarray | None = None, rank: int | None = None) -> Model:
        """The linear model with the head 0 and the representation ``body``, by default the Q of a Gaussian matrix."""
        if body is None:
            body, _ = np.linalg.qr(generator(self.seed, Purpose.MODEL).normal(size=(self.dim, rank or self.rank)))
        module, head = LinearRepresentation(rank=body.shape[1]).build((self.dim,), 1)
        values = (body.T, np.zeros((1, body.shape[1])))
        for layer, value in zip(module.children(), values, strict=True):
            layer.weight = nn.Parameter(torch.from_numpy(value.copy()))
        return Model(module, head)


def enough_for_a_sweep(clients: int, dim: int, rank: int) -> None:
    """Refuse problems in which a sweep has nothing to vary."""
    if clients < FEWEST or dim < max(FEWEST, 5 * rank):
        raise UserError(
            "too small a problem for a sweep", given=f"{clients} clients, dim {dim}, rank {rank}",
            allowed=f"from {FEWEST} clients and from dim {FEWEST} and 5 rank on",
        )  # fmt: skip


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
    distances: tuple[float, ...] = ()
    """from the true representation, after each round"""

    def distance(self, tasks: Tasks) -> float:
        return principal_angle_distance(self.body, tasks.truth.body)

    def own_heads(self, tasks: Tasks) -> np.ndarray:
        """As ``weights``, with the head that fits each client's samples best."""
        x, y = tasks.drawn
        return fitted(x @ self.body, y) @ self.body.T

    def errors(self, tasks: Tasks) -> np.ndarray:
        """Squared distances of the clients' weights from the true ones, [n]."""
        return np.square(self.weights - tasks.weights).sum(axis=1)


def train_fedavg(
    tasks: Tasks,
    tau: int,
    alpha: float,
    rounds: int,
    *,
    engine: Engine | None = None,
    body: np.ndarray | None = None,
    watch: bool = False,
) -> Learned:
    """FedAvg with tau full-batch steps, from ``body``; ``watch``: with the distance after each round."""
    algorithm = FedAvg(steps=tau, batch=0, sgd=SGD(lr=alpha, momentum=0.0))
    run = _simulated(algorithm, tasks, tasks.model(body), rounds, engine, watch)
    body_KD, head_1K = (v.numpy() for v in run.server.model.values())
    weights = np.tile(head_1K @ body_KD, (tasks.clients, 1))
    return Learned(body_KD.T, weights, run.history[-1]["train_loss"], _watched(run, watch))


def train_fedrep(
    tasks: Tasks, rounds: int, *, engine: Engine | None = None, rank: int | None = None, watch: bool = False
) -> Learned:
    """FedRep with exact heads and the largest step that Theorem 1 allows; ``rank``: of its representation, if not k."""
    spread = np.linalg.norm(tasks.truth.heads, ord=2) ** 2 / tasks.clients  # sigma_max^2
    algorithm = FedRepLinear(eta=float(1 / (4 * spread)))
    run = _simulated(algorithm, tasks, tasks.model(rank=rank), rounds, engine, watch)
    models = [[v.numpy() for v in run.client_model(i).values()] for i in range(tasks.clients)]
    weights = np.stack([(head_1K @ body_KD)[0] for body_KD, head_1K in models])
    return Learned(models[0][0].T, weights, distances=_watched(run, watch))


def _simulated(
    algorithm: FedAvg | FedRepLinear, tasks: Tasks, model: Model, rounds: int, engine: Engine | None, watch: bool
) -> Run:
    return simulate(
        algorithm,
        model,
        tasks.federation,
        rounds=rounds,
        seed=tasks.seed,
        evaluate=Evaluate(every=rounds),
        monitor=("principal_angle",) if watch else (),
        engine=engine,
    )


def _watched(run: Run, watch: bool) -> tuple[float, ...]:
    return tuple(value for _, value in run.history.column("principal_angle")) if watch else ()
