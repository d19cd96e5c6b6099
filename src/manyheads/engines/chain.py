"""SGD on plain chains of linear layers, the backward pass written by hand.

For such a chain the gradient of a weight is one matrix product, ``dZ^T H``, and the update is added to the weight by that
same product: the gradient is never formed. Measured, this and the dual form below are 2 to 4 times faster than autograd
for the papers' MLPs, whose steps cost more in memory traffic and calls than in arithmetic.

Shapes: C clients, B samples of a batch, N samples of a client, I inputs and O outputs of a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.core.optim import SGD
from manyheads.engines.client_data import Task
from manyheads.engines.descent import Descent

__all__ = ["Chain", "Steps", "descend"]

aten = torch.ops.aten
Slope = Callable[[Tensor, Tensor], Tensor]
"""gradient before the activation, from the one after it and the activation's output"""
_SLOPES: dict[type[nn.Module], Slope] = {
    nn.ReLU: lambda g, h: aten.threshold_backward(g, h, 0),
    nn.Tanh: lambda g, h: aten.tanh_backward(g, h),
    nn.Sigmoid: lambda g, h: aten.sigmoid_backward(g, h),
    nn.ELU: lambda g, h: aten.elu_backward(g, 1.0, 1, 1, True, h),
}


@dataclass(frozen=True)
class Link:
    """A linear layer, by its name among the model's parameters, and the activation after it."""

    name: str
    linear: nn.Linear
    activation: nn.Module | None


class Chain:
    """The layers of a module that is nothing but linear layers with a known activation after each, or none."""

    def __init__(self, links: list[Link], flat: bool) -> None:
        self.links, self._flat = links, flat

    @classmethod
    def of(cls, module: nn.Module, prefix: str = "") -> Chain | None:
        """The chain that a module is, ``prefix`` standing before its parameters' names; None if it is none."""
        if any(m._forward_hooks or m._forward_pre_hooks for m in module.modules()):
            return None  # something else happens in between, as with weight normalisation
        layers = list(_layers(module, prefix))
        flat = repr(layers[0][1]) == repr(nn.Flatten()) if layers else False
        links: list[Link] = []
        for name, layer in layers[flat:]:
            if type(layer) is nn.Linear and all(layer is not link.linear for link in links):
                links.append(Link(name, layer, None))
            elif type(layer) in _SLOPES and links and links[-1].activation is None:
                if getattr(layer, "alpha", 1.0) != 1.0:
                    return None
                links[-1] = Link(links[-1].name, links[-1].linear, layer)
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


@dataclass(frozen=True)
class Steps:
    """What a stack of clients trains on: rows [T, C, B] of the samples ``x``, their labels and weights in the loss.

    Clients with most steps come first. ``plans`` holds the same rows for each client, from 0; it owns ``sizes[c]`` of
    the samples, from ``starts[c]`` on.
    """

    x: Tensor
    rows_TCB: Tensor
    weight_TCB: Tensor
    labels_TCB: Tensor
    task: Task
    plans: list[list[np.ndarray]]
    starts: np.ndarray
    sizes: np.ndarray


@torch.no_grad()
def descend(
    chain: Chain,
    steps: Steps,
    trained: Mapping[str, Tensor],
    frozen: Mapping[str, Tensor],
    opt: SGD,
    prox: tuple[float | Tensor, Mapping[str, Tensor]] | None = None,
    correction: Mapping[str, Tensor] | None = None,
) -> Tensor:
    """Carry out the steps, in place on ``trained``; gives the sum of each client's losses, [C]."""
    first = f"{chain.links[0].name}weight"
    dual = Dual.of(steps, trained[first], opt) if first in trained and not (prox or correction) else None
    moved = {k: v for k, v in trained.items() if dual is None or k != first}
    descent = Descent(opt, moved, prox, correction)
    work = _Descending(chain, {**frozen, **trained}, descent, list(moved), steps.x, dual)
    loss_C = steps.weight_TCB.new_zeros(len(steps.plans))
    rows_TCB = steps.rows_TCB if dual is None else dual.rows(steps)
    lengths = np.array([len(plan) for plan in steps.plans])
    stacked = len(lengths)
    for time in range(lengths[0]):
        active = int((lengths > time).sum())
        if active < stacked:
            work.narrow(active)
            stacked = active
        width = max(len(plan[time]) for plan in steps.plans[:active])
        rows, weight, labels = (v[time, :active, :width] for v in (rows_TCB, steps.weight_TCB, steps.labels_TCB))
        loss_C[:active] += work.step(rows, partial(loss_and_slope, steps.task, labels, weight))
    if dual is not None:
        dual.finish()
    return loss_C


