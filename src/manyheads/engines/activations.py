"""Activations with derivatives written by hand: with them a plain chain can be trained without autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from manyheads.models.chain import Chain

__all__ = ["Activation", "activations_of"]

aten = torch.ops.aten


class Activation(NamedTuple):
    """An activation s; its derivatives are computed from its output, h = s(z)."""

    apply: Callable[[Tensor], Tensor]
    """computes s(z), in place"""
    slope: Callable[[Tensor, Tensor], Tensor]
    """``g s'(z)``, from g and h"""
    bend: Callable[[Tensor, Tensor, Tensor], Tensor | None]
    """``g s''(z) r``, from g, h and r; None where it is zero"""


_KNOWN: dict[type[nn.Module], Activation] = {
    nn.ReLU: Activation(torch.relu_, lambda g, h: aten.threshold_backward(g, h, 0), lambda g, h, r: None),
    nn.Tanh: Activation(
        torch.tanh_, lambda g, h: aten.tanh_backward(g, h), lambda g, h, r: aten.tanh_backward(g * r, h).mul_(-2 * h)
    ),
    nn.Sigmoid: Activation(
        torch.sigmoid_,
        lambda g, h: aten.sigmoid_backward(g, h),
        lambda g, h, r: aten.sigmoid_backward(g * r, h).mul_(1 - 2 * h),
    ),
    nn.ELU: Activation(
        functional.elu_,
        lambda g, h: aten.elu_backward(g, 1.0, 1, 1, True, h),
        lambda g, h, r: (g * r).mul_((h + 1).mul_(h <= 0)),
    ),
}


def activations_of(chain: Chain) -> list[Activation | None] | None:
    """The activation after each layer of a chain; None if the derivatives of one of them are not defined here."""
    found: list[Activation | None] = []
    for link in chain.links:
        known = _KNOWN.get(type(link.activation)) if link.activation is not None else None
        if (link.activation is not None and known is None) or getattr(link.activation, "alpha", 1.0) != 1.0:
            return None
        found.append(known)
    return found
