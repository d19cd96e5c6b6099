"""Local training one client after another, on a private copy of the parameters: fastest for large models."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from manyheads.core.errors import UserError
from manyheads.core.optim import SGD
from manyheads.core.trees import Tree
from manyheads.engines.augment import crop_flip, draw_crops
from manyheads.engines.client_data import channels_last
from manyheads.engines.descent import Descent, TorchDescent, gradients
from manyheads.engines.local_update import LocalUpdate

__all__ = ["looped"]


def looped(update: LocalUpdate) -> Tree:
    """The trained parameters of every client after the local steps, [C, ...]."""
    trained = update.values.each(update.part)
    for client in range(len(update.plans)):
        own = Tree({k: channels_last(v[client]) for k, v in trained.items()})
        leaves = update.net.bind(own | update.values.of_client(update.given, client), train=update.part)
        with update.draws.noise(client):
            _descend(update, client, _descent(update, client, leaves))
        for name, leaf in (own | update.net.statistics).items():
            if name in own and (leaf.ndim == 4 or name in update.model.statistics):  # not a view
                trained[name][client] = leaf
    return trained


def _descent(update: LocalUpdate, client: int, leaves: dict[str, Tensor]) -> Descent | TorchDescent:
    if not isinstance(update.opt, SGD):
        return TorchDescent(update.opt, leaves.values())

    def own(tree: Tree) -> Tree:
        return update.values.of_client(tree, client).map(channels_last)  # in the memory format of the parameters

    pull = (_of(update.prox[0], client), own(update.prox[1])) if update.prox else None
    correction = own(update.correction) if update.correction is not None else None
    return Descent(update.opt, leaves, pull, correction)


def _descend(update: LocalUpdate, client: int, descent: Descent | TorchDescent) -> None:
    """Carry out the steps of one client."""
    data, x, plan = update.data, update.x, update.plans[client]
    start = int(data.offsets[client])
    croppers = update.draws.croppers(np.array([client]))
    for rows in plan:
        chosen = torch.from_numpy(rows + start)
        if len(rows) < update.model.smallest_batch:
            raise UserError(
                f"batch norm cannot train on a single sample, as client {update.draws.addresses[client]} would have to",
                fix="leave the client out, take a larger batch, or use GroupNorm",
            )
        inputs = x[chosen]
        if croppers:
            inputs = crop_flip(inputs, torch.from_numpy(draw_crops(croppers[client], len(rows))).to(x.device))
        loss = data.weighed(_losses(update, channels_last(inputs), data.y[chosen]), chosen).mean()
        descent.step(gradients(loss, descent.params))
        update.loss.sums[client] += loss.detach()
    update.loss.steps[client] += len(plan)


def _losses(update: LocalUpdate, inputs: Tensor, labels: Tensor) -> Tensor:
    """The loss of every sample, with that on its features if there is one."""
    if update.align is None:
        return update.data.task.losses(update.net(inputs), labels)
    with update.model.seen_features() as seen:
        losses = update.data.task.losses(update.net(inputs), labels)
    return losses + update.align.losses_and_slopes(seen[0].flatten(1), labels)[0]


def _of(scale: float | Tensor, client: int) -> float | Tensor:
    return scale[client] if isinstance(scale, Tensor) and scale.ndim else scale