class _Descending:
    """The parameters of a stack of clients on their way down."""

    def __init__(
        self,
        chain: Chain,
        params: Mapping[str, Tensor],
        descent: Descent,
        moved: list[str],
        x_MI: Tensor,
        dual: Dual | None,
    ) -> None:
        self.descent, self.dual, self.x = descent, dual, x_MI.flatten(1)
        self._links = chain.links
        self._place = {name: i for i, name in enumerate(moved)}
        count = len(next(iter(params.values())))
        self._weights = [
            tuple(
                params.get(link.name + kind, _constant(own, count))
                for kind, own in (("weight", link.linear.weight), ("bias", link.linear.bias))
            )
            for link in self._links
        ]
        trains = [any(link.name + kind in self._place for kind in ("weight", "bias")) for link in self._links]
        self._lowest = 0 if dual is not None else trains.index(True)

    def narrow(self, clients: int) -> None:
        """From here on, only the first ``clients`` clients move."""
        self.descent.narrow(clients)
        self._weights = [tuple(None if v is None else v[:clients] for v in pair) for pair in self._weights]
        if self.dual is not None:
            self.dual.narrow(clients)

    def step(self, rows_CB: Tensor, loss: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Tensor:
        """One step on these rows of the samples (of each client's own, laid end to end, if the first layer is dual).

        ``loss`` tells the loss of each client, and its gradient, from the outputs; the losses are given back.
        """
        dual, fused = self.dual, self.descent.unmodified
        h = dual.product(rows_CB) if dual is not None else self.x[rows_CB]
        seen = []  # what each layer's weight is multiplied with, then the outputs
        for level, (link, (weight, bias)) in enumerate(zip(self._links, self._weights, strict=True)):
            assert weight is not None
            seen.append(h)
            if level == 0 and dual is not None:
                h = h if bias is None else h + bias.unsqueeze(1)
            elif bias is None:
                h = torch.bmm(h, weight.transpose(1, 2))
            else:
                h = torch.baddbmm(bias.unsqueeze(1), h, weight.transpose(1, 2))
            h = h if link.activation is None else link.activation(h)
        value, slope = loss(h)
        seen.append(h)
        grads = [slope] * len(self._place)
        for level in range(len(self._links) - 1, self._lowest - 1, -1):
            link, weight = self._links[level], self._weights[level][0]
            assert weight is not None
            if link.activation is not None:
                slope = _SLOPES[type(link.activation)](slope, seen[level + 1])
            down = torch.bmm(slope, weight) if level > self._lowest else slope  # before the weight moves
            at_bias, at_weight = (self._place.get(link.name + kind) for kind in ("bias", "weight"))
            if at_bias is not None:
                grads[at_bias] = slope.sum(dim=1)
                if fused:
                    self.descent.move(at_bias, grads[at_bias])
            if level == 0 and dual is not None:
                dual.move(rows_CB, slope)
            elif at_weight is not None and fused:
                self.descent.move_by_product(at_weight, slope.transpose(1, 2), seen[level])
            elif at_weight is not None:
                grads[at_weight] = torch.bmm(slope.transpose(1, 2), seen[level])
            slope = down
        if not fused:
            self.descent.step(grads)
        return value


def _constant(own: Tensor | None, clients: int) -> Tensor | None:
    """A parameter that is neither trained nor given: the module's own, for each client."""
    return None if own is None else own.detach().expand(clients, *own.shape)


class Dual:
    """The first layer by what it does to a client's own samples.

    All steps add multiples of the samples to the rows of W, so ``W = W_0 - A^T X`` with A [N, O], and the layer's
    outputs are ``X W^T = X W_0^T - (X X^T) A``. While N is well below the number of inputs, A is much smaller than W.
    """

    def __init__(self, x_CNI: Tensor, weight_COI: Tensor, opt: SGD) -> None:
        self.opt, self._x, self._weight = opt, x_CNI, weight_COI
        self.start = torch.bmm(x_CNI, weight_COI.transpose(1, 2)).flatten(0, 1)
        self.gram = torch.bmm(x_CNI, x_CNI.transpose(1, 2)).flatten(0, 1)
        self._all = self.a = torch.zeros_like(self.start).view(*x_CNI.shape[:2], -1)
        self.velocity = torch.zeros_like(self.a) if opt.momentum else None

    @classmethod
    def of(cls, steps: Steps, weight_COI: Tensor, opt: SGD) -> Dual | None:
        """None if it does not pay, or if decay moves the weight along itself as well."""
        (_, outputs, inputs), samples = weight_COI.shape, int(steps.sizes.max())
        count, visits = len(steps.plans[0]), max(sum(map(len, plan)) for plan in steps.plans)
        # multiplications for each output; to move a weight, a matter of memory, costs about as much as thirty
        direct = (2 * visits + 30 * count) * inputs
        dual = (2 + samples / outputs) * samples * inputs + (visits + 30 * count) * samples
        if dual >= direct or opt.weight_decay:
            return None
        own = np.arange(samples)
        rows_CN = steps.starts[:, None] + np.where(own < steps.sizes[:, None], own, 0)
        return cls(steps.x[torch.from_numpy(rows_CN).to(steps.x.device)].flatten(2), weight_COI, opt)

    def rows(self, steps: Steps) -> Tensor:
        """The rows of the steps among the clients' own samples, laid end to end."""
        starts, places = steps.starts, np.arange(len(steps.starts)) * self.a.shape[1]
        start_C1, place_C1 = (torch.from_numpy(v).to(self.a.device)[:, None] for v in (starts, places))
        return (steps.rows_TCB - start_C1).clamp_(min=0) + place_C1  # where there is no sample: any, its weight is 0

    def narrow(self, clients: int) -> None:
        self.a = self.a[:clients]
        self.velocity = None if self.velocity is None else self.velocity[:clients]

    def product(self, rows_CB: Tensor) -> Tensor:
        return torch.baddbmm(self.start[rows_CB], self.gram[rows_CB], self.a, alpha=-1)

    def move(self, rows_CB: Tensor, slope_CBO: Tensor) -> None:
        rows, slope = rows_CB.flatten(), slope_CBO.flatten(0, 1)
        if self.velocity is None:
            self.a.flatten(0, 1).index_add_(0, rows, slope, alpha=self.opt.lr)
            return
        self.velocity.mul_(self.opt.momentum)
        self.velocity.flatten(0, 1).index_add_(0, rows, slope)
        self.a.add_(self.velocity, alpha=self.opt.lr)

    def finish(self) -> None:
        """Bring the weight to where the steps have led."""
        self._weight.baddbmm_(self._all.transpose(1, 2), self._x, alpha=-1)


def loss_and_slope(task: Task, labels: Tensor, weight_CB: Tensor, out_CBO: Tensor) -> tuple[Tensor, Tensor]:
    """Each client's weighted loss, and its gradient with respect to the outputs."""
    if task == "classification":
        log = out_CBO.log_softmax(dim=2)
        right = labels.unsqueeze(2)
        loss_CB = -log.gather(2, right).squeeze(2)
        slope = log.exp_().scatter_add_(2, right, log.new_tensor(-1.0).expand_as(right))
    else:
        slope = out_CBO - labels.reshape(out_CBO.shape)
        loss_CB = 0.5 * slope.square().sum(dim=2)
    return (loss_CB * weight_CB).sum(dim=1), slope * weight_CB.unsqueeze(2)
