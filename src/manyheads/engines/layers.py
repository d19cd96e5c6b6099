"""A linear layer trained by SGD: what its forms have in common, and the form that updates the weights themselves.

Shapes: C clients, B samples of a batch, T steps, N samples of a client, I inputs and O outputs of the layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from torch import Tensor

from manyheads.core.tasks import Task
from manyheads.engines.descent import Descent

__all__ = ["Direct", "Layer", "Start", "Steps", "first_of", "product"]

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
    """Updates the weights themselves. One fused product adds the gradient, which is never stored."""

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
        for place, kind in enumerate(self._trained):
            if kind == "bias":
                self._descent.move(place, slope.sum(dim=1))
            else:
                self._descent.move_by_product(place, left, self._h)

    def narrow(self, clients: int) -> None:
        self._descent.narrow(clients)
        self._weight, self._bias = first_of(clients, self._weight, 3), first_of(clients, self._bias, 2)


def product(h: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """``h M + b`` for every client; the matrix and the bias may be shared or carry the client dimension."""
    out = h @ right
    return out if bias is None else out.add_(bias.unsqueeze(-2))


def first_of(clients: int, value: Value, ndim: int) -> Value:
    """The value of the first ``clients`` clients, if it has a client dimension (``ndim`` dimensions in all)."""
    return value[:clients] if value is not None and value.ndim == ndim else value
