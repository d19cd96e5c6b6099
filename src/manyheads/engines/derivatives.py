"""Gradients and Hessian-vector products of plain chains of linear layers, for a stack of clients, without autograd.

Rq is the directional derivative of a quantity q along a vector V of the parameters; that of the gradient is the product
of the Hessian with V (Pearlmutter 1994). A derivative that is zero is represented by None. Those of large weights are left
as products of narrow matrices (:mod:`manyheads.core.products`), and a vector V may be one.

Shapes: C clients, B samples of a batch, I inputs and O outputs of a layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from manyheads.core.products import Leaf, Product, add_times, formed, plus, product_of, times
from manyheads.core.tasks import Task
from manyheads.engines.activations import Activation, activations_of
from manyheads.engines.chain import loss_and_slope
from manyheads.engines.layers import product
from manyheads.models.chain import Chain, Link

__all__ = ["Losses", "gradient", "hvp"]


@dataclass(frozen=True)
class Losses:
    """Each client's loss: the weighted sum of its samples' losses."""

    task: Task
    labels: Tensor
    weight_CB: Tensor

    def slope(self, out_CBO: Tensor) -> tuple[Tensor, Tensor]:
        """The losses, [C], and their gradient with respect to the outputs, [C, B, O]."""
        return loss_and_slope(self.task, self.labels, self.weight_CB, out_CBO)

    def curved(self, out_CBO: Tensor, rate_CBO: Tensor) -> Tensor:
        """The Hessian of the losses with respect to the outputs, times a tangent of the outputs, [C, B, O]."""
        assert self.task.closed_form is not None
        return self.task.closed_form.curved(out_CBO, rate_CBO) * self.weight_CB.unsqueeze(2)


@torch.no_grad()
def gradient(
    chain: Chain, params: Mapping[str, Tensor], x_CBI: Tensor, losses: Losses
) -> tuple[Tensor, dict[str, Leaf]]:
    """The loss of every client, [C], and its gradient with respect to ``params`` (shared or not), [C, ...]."""
    layers = _layers(chain, params)
    inputs, h = [], x_CBI
    for _, activation, weight, bias in layers:
        inputs.append(h)
        h = product(h, weight.mT, bias)
        h = h if activation is None else activation.apply(h)
    loss_C, slope = losses.slope(h)
    found: dict[str, Leaf] = {}
    for level, (link, activation, weight, _) in reversed(list(enumerate(layers))):
        if found.keys() == params.keys():
            break
        if activation is not None:
            slope = activation.slope(slope, h)
        h = inputs[level]
        if f"{link.name}weight" in params:
            found[f"{link.name}weight"] = product_of(slope.mT, h)
        if f"{link.name}bias" in params:
            found[f"{link.name}bias"] = slope.sum(dim=1)
        if level:
            slope = product(slope, weight)
    return loss_C, {name: found[name] for name in params}


@torch.no_grad()
def hvp(
    chain: Chain, params: Mapping[str, Tensor], x_CBI: Tensor, losses: Losses, vector: Mapping[str, Leaf]
) -> tuple[Tensor, dict[str, Leaf]]:
    """The loss of every client, [C], and its Hessian with respect to ``params`` times ``vector``, [C, ...]."""
    layers = _layers(chain, params)
    seen: list[tuple[Tensor, Tensor | None, Tensor | None]] = []
    h, Rh = x_CBI, None
    for link, activation, weight, bias in layers:
        V, v = (vector.get(f"{link.name}{kind}") for kind in ("weight", "bias"))
        Rz = _sum(None if V is None else times(h, V.mT), None if Rh is None else product(Rh, weight.mT))
        if v is not None:
            v = formed(v)
            Rz = v.unsqueeze(1).expand(*h.shape[:2], -1) if Rz is None else Rz.add_(v.unsqueeze(1))
        seen.append((h, Rh, Rz))
        h, Rh = product(h, weight.mT, bias), Rz
        if activation is not None:
            h = activation.apply(h)
            Rh = None if Rz is None else activation.slope(Rz, h)
    loss_C, slope = losses.slope(h)
    assert Rh is not None, "the vector is along no parameter of the chain"
    Rslope: Tensor | None = losses.curved(h, Rh)
    found: dict[str, Leaf] = {}
    for level, (link, activation, weight, _) in reversed(list(enumerate(layers))):
        if found.keys() == params.keys():
            break
        below, Rbelow, Rz = seen[level]
        if activation is not None:
            bend = None if Rz is None else activation.bend(slope, h, Rz)
            Rslope = _sum(bend, None if Rslope is None else activation.slope(Rslope, h))
            slope = activation.slope(slope, h)
        assert Rslope is not None
        if f"{link.name}weight" in params:
            found[f"{link.name}weight"] = product_of(Rslope.mT, below)
            if Rbelow is not None:
                found[f"{link.name}weight"] = plus(found[f"{link.name}weight"], Product(slope.mT, Rbelow), 1)
        if f"{link.name}bias" in params:
            found[f"{link.name}bias"] = Rslope.sum(dim=1)
        if level:
            V = vector.get(f"{link.name}weight")
            Rslope = product(Rslope, weight)
            if V is not None:
                add_times(Rslope, slope, V)
            slope = product(slope, weight)
        h = below
    return loss_C, {name: found[name] for name in params}


def _layers(chain: Chain, params: Mapping[str, Tensor]) -> list[tuple[Link, Activation | None, Tensor, Tensor | None]]:
    """Each link with its activation, weight and bias, taken from ``params`` or else from the module."""
    activations = activations_of(chain)
    assert activations is not None
    return [
        (
            link,
            activation,
            params.get(f"{link.name}weight", link.linear.weight),
            params.get(f"{link.name}bias", link.linear.bias),
        )
        for link, activation in zip(chain.links, activations, strict=True)
    ]


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return a if b is None else b
    return a.add_(b)
