"""The runs of Figures 1 and 3: FedAvg and D-GD with population gradients on multi-task linear regression."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from manyheads.core.contract import Round
from manyheads.core.optim import FineTune
from manyheads.core.randomness import Purpose, generator
from manyheads.core.settings import settings
from manyheads.core.tasks import Regression
from manyheads.core.trees import Tree
from manyheads.engines.client_data import ClientData
from manyheads.engines.cohort import LocalCohort
from manyheads.engines.fine_tuning import fine_tuned
from manyheads.metrics import principal_angle_distance
from manyheads.models import LinearRepresentation, build_model
from manyheads.reproduce.experiment import Experiment
from manyheads.theory import Collins2022
from manyheads.theory.collins2022.linear_fedavg import LocalUpdates, Problem

__all__ = ["Iterate", "PopulationRuns", "errors_of_new_client", "iterates", "line_of", "tau_of"]


@settings
class PopulationRuns(Experiment):
    """What the figures share: a part is a number of local steps, and all clients take part in every round."""

    seeds: int = 10
    dim: int = 100
    rank: int = 5
    clients: int = 40
    alpha: float = 0.4
    rounds: int = 400
    taus: tuple[int, ...] = (2, 1)

    def parts(self) -> list[str]:
        return [f"tau {tau}" for tau in self.taus]

    def setting(self, part: str, seed: int) -> Collins2022:
        return Collins2022(
            dim=self.dim,
            rank=self.rank,
            clients=self.clients,
            alpha=self.alpha,
            rounds=self.rounds,
            tau=tau_of(part),
            seed=seed,
        )


class Iterate(NamedTuple):
    """The global model after a round."""

    body: np.ndarray
    head: np.ndarray
    distance: float
    """principal angle distance from the true representation"""
    gradient: float
    """norm of the gradient of the global loss"""


def iterates(setting: Collins2022) -> Iterator[Iterate]:
    """The start, and the model after each round in which all clients make ``tau`` steps."""
    problem: Problem = setting.problem()
    body, head = setting.initial_body(problem) / np.sqrt(setting.alpha), np.zeros(setting.rank)
    everyone = list(range(setting.clients))
    for _ in range(setting.rounds + 1):
        distance = principal_angle_distance(body, problem.body)
        yield Iterate(body, head, distance, problem.gradient_norm(body, head))
        body, head = LocalUpdates.of(problem, body, head, everyone, setting.alpha, setting.tau).averaged()


def errors_of_new_client(
    setting: Collins2022, trained: Iterate, sizes: Sequence[int], noise: float, tune: FineTune
) -> list[float]:
    """``|B w - B_* w_{*,M+1}|^2`` after fine-tuning on the first n samples of a new client, for each n of ``sizes``."""
    rng = generator(setting.seed, Purpose.NEW_CLIENTS)
    truth = setting.problem().body @ rng.normal(size=setting.rank)
    x = rng.normal(size=(max(sizes), setting.dim))
    y = x @ truth + noise * rng.normal(size=len(x))
    x_all, y_all = (torch.from_numpy(np.concatenate([values[:n] for n in sizes])) for values in (x, y))
    data = ClientData(x_all, y_all, np.cumsum([0, *sizes]), Regression(), torch.float64)
    model = build_model(LinearRepresentation(rank=setting.rank), (setting.dim,), 1, setting.seed, "float64").untried()
    members = list(range(len(sizes)))  # one for each n
    cohort = LocalCohort(model, data, members, Round(1, setting.seed, len(sizes), len(sizes)), purpose=Purpose.FINETUNE)
    values = (torch.from_numpy(trained.body.T.copy()), torch.from_numpy(trained.head[None].copy()))
    start = cohort.each(Tree(dict(zip(model.params.all, values, strict=True))))
    body_CKD, head_C1K = (v.numpy() for v in fine_tuned(cohort, model, start, tune).values())
    return [float(np.square(w[0] @ b - truth).sum()) for b, w in zip(body_CKD, head_C1K, strict=True)]


def tau_of(part: str) -> int:
    return int(part.split()[1])


def line_of(tau: int) -> str:
    return "D-GD (one local step)" if tau == 1 else f"FedAvg, {tau} local steps"
