"""A linear layer trained by SGD, in two forms that take the same steps; the one that costs less is chosen.

Shapes: C clients, B samples of a batch, T steps, N samples of a client, I inputs and O outputs of the layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from manyheads.core.optim import SGD
from manyheads.core.tasks import Task
from manyheads.engines.descent import Descent, Pull

__all__ = ["Direct", "Dual", "Layer", "Start", "Steps", "layer_for", "product"]

Value = TypeVar("Value", Tensor, Tensor | None)


@dataclass(frozen=True)
class Steps:
    """What a stack of clients trains on: rows [T, C, B] of the samples ``x``, their labels and weights in the loss.

    Clients are sorted by their number of steps, most first. Client c owns ``sizes[c]`` samples, from row ``starts[c]``
    on; ``plans[c]`` holds the rows of its steps counted from there.
    """

    x: Tensor
    rows_TCB: Tensor
    weight_TCB: Tensor
    labels_TCB: Tensor
    task: Task
    plans: list[list[np.ndarray]]
    starts: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True)
class Start:
    """A layer's weight and bias before the first step, and the memory for the trained ones."""

    weight: Tensor
    """[C, O, I], or [O, I] if it is the same for all clients"""
    bias: Tensor | None
    """[C, O], or [O]"""
    into: Mapping[str, Tensor]
    """memory for the trained values, with the client dimension, under ``weight``, ``bias`` or both"""

    def copied(self, kind: str, value: Value) -> Value:
        """A copy of the value in the memory for trained values, if it is trained; otherwise the value itself."""
        return self.into[kind].copy_(value) if kind in self.into and value is not None else value

    def write_trained(self, clients: slice, a: Tensor, x: Tensor) -> None:
        """Write the trained weights of these clients, ``W_0 - A^T X``, to the memory for trained values."""
        start = self.weight[clients] if self.weight.ndim == 3 else self.weight
        torch.baddbmm(start, a.transpose(1, 2), x, alpha=-1, out=self.into["weight"][clients])


class Layer(Protocol):
    """A layer of a stack of clients: forward pass, backward pass, and a step of SGD."""

    def forward(self, h: Tensor) -> Tensor:
        """Outputs [C, B, O] for inputs [C, B, I] (:class:`Dual`: row numbers [C, B]), which are kept for the step."""

    def down(self, slope: Tensor) -> Tensor:
        """The gradient with respect to the inputs, from the one with respect to the outputs."""

    def move(self, slope: Tensor) -> None:
        """Take a step of SGD, given the gradient with respect to the outputs."""

    def narrow(self, clients: int) -> None:
        """Restrict all further steps to the first ``clients`` clients: the others have taken all of theirs."""


class Direct:
    """Updates the weights themselves. In plain SGD one fused product adds the gradient, which is never stored."""

    def __init__(self, start: Start, descent: Descent) -> None:
        self._trained, self._descent = list(start.into), descent
        self._weight, self._bias = start.copied("weight", start.weight), start.copied("bias", start.bias)

    def forward(self, h: Tensor) -> Tensor:
        self._h = h
        return product(h, self._weight.mT, self._bias)

    def down(self, slope: Tensor) -> Tensor:
        return product(slope, self._weight)

    def move(self, slope: Tensor) -> None:
        if not self._trained:
            return
        left = slope.transpose(1, 2)
        if not self._descent.unmodified:
            self._descent.step([slope.sum(dim=1) if k == "bias" else torch.bmm(left, self._h) for k in self._trained])
            return
        for place, kind in enumerate(self._trained):
            if kind == "bias":
                self._descent.move(place, slope.sum(dim=1))
            else:
                self._descent.move_by_product(place, left, self._h)

    def narrow(self, clients: int) -> None:
        self._descent.narrow(clients)
        self._weight, self._bias = _first(clients, self._weight, 3), _first(clients, self._bias, 2)


