"""Local training of plain chains of linear layers, with gradients written by hand (:mod:`manyheads.engines.chain`)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from manyheads.core.optim import SGD
from manyheads.core.trees import Tree
from manyheads.engines.chain import descend
from manyheads.engines.layers import Steps
from manyheads.engines.local_update import LocalUpdate
from manyheads.models.chain import Chain

__all__ = ["chained"]


def chained(update: LocalUpdate, chain: Chain, together: bool) -> Tree:
    """The trained parameters after the local steps, [C, ...]; clients are stacked if ``together``, else one by one."""
    order = update.longest_first
    clients = len(update.plans)
    trained = {k: v.new_empty(clients, *update.values.like[k].shape) for k, v in update.part.items()}
    for members in [order] if together else list(order[:, None]):
        first = int(members[0])
        in_order = np.array_equal(members, np.arange(first, first + len(members)))
        here = slice(first, first + len(members)) if in_order else torch.from_numpy(members).to(update.x.device)
        into = {k: v[here] for k, v in trained.items()}  # views if ``here`` is a slice, copies otherwise
        update.loss.sums[here] += _descend(update, chain, members, here, into)
        if not in_order:
            for name, leaf in into.items():
                trained[name][here] = leaf
    update.loss.steps += [len(plan) for plan in update.plans]
    return Tree(trained)


def _descend(
    update: LocalUpdate, chain: Chain, members: np.ndarray, here: slice | Tensor, into: dict[str, Tensor]
) -> Tensor:
    """Train some clients, writing their parameters to ``into``; returns the sum of each client's losses, [C]."""
    assert isinstance(update.opt, SGD)
    data, shared = update.data, update.values.shared

    def of_members(tree: Tree) -> dict[str, Tensor]:
        return {k: v if shared(k, v) else v[here] for k, v in tree.items()}

    params = of_members(update.given | update.part)
    pull = None
    if update.prox is not None:
        mu, anchor = update.prox
        pull = (mu[here] if isinstance(mu, Tensor) and mu.ndim else mu, of_members(anchor))
    correction = of_members(update.correction) if update.correction else None
    plans = [update.plans[m] for m in members]
    rows_TCB, weight_TCB = update.stacked_rows(members)
    starts, sizes = data.offsets[members], data.sizes[members]
    steps = Steps(update.x, rows_TCB, weight_TCB, data.y[rows_TCB], data.task, plans, starts, sizes)
    return descend(chain, steps, params, into, update.opt, pull, correction, update.align)
