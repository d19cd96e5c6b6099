"""SGD on plain chains of linear layers, with gradients written by hand.

The gradient of a layer's weight is one matrix product, ``dZ^T H``, of its inputs H and the gradient dZ with respect to
its outputs. For small batches, calls and memory traffic cost more than arithmetic, so each layer is kept in the form
that needs least of them (:mod:`.layers`).

Shapes: T steps, C clients, B samples of a batch, I inputs and O outputs of a layer.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from manyheads.core.features import Align
from manyheads.core.optim import SGD
from manyheads.core.tasks import Task
from manyheads.engines.activations import activations_of
from manyheads.engines.cheapest import layer_for
from manyheads.engines.descent import Pull
from manyheads.engines.dual import Dual
from manyheads.engines.layers import Layer, Start, Steps
from manyheads.models.chain import Chain
from manyheads.models.net import Net

__all__ = ["by_hand", "descend", "loss_and_slope"]


def by_hand(net: Net, x: Tensor, task: Task) -> Chain | None:
    """The layers of a net, if it can be trained on these samples without autograd; otherwise None."""
    if net.chain is None or not net.chain.reads(x) or task.closed_form is None or activations_of(net.chain) is None:
        return None
    return net.chain


@torch.no_grad()
def descend(
    chain: Chain,
    steps: Steps,
    params: Mapping[str, Tensor],
    into: Mapping[str, Tensor],
    opt: SGD,
    prox: Pull | None = None,
    correction: Mapping[str, Tensor] | None = None,
    align: Align | None = None,
) -> Tensor:
    """Carry out the steps from ``params``, shared or with the client dimension; trained values are written to ``into``.

    Returns the sum of each client's losses over its steps, [C].
    """
    layers, lowest = _layers(chain, steps, params, into, opt, prox, correction)
    activations = activations_of(chain)
    assert activations is not None
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
        h = rows if isinstance(first, Dual) else x[rows]
        outputs = []
        for activation, layer in zip(activations, layers, strict=True):
            h = layer.forward(h)
            h = h if activation is None else activation.apply(h)
            outputs.append(h)
        loss, slope = loss_and_slope(steps.task, labels, weight, h)
        loss_C[:active] += loss
        aside = None
        if align is not None:  # the features are the inputs of the last layer
            loss, aside = _aligned(align, outputs[-2], labels, weight)
            loss_C[:active] += loss
        for level in range(len(layers) - 1, lowest - 1, -1):
            activation = activations[level]
            slope = slope if activation is None else activation.slope(slope, outputs[level])
            down = layers[level].down(slope) if level > lowest else slope  # with the weight before its step
            layers[level].move(slope)
            slope = down if aside is None else down + aside
            aside = None
    for layer in layers:
        layer.narrow(0)
    return loss_C


def _layers(
    chain: Chain,
    steps: Steps,
    params: Mapping[str, Tensor],
    into: Mapping[str, Tensor],
    opt: SGD,
    prox: Pull | None,
    correction: Mapping[str, Tensor] | None,
) -> tuple[list[Layer], int]:
    """The layers, each in its cheapest form, and the index of the lowest one that is trained."""
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


def _aligned(align: Align, z_CBD: Tensor, labels: Tensor, weight_CB: Tensor) -> tuple[Tensor, Tensor]:
    """As :func:`loss_and_slope`, of the loss on the features."""
    loss_CB, slope_CBD = align.losses_and_slopes(z_CBD, labels)
    return (loss_CB * weight_CB).sum(dim=1), slope_CBD.mul_(weight_CB.unsqueeze(2))


def loss_and_slope(task: Task, labels: Tensor, weight_CB: Tensor, out_CBO: Tensor) -> tuple[Tensor, Tensor]:
    """Each client's weighted loss, and its gradient with respect to the outputs."""
    assert task.closed_form is not None
    loss_CB, slope_CBO = task.closed_form.losses_and_slopes(out_CBO, labels)
    return (loss_CB * weight_CB).sum(dim=1), slope_CBO.mul_(weight_CB.unsqueeze(2))
