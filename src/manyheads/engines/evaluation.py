"""Evaluation of clients' models on their own samples, several clients at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from manyheads.core.trees import Tree
from manyheads.engines.client_data import ClientData
from manyheads.engines.cohort import SLICE, STACK_BELOW, Mode
from manyheads.models import Model, Net, losses

__all__ = ["Scores", "evaluate"]


class Scores(NamedTuple):
    """Sums over each client's samples."""

    loss: np.ndarray
    correct: np.ndarray
    samples: np.ndarray


@torch.no_grad()
def evaluate(model: Model, params: Tree, data: ClientData, mode: Mode = "auto") -> Scores:
    """Score models on each client's samples. Parameters may be shared or carry the client dimension.

    A shared model sees all samples together; where only the head is the client's own, so does the shared body.
    """
    if not len(data.y):
        zeros = np.zeros(len(data.sizes))
        return Scores(zeros, zeros, zeros)
    model.module.eval()
    template = model.params.all
    own = Tree({k: v for k, v in params.items() if v.ndim > template[k].ndim})
    shared = Tree({k: v for k, v in params.items() if k not in own})
    net, x = model.net, data.x
    if own and model.head_net is not None and own.keys() == model.params.head.keys():
        x = _in_slices(lambda rows: model.features(shared, rows), x)
        net, shared = model.head_net, Tree()
    if not own:
        net.bind(shared)
        out = _in_slices(net, x)
    elif (
        mode != "loop"
        and model.stackable
        and sum(template[k].numel() for k in own) <= STACK_BELOW
        and len(data.sizes) > 1
    ):
        out = _stacked(net, own, shared, x, data)
    else:
        out = torch.cat(list(_looped(net, own, shared, x, data)))
    return _score(out, data)


def _in_slices(call: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return torch.cat([call(x[i : i + SLICE]) for i in range(0, len(x), SLICE)])


def _looped(net: Net, own: Tree, shared: Tree, x: Tensor, data: ClientData) -> Iterator[Tensor]:
    for client, (start, stop) in enumerate(pairwise(data.offsets.tolist())):
        net.bind(shared | {k: v[client] for k, v in own.items()})
        if stop > start:
            yield _in_slices(net, x[start:stop])


def _stacked(net: Net, own: Tree, shared: Tree, x: Tensor, data: ClientData) -> Tensor:
    width = int(data.sizes.max())
    inside = np.arange(width) < data.sizes[:, None]
    rows = torch.from_numpy(np.where(inside, data.offsets[:-1, None] + np.arange(width), 0)).to(x.device)
    everyone = {k: v.expand(len(rows), *v.shape) for k, v in shared.items()}
    out = net.stacked(dict(own) | everyone, x[rows])
    return out[torch.from_numpy(inside).to(x.device)]


def _score(out: Tensor, data: ClientData) -> Scores:
    owner = torch.from_numpy(np.repeat(np.arange(len(data.sizes)), data.sizes))
    each = losses(data.task, out, data.y).double().cpu()
    right = (out.argmax(dim=1) == data.y).double().cpu() if data.task == "classification" else torch.zeros_like(each)
    loss, correct = (
        torch.zeros(len(data.sizes), dtype=torch.float64).index_add_(0, owner, v).numpy() for v in (each, right)
    )
    return Scores(loss, correct, data.sizes.astype(float))
