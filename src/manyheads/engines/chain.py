"""SGD on plain chains of linear layers, the backward pass written by hand.

For such a chain the gradient of a weight is one matrix product, ``dZ^T H``. Steps of the papers' MLPs cost more in memory
traffic and calls than in arithmetic, so each layer takes the form of them that moves least (:mod:`.layers`). Measured, this
is 2 to 4 times as fast as autograd.

Shapes: T steps, C clients, B samples of a batch, I inputs and O outputs of a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from manyheads.core.optim import SGD
from manyheads.core.tasks import Task
from manyheads.engines.client_data import take
from manyheads.engines.descent import Pull
from manyheads.engines.layers import Dual, Layer, Start, Steps, layer_for
from manyheads.models.net import is_tied

__all__ = ["Chain", "descend"]

aten = torch.ops.aten


class Activation(NamedTuple):
    """An activation s, by what it gives: h = s(z)."""

    apply: Callable[[Tensor], Tensor]
    """in place"""
    slope: Callable[[Tensor, Tensor], Tensor]
    """``g s'(z)``, from g and h"""
    bend: Callable[[Tensor, Tensor, Tensor], Tensor | None]
    """``g s''(z) r``, from g, h and r; None where it is zero"""


_ACTIVATIONS: dict[type[nn.Module], Activation] = {
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


@dataclass(frozen=True)
class Link:
    """A linear layer, by its name among the model's parameters, and the activation after it."""

    name: str
    linear: nn.Linear
    activation: Activation | None


class Chain:
    """The layers of a module that is nothing but linear layers with a known activation after each, or none."""

    def __init__(self, links: list[Link], flat: bool) -> None:
        self.links, self._flat = links, flat

    @classmethod
    def of(cls, module: nn.Module, prefix: str = "") -> Chain | None:
        """The chain that a module is, ``prefix`` standing before its parameters' names; None if it is none."""
        if any(m._forward_hooks or m._forward_pre_hooks for m in module.modules()):
            return None  # something else happens in between
        if is_tied(module):
            return None  # layers that share a weight move it together
        layers = list(_layers(module, prefix))
        flat = repr(layers[0][1]) == repr(nn.Flatten()) if layers else False
        links: list[Link] = []
        for name, layer in layers[flat:]:
            if type(layer) is nn.Linear and all(layer is not link.linear for link in links):
                links.append(Link(name, layer, None))
            elif type(layer) in _ACTIVATIONS and links and links[-1].activation is None:
                if getattr(layer, "alpha", 1.0) != 1.0:
                    return None
                links[-1] = Link(links[-1].name, links[-1].linear, _ACTIVATIONS[type(layer)])
            else:
                return None
        return cls(links, flat) if links else None

    def reads(self, x: Tensor) -> bool:
        """Whether samples like these can go through it."""
        return x.dtype == self.links[0].linear.weight.dtype and (x.ndim == 2 or self._flat)


def _layers(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    if type(module) is not nn.Sequential:
        yield name, module
        return
    for part, child in module._modules.items():  # not named_children(), which shows a shared layer only once
        assert child is not None
        yield from _layers(child, f"{name}{part}.")


@torch.no_grad()
def descend(
    chain: Chain,
    steps: Steps,
    params: Mapping[str, Tensor],
    into: Mapping[str, Tensor],
    opt: SGD,
    prox: Pull | None = None,
    correction: Mapping[str, Tensor] | None = None,
) -> Tensor:
    """Carry out the steps from ``params``, shared or with the client dimension, and put what is trained ``into`` memory.

    Gives the sum of each client's losses, [C].
    """
    layers, lowest = _on_their_way(chain, steps, params, into, opt, prox, correction)
    first, x = layers[0], steps.x.flatten(1)
    rows_TCB = first.rows(steps) if isinstance(first, Dual) else steps.rows_TCB
    loss_C = steps.weight_TCB.new_zeros(len(steps.plans))
    lengths = np.array([len(plan) for plan in steps.plans])
    stacked = len(lengths)
    for time in range(lengths[0]):
        active = int((lengths > time).sum())
        if active < stacked:
            for layer in layers:
                layer.narrow(active)
            stacked = active
        width = max(len(plan[time]) for plan in steps.plans[:active])
        rows, weight, labels = (v[time, :active, :width] for v in (rows_TCB, steps.weight_TCB, steps.labels_TCB))
        h = rows if isinstance(first, Dual) else take(x, rows)
        outputs = []
        for link, layer in zip(chain.links, layers, strict=True):
            h = layer.forward(h)
            h = h if link.activation is None else link.activation.apply(h)
            outputs.append(h)
        loss, slope = loss_and_slope(steps.task, labels, weight, h)
        loss_C[:active] += loss
        for level in range(len(layers) - 1, lowest - 1, -1):
            activation = chain.links[level].activation
            slope = slope if activation is None else activation.slope(slope, outputs[level])
            down = layers[level].down(slope) if level > lowest else slope  # before the weight moves
            layers[level].move(slope)
            slope = down
    for layer in layers:
        layer.narrow(0)
    return loss_C


def _on_their_way(
    chain: Chain,
    steps: Steps,
    params: Mapping[str, Tensor],
    into: Mapping[str, Tensor],
    opt: SGD,
    prox: Pull | None,
    correction: Mapping[str, Tensor] | None,
) -> tuple[list[Layer], int]:
    """The layers, each in its cheapest form, and the lowest that is trained."""
    names = [{kind: f"{link.name}{kind}" for kind in ("weight", "bias")} for link in chain.links]
    lowest = next(i for i, of in enumerate(names) if not into.keys().isdisjoint(of.values()))
    layers = []
    for level, (link, of) in enumerate(zip(chain.links, names, strict=True)):
        own = {kind: params.get(name, getattr(link.linear, kind)) for kind, name in of.items()}
        trained = {kind: into[name] for kind, name in of.items() if name in into}
        pull = (prox[0], {kind: prox[1][of[kind]] for kind in trained}) if prox else None
        shift = {kind: correction[of[kind]] for kind in trained} if correction is not None else None
        start = Start(own["weight"].detach(), None if own["bias"] is None else own["bias"].detach(), trained)
        layers.append(layer_for(start, steps, opt, pull, shift, first=level == 0, lowest=level == lowest))
    return layers, lowest


def loss_and_slope(task: Task, labels: Tensor, weight_CB: Tensor, out_CBO: Tensor) -> tuple[Tensor, Tensor]:
    """Each client's weighted loss, and its gradient with respect to the outputs."""
    assert task.closed_form is not None
    loss_CB, slope_CBO = task.closed_form.losses_and_slopes(out_CBO, labels)
    return (loss_CB * weight_CB).sum(dim=1), slope_CBO.mul_(weight_CB.unsqueeze(2))
