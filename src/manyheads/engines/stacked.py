"""Local training of all clients at once, by autograd on stacked parameters: fastest for small models."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from manyheads.core.optim import SGD
from manyheads.core.trees import Tree
from manyheads.engines.descent import Descent, gradients
from manyheads.engines.local_update import LocalUpdate

__all__ = ["stacked"]


def stacked(update: LocalUpdate) -> Tree:
    """The trained parameters after the local steps, [C, ...]. Clients that have finished leave the stack."""
    order = update.longest_first
    position = torch.from_numpy(order).to(update.x.device)
    rows_TCB, weight_TCB = update.stacked_rows(order)

    def sorted_stack(tree: Tree) -> Tree:
        return update.values.each(tree).map(lambda v: v[position])

    trained, rest = sorted_stack(update.part), dict(sorted_stack(update.given))
    descent = _descent(update, trained, position, sorted_stack)
    croppers = update.draws.croppers(order)
    loss_C = torch.zeros_like(update.loss.sums)
    steps = np.array([len(update.plans[i]) for i in order])
    for step in range(int(steps[0])):
        active = int((steps > step).sum())
        if active < len(descent.params[0]):
            descent.narrow(active)
            rest = {k: v[:active] for k, v in rest.items()}
        leaves = [p.detach().requires_grad_() for p in descent.params]
        rows, weight = rows_TCB[step, :active], weight_TCB[step, :active]
        inputs = update.x[rows]
        if croppers:
            members = order[:active]
            batch = update.draws.batch([update.plans[m][step] for m in members], members, croppers)
            rows, weight, inputs = batch.rows, batch.weight, batch.x
        out = update.net.stacked(dict(zip(update.part, leaves, strict=True)) | rest, inputs)
        loss = update.data.task.client_losses(out, update.data.y[rows], weight)
        descent.step(gradients(loss.sum(), leaves))
        loss_C[:active] += loss.detach()
    update.loss.sums[position] += loss_C
    update.loss.steps[order] += steps
    back = torch.argsort(position)
    return trained.map(lambda v: v[back])


def _descent(update: LocalUpdate, trained: Tree, position: Tensor, sorted_stack: Callable[[Tree], Tree]) -> Descent:
    assert isinstance(update.opt, SGD)
    pull = None
    if update.prox is not None:
        strength, anchor = update.prox
        pull = (strength[position] if isinstance(strength, Tensor) else strength, sorted_stack(anchor))
    correction = sorted_stack(update.correction) if update.correction is not None else None
    return Descent(update.opt, trained, pull, correction)
