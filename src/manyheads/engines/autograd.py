"""Gradients and Hessian-vector products of some clients' losses, by autograd."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from manyheads.core.errors import UserError, first_line
from manyheads.core.trees import Tree
from manyheads.engines.client_data import ClientBatch, channels_last
from manyheads.engines.draws import Draws
from manyheads.engines.local_update import Values
from manyheads.models import TriedModel

__all__ = ["differentiated"]


@torch.enable_grad()
def differentiated(
    model: TriedModel, draws: Draws, values: Values, params: Tree, on: ClientBatch, vector: Tree | None
) -> tuple[Tensor, dict[str, Tensor]]:
    """The losses at ``params``, [C], and the gradients or, given a vector, the Hessian-vector products."""
    x, y, count = on.x, on.y, len(on)
    # a Hessian-vector product needs the implementation of attention that can be differentiated twice
    twice = sdpa_kernel(SDPBackend.MATH) if vector is not None else nullcontext()
    if count > 1:
        leaves = {k: v.expand(count, *v.shape) if values.shared(k, v) else v for k, v in params.items()}
        leaves = {k: v.detach().requires_grad_() for k, v in leaves.items()}
        with twice:
            out = model.net.stacked(leaves, x.clone())
    else:
        own = {k: v if values.shared(k, v) else v[0] for k, v in params.items()}
        leaves = model.net.bind(own, train=params)
        with draws.noise(int(on.members[0])), twice:
            out = model.net(channels_last(x[0]))[None]
    loss = on.data.task.client_losses(out, y, on.weight)
    wrt = list(leaves.values())
    found = torch.autograd.grad(loss.sum(), wrt, create_graph=vector is not None, materialize_grads=True)
    if vector is not None:
        along = [vector[k].reshape(leaf.shape) for k, leaf in leaves.items()]
        try:
            found = torch.autograd.grad(found, wrt, along, materialize_grads=True)
        except RuntimeError as error:
            raise UserError(
                f"the model cannot be differentiated twice: {first_line(error)}",
                fix="use a variant without the Hessian: fo or hf",
            ) from error
    shapes = {k: (count, *values.like[k].shape) for k in leaves}
    return loss.detach(), {k: g.detach().reshape(shapes[k]) for k, g in zip(leaves, found, strict=True)}
