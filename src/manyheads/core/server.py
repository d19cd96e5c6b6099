"""The server's optimizer, a setting of any method that averages: how the server moves along the clients' mean change."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from manyheads.core.settings import settings
from manyheads.core.trees import State, Tree

__all__ = ["MOMENTS", "Server", "ServerOptimizer", "without_moments"]

MOMENTS = ("first_moment", "second_moment")
"""entries of the server's state that are its optimizer's; algorithms do not see them"""


@settings
class ServerOptimizer:
    """A step of the server along D, the mean of what the clients changed (old - mean is the *pseudo-gradient*).

    ``sgd``: ``m <- momentum m + D``, ``w <- w + lr m``; with momentum this is FedAvgM, without it a server step size.
    The others: ``m <- momentum m + (1 - momentum) D``, ``w <- w + lr m / (sqrt(v) + tau)``, where v starts at tau^2 and

    - ``adagrad``: ``v <- v + D^2``
    - ``adam``: ``v <- beta2 v + (1 - beta2) D^2``
    - ``yogi``: ``v <- v - (1 - beta2) D^2 sign(v - D^2)``

    >>> step, kept = ServerOptimizer(kind="sgd", lr=0.5, momentum=0.0).step(Tree({"w": torch.ones(2)}), State())
    >>> step["w"]
    tensor([0.5000, 0.5000])

    Reference: Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan, Adaptive Federated Optimization, ICLR
    2021, Algorithms 1 and 2.
    """

    kind: Literal["sgd", "adam", "yogi", "adagrad"]
    """optimizer of the server: sgd (with momentum: FedAvgM), or FedAdam's, FedYogi's, FedAdagrad's; without one, the
    server takes the clients' mean"""
    lr: Annotated[float, Field(gt=0)] = 0.1
    """step size of the server, eta"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """momentum of the server, beta_1"""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """decay of the second moment, of adam and yogi"""
    tau: Annotated[float, Field(gt=0)] = 0.001
    """how adaptive: the smaller, the more alike are the steps of all parameters; of adam, yogi and adagrad"""

    def init(self, parameters: Tree) -> State:
        """The moments before the first round; those that are never read are left out."""
        first = {"first_moment": parameters.map(torch.zeros_like)} if self.momentum else {}
        start = parameters.map(lambda w: torch.full_like(w, self.tau**2))
        return State(**first, **({} if self.kind == "sgd" else {"second_moment": start}))

    def step(self, change: Tree, moments: State, statistics: Collection[str] = ()) -> tuple[Tree, State]:
        """What to add to the parameters, and the moments after it.

        ``statistics`` are running statistics among them, which have no gradient: they move to their mean, as far as
        sgd moves with a steady gradient but never beyond it, and all the way with the others.
        """
        first = change if self.kind == "sgd" else (1 - self.momentum) * change
        if self.momentum:
            first = self.momentum * moments.first_moment + first
        kept = State(first_moment=first) if self.momentum else State()
        move = self.lr * first
        if self.kind != "sgd":
            second = moments.second_moment.map(self._second, change)
            kept = kept | State(second_moment=second)
            move = move.map(lambda m, v: m / (v.sqrt() + self.tau), second)
        pace = min(1.0, self.lr / (1 - self.momentum)) if self.kind == "sgd" else 1.0
        if statistics and (self.kind != "sgd" or pace != self.lr):
            move = move | pace * change.select(set(statistics))
        return move, kept

    def _second(self, v: Tensor, change: Tensor) -> Tensor:
        squared = change.square()
        if self.kind == "adagrad":
            return v + squared
        if self.kind == "adam":
            return self.beta2 * v + (1 - self.beta2) * squared
        return v - (1 - self.beta2) * squared * torch.sign(v - squared)


Server = Annotated[ServerOptimizer | None, Field(description="the server's optimizer; without one it takes the mean")]


def without_moments(server: State) -> State:
    """The server's state as its algorithm knows it."""
    return State(**{name: value for name, value in server.items() if name not in MOMENTS})
