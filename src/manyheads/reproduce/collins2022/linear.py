"""The runs of Figures 1 and 3: FedAvg and D-GD with population gradients on multi-task linear regression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from manyheads.metrics import principal_angle_distance
from manyheads.theory import Collins2022
from manyheads.theory.collins2022.linear_fedavg import LocalUpdates, Problem

__all__ = ["Iterate", "iterates", "line_of"]


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


def line_of(tau: int) -> str:
    return "D-GD (one local step)" if tau == 1 else f"FedAvg, {tau} local steps"