class Dual:
    """The first layer, with its weight expressed by coefficients of the client's own samples.

    All steps add multiples of the samples to the rows of W, so ``W = W_0 - A^T X`` with A [N, O], and the layer's
    outputs are ``X W^T = X W_0^T - (X X^T) A``. While N is well below the number of inputs, A is much smaller than W.
    """

    def __init__(self, start: Start, opt: SGD, steps: Steps) -> None:
        own = np.arange(int(steps.sizes.max()))
        rows_CN = steps.starts[:, None] + np.where(own < steps.sizes[:, None], own, 0)
        self._x = steps.x[torch.from_numpy(rows_CN).to(steps.x.device)].flatten(2)
        self._start, self._opt = start, opt
        self._bias = start.copied("bias", start.bias)
        self._descent = Descent(opt, {"bias": start.into["bias"]} if "bias" in start.into else {})
        self._outputs = product(self._x, start.weight.mT).flatten(0, 1)
        self._gram = torch.bmm(self._x, self._x.transpose(1, 2)).flatten(0, 1)
        self._a = torch.zeros_like(self._outputs).view(*self._x.shape[:2], -1)
        self._velocity = torch.zeros_like(self._a) if opt.momentum else None

    def rows(self, steps: Steps) -> Tensor:
        """The rows of the steps, as numbers into the clients' padded samples [C * N]."""
        places = np.arange(len(steps.starts)) * self._a.shape[1]
        start_C1, place_C1 = (torch.from_numpy(v).to(self._a.device)[:, None] for v in (steps.starts, places))
        return (steps.rows_TCB - start_C1).clamp_(min=0) + place_C1  # padding may be any row: its weight is 0

    def forward(self, h: Tensor) -> Tensor:
        self._rows = h
        out = self._outputs[h].baddbmm_(self._gram[h], self._a, alpha=-1)
        return out if self._bias is None else out.add_(self._bias.unsqueeze(-2))

    def down(self, slope: Tensor) -> Tensor:
        raise NotImplementedError("nothing is trained below the first layer")

    def move(self, slope: Tensor) -> None:
        if self._descent.params:
            self._descent.move(0, slope.sum(dim=1))
        rows, slopes = self._rows.flatten(), slope.flatten(0, 1)
        if self._velocity is None:
            self._a.flatten(0, 1).index_add_(0, rows, slopes, alpha=self._opt.lr)
            return
        self._velocity.mul_(self._opt.momentum)
        self._velocity.flatten(0, 1).index_add_(0, rows, slopes)
        self._a.add_(self._velocity, alpha=self._opt.lr)

    def narrow(self, clients: int) -> None:
        self._start.write_trained(slice(clients, len(self._a)), self._a[clients:], self._x[clients:])
        self._descent.narrow(clients)
        self._bias = _first(clients, self._bias, 2)
        self._a, self._x = self._a[:clients], self._x[:clients]
        self._velocity = None if self._velocity is None else self._velocity[:clients]


def layer_for(
    start: Start,
    steps: Steps,
    opt: SGD,
    prox: Pull | None,
    correction: Mapping[str, Tensor] | None,
    first: bool,
    lowest: bool,
) -> Layer:
    """The layer in the cheaper form; proximal terms, corrections and weight decay need :class:`Direct`."""
    if "weight" not in start.into or prox or correction or opt.weight_decay:
        return Direct(start, Descent(opt, start.into, prox, correction))
    costs = work(start, steps, opt, first, lowest)
    if min(costs, key=costs.__getitem__) == "direct":
        return Direct(start, Descent(opt, start.into))
    return Dual(start, opt, steps)


def work(start: Start, steps: Steps, opt: SGD, first: bool, lowest: bool) -> dict[str, float]:
    """The cost of all steps in each form, in multiplications; ``lowest``: nothing is trained below this layer.

    Updating a weight in memory costs as much as 5 multiplications, or 35 with momentum.
    """
    (outputs, inputs), samples = start.weight.shape[-2:], int(steps.sizes.max())
    count, visits = len(steps.plans[0]), max(sum(map(len, plan)) for plan in steps.plans)
    products, move = 2 if lowest else 3, 35 if opt.momentum else 5
    costs = {"direct": float(outputs * inputs * (products * visits + move * count))}
    if first:
        costs["dual"] = samples * (inputs * (2 * outputs + samples) + outputs * (visits + move * count))
    return costs


def product(h: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """``h M + b`` for every client; the matrix and the bias may be shared or carry the client dimension."""
    out = h @ right
    return out if bias is None else out.add_(bias.unsqueeze(-2))


def _first(clients: int, value: Value, ndim: int) -> Value:
    """The value of the first ``clients`` clients, if it has a client dimension (``ndim`` dimensions in all)."""
    return value[:clients] if value is not None and value.ndim == ndim else value
