"""Exact losses, gradients and Hessians of every client, at any point of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyheads.core.contract import Batch, Round, Step
from manyheads.core.errors import UserError
from manyheads.core.trees import State, Tree
from manyheads.data import Federation, Samples
from manyheads.engines.client_data import ClientData
from manyheads.engines.cohort import LocalCohort
from manyheads.models import Model

__all__ = ["Landscape", "Traced", "points_of"]

HESSIAN_UP_TO = 500
"""parameters up to which a Hessian is formed"""


class Traced(LocalCohort):
    """A cohort that keeps its clients' models before each of their local steps."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.visited: list[Tree] = []

    def scan(self, step: Step, state: State, **more: Any) -> State:
        def watched(state: State, *batches: Batch) -> State:
            self.visited.append(state.w)
            return step(state, *batches)

        return super().scan(watched, state, **more)


class Landscape:
    """The clients' losses ``f_i`` on all their training samples. Points are flat vectors: one, [d], or one each, [C, d].

    >>> from manyheads.data import Federation
    >>> from torch import nn
    >>> x = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> flat = Federation.from_clients([(x, np.zeros(2))], test_fraction=0)
    >>> land = Landscape(Model(nn.Linear(2, 1, bias=False).double()), flat)
    >>> land.hessians(torch.zeros(2, dtype=torch.float64))[0].tolist()
    [[0.5, 0.0], [0.0, 2.0]]
    """

    def __init__(self, model: Model, federation: Federation, seed: int = 0) -> None:
        self._like = model.params.all
        leaf = next(iter(self._like.values()))
        self.data = ClientData.of(federation.train, federation.task, leaf, federation.scaling)
        self.model = model.tried(self.data.x[:2], federation.task, federation.outputs)
        self.seed = seed
        self.cohort = self.cohort_at(1)
        self.whole = self.cohort.draw(0)

    def __len__(self) -> int:
        return len(self.data.sizes)

    def cohort_at(self, round: int, kind: type[LocalCohort] = LocalCohort) -> LocalCohort:
        """All clients in that round, drawing the batches that they draw there."""
        clients = range(len(self))
        return kind(self.model, self.data, clients, Round(round, self.seed, len(self), len(self)), mode="stacked")

    def flat(self, tree: Tree) -> Tensor:
        """[d], or [C, d] if the tree has the client dimension."""
        first = next(iter(tree))
        start = tree[first].ndim - self._like[first].ndim
        return torch.cat([v.flatten(start) for v in tree.values()], dim=-1)

    def tree(self, w: Tensor) -> Tree:
        parts = torch.split(w, [v.numel() for v in self._like.values()], dim=-1)
        return Tree(
            {k: p.reshape(*w.shape[:-1], *v.shape) for (k, v), p in zip(self._like.items(), parts, strict=True)}
        )

    @torch.no_grad()
    def outputs(self, w: Tensor) -> Tensor:
        """Of every client's model on its samples, [C, B, outputs]."""
        return self.model.net.stacked(self.cohort.each(self.tree(w)), self.whole.x)

    def losses(self, w: Tensor) -> Tensor:
        return self.data.task.client_losses(self.outputs(w), self.whole.y, self.whole.weight)

    def gradients(self, w: Tensor) -> Tensor:
        return self.flat(self.cohort.gradient(self.tree(w), on=self.whole))

    def hessians(self, w: Tensor) -> Tensor:
        """[C, d, d], column by column from Hessian-vector products."""
        d = w.shape[-1]
        if d > HESSIAN_UP_TO:
            raise UserError(
                "a model too large to form its Hessian",
                given=f"{d} parameters",
                allowed=f"up to {HESSIAN_UP_TO}",
                fix="take fewer inputs, hidden units or classes",
            )
        eye = torch.eye(d, dtype=w.dtype).expand(len(self), d, d)
        at = self.tree(w)
        columns = [self.flat(self.cohort.hvp(at, self.tree(eye[:, j]), on=self.whole)) for j in range(d)]
        return torch.stack(columns, dim=-1)


def points_of(federation: Federation) -> tuple[Federation, np.ndarray]:
    """The distinct training samples z, each as a client of its own, and how often each client has them, ``p_i(z)``."""
    train = federation.train
    rows = np.concatenate([train.x.reshape(len(train.x), -1), train.y.reshape(len(train.y), -1)], axis=1)
    _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    points = Samples(train.x[first], train.y[first], np.arange(len(first) + 1))
    owner = np.repeat(np.arange(len(train)), train.sizes)
    counts = np.zeros((len(train), len(first)))
    np.add.at(counts, (owner, which.reshape(-1)), 1)
    single = replace(federation, train=points, test=points, validation=None, new=None, client_names=None)
    return single, counts / counts.sum(axis=1, keepdims=True)
