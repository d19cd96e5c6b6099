"""The arguments of one call of :meth:`manyheads.core.contract.Cohort.sgd`, for whichever implementation runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from manyheads.core.features import Align
from manyheads.core.optim import SGD, TorchOptimizer
from manyheads.core.trees import Tree
from manyheads.engines.client_data import ClientData, pad_rows
from manyheads.engines.draws import Draws, Plan
from manyheads.models import Net, TriedModel

__all__ = ["LocalUpdate", "Prox", "TrainLoss", "Values"]

Prox = tuple[float | Tensor, Tree]
"""strength (one number, or one for each client) and anchor of a proximal term"""


class TrainLoss:
    """Sums of the clients' losses over their local steps, and how many steps they made."""

    def __init__(self, clients: int, device: torch.device, dtype: torch.dtype) -> None:
        self.sums = torch.zeros(clients, device=device, dtype=dtype)
        self.steps = np.zeros(clients)

    def mean(self) -> np.ndarray:
        """The mean loss of each client over its steps, [C]; NaN for a client that took none."""
        steps = np.where(self.steps > 0, self.steps, np.nan)
        return self.sums.double().cpu().numpy() / steps


@dataclass(frozen=True)
class Values:
    """Distinguishes shared values from values with a client dimension, by the number of dimensions of ``like``."""

    like: Mapping[str, Tensor]
    clients: int

    def shared(self, name: str, leaf: Tensor) -> bool:
        return leaf.ndim == self.like[name].ndim

    def each(self, tree: Tree) -> Tree:
        """A copy of the tree for every client, [C, ...]."""
        own = {k: v.expand(self.clients, *v.shape) if self.shared(k, v) else v for k, v in tree.items()}
        return Tree(own).clone()

    def of_client(self, tree: Tree, client: int) -> Tree:
        return Tree({k: v if self.shared(k, v) else v[client] for k, v in tree.items()})


@dataclass(frozen=True)
class LocalUpdate:
    """What is trained, from where, on which samples and how. All trees may be shared or carry the client dimension."""

    model: TriedModel
    data: ClientData
    values: Values
    draws: Draws
    loss: TrainLoss
    """accumulates the losses of the steps"""
    net: Net
    """the whole model, or its head alone"""
    x: Tensor
    """the inputs of ``net``: the clients' samples, or their features"""
    part: Tree
    """the parameters that are trained"""
    given: Tree
    """the other parameters of ``net``, which are frozen"""
    plans: list[Plan]
    """the rows of every step of each client"""
    opt: SGD | TorchOptimizer
    prox: Prox | None
    correction: Tree | None
    align: Align | None

    @property
    def longest_first(self) -> np.ndarray:
        """The clients sorted by their number of steps, most first, so that finished ones are at the end of a stack."""
        return np.argsort([-len(plan) for plan in self.plans], kind="stable")

    def stacked_rows(self, members: np.ndarray) -> tuple[Tensor, Tensor]:
        """Rows [T, C, B] of each step, and the weight of each in the client's loss (0 for padding)."""
        plans, starts = [self.plans[m] for m in members], self.data.offsets[:-1][members]
        batch = max(len(rows) for plan in plans for rows in plan)
        shape = (max(map(len, plans)), len(plans), batch)
        rows_TCB, weight_TCB = np.zeros(shape, np.int64), np.zeros(shape)
        for client, (plan, start) in enumerate(zip(plans, starts, strict=True)):
            padded, weight = pad_rows(plan, np.full(len(plan), start))
            rows_TCB[: len(plan), client, : padded.shape[1]] = padded
            weight_TCB[: len(plan), client, : padded.shape[1]] = weight
        rows = torch.from_numpy(rows_TCB).to(self.data.x.device)
        return rows, self.data.weighed(torch.from_numpy(weight_TCB).to(rows.device, self.data.dtype), rows)
