"""Predictions of clients' models for their own samples, several clients at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from manyheads.core.features import ClassFeatures
from manyheads.core.trees import Tree
from manyheads.engines.client_data import ClientData, slices
from manyheads.engines.local_update import Values
from manyheads.engines.ways import STACK_BELOW, Mode
from manyheads.metrics import Predictions
from manyheads.models import Net, TriedModel
from manyheads.models.memory import SLICE, Memory

__all__ = ["class_features", "features_of", "outputs_of", "predict"]


@torch.no_grad()
def predict(
    model: TriedModel,
    params: Tree,
    data: ClientData,
    mode: Mode = "auto",
    target: tuple[float, float] = (0.0, 1.0),
    memories: Sequence[Memory] = (),
) -> Predictions:
    """Apply the models to each client's samples. Parameters may be shared or carry the client dimension.

    ``target`` is how targets are scaled; ``memories`` are what each client remembers, if that has a say.
    """
    if not len(data.y):
        return Predictions(np.zeros((0, 1)), data.y.cpu().numpy(), np.zeros(0), data.sizes, target)
    model.module.eval()
    out = outputs_of(model, params, data, mode)
    if memories:
        out = torch.cat(list(_remembering(memories, features_of(model, params, data).flatten(1), out, data)))
    each = data.task.reported * _losses(out, data).double().cpu()
    found = out if out.dtype != torch.bfloat16 else out.float()  # numpy has no bfloat16
    return Predictions(found.cpu().numpy(), data.y.cpu().numpy(), each.numpy(), data.sizes, target)


@torch.no_grad()
def outputs_of(model: TriedModel, params: Tree, data: ClientData, mode: Mode = "auto") -> Tensor:
    """The models' outputs for each client's samples.

    A shared model is applied to all samples together, and so is a shared body if only the heads differ.
    """
    template = model.params.all
    own = Tree({k: v for k, v in params.items() if v.ndim > template[k].ndim})
    shared = Tree({k: v for k, v in params.items() if k not in own})
    net, x = model.net, data.x
    if own and model.head_net is not None and own.keys() == model.params.head.keys():
        x = _in_slices(lambda rows: model.features(shared, rows), x)
        net, shared = model.head_net, Tree()
    if not own:
        net.bind(shared)
        return _in_slices(net, x)
    if (
        mode != "loop"
        and model.stackable
        and sum(template[k].numel() for k in own) <= STACK_BELOW
        and len(data.sizes) > 1
    ):
        return _stacked(net, own, shared, x, data)
    return torch.cat(list(_looped(net, own, shared, x, data)))


def features_of(model: TriedModel, params: Tree, data: ClientData) -> Tensor:
    """The features of each client's samples, computed by its body; the samples themselves if a model is all head."""
    if model.head_net is None:
        return data.x
    body, values = params.select(model.params.body), Values(model.params.all, len(data.sizes))
    shared = all(values.shared(name, leaf) for name, leaf in body.items())
    groups = [(0, len(data.y))] if shared else list(pairwise(data.offsets.tolist()))
    parts = []
    for client, (start, stop) in enumerate(groups):
        own = body if shared else values.of_client(body, client)
        parts += [model.features(own, x) for x in slices(data.x[start:stop])]
    return torch.cat(parts)


def class_features(model: TriedModel, params: Tree, data: ClientData, classes: int) -> ClassFeatures:
    """What each client's samples have for features, class by class; sums are in double precision."""
    z_ND = features_of(model, params, data).flatten(1).double()
    sums = []
    for start, stop in pairwise(data.offsets.tolist()):
        z, of_class = z_ND[start:stop], one_hot(data.y[start:stop], classes).to(z_ND).T
        sums.append((of_class.sum(dim=1), of_class @ z, of_class @ z.square().sum(dim=1)))
    counts_CK, sums_CKD, squares_CK = (torch.stack(each) for each in zip(*sums, strict=True))
    among = counts_CK.clamp(min=1)
    return ClassFeatures(counts_CK.long(), sums_CKD / among.unsqueeze(2), squares_CK / among)


def _remembering(memories: Sequence[Memory], z: Tensor, out: Tensor, data: ClientData) -> Iterator[Tensor]:
    for memory, (start, stop) in zip(memories, pairwise(data.offsets.tolist()), strict=True):
        for first in range(start, stop, SLICE):
            rows = slice(first, min(first + SLICE, stop))
            yield memory(z[rows], out[rows])


def _losses(out: Tensor, data: ClientData) -> Tensor:
    """The loss of every sample; a joint one is computed among the samples of each client."""
    if not data.task.joint:
        return data.task.losses(out, data.y)
    clients = pairwise(data.offsets.tolist())
    return torch.cat([data.task.losses(out[start:stop], data.y[start:stop]) for start, stop in clients])


def _in_slices(call: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return torch.cat([call(part) for part in slices(x)])


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
