"""The cohort: local training of a group of clients, one after another or stacked.

Results are the same to rounding. Which is faster depends on the size of what is trained (measured, see docs/design.md):
a loop on a private copy of the parameters beats stacking for large models, which fall out of the cache when stacked;
stacking wins for small ones, and for the heads on features that are computed once. The cohort chooses call by call.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from manyheads.core.contract import Round
from manyheads.core.optim import SGD
from manyheads.core.randomness import Purpose, batch_plan, generator, torch_seeded
from manyheads.core.trees import Tree
from manyheads.data import Samples
from manyheads.models import Model, Net, losses

__all__ = ["STACK_BELOW", "ClientData", "LocalCohort", "Mode"]

Mode = Literal["auto", "loop", "stacked"]
STACK_BELOW = 110_000
"""trained parameters a client up to which stacking the clients pays on a CPU"""
SLICE = 1024
"""samples in one forward pass without gradient"""


@dataclass(frozen=True)
class ClientData:
    """Samples of a few clients as tensors on the device, client after client."""

    x: Tensor
    y: Tensor
    offsets: np.ndarray
    task: Literal["classification", "regression"]

    @classmethod
    def of(cls, samples: Samples, task: Literal["classification", "regression"], like: Tensor) -> ClientData:
        x, y = torch.from_numpy(np.array(samples.x)), torch.from_numpy(np.array(samples.y))
        x = x.to(like.device, like.dtype if x.is_floating_point() else None)
        return cls(x, y.to(like.device, torch.int64 if task == "classification" else like.dtype), samples.offsets, task)

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)


class Descent:
    """SGD with momentum on tensors that are its own to change."""

    def __init__(self, opt: SGD, params: dict[str, Tensor]) -> None:
        self.opt = opt
        self.params = list(params.values())
        self.decay = [opt.weight_decay * (not name.endswith("bias")) for name in params]
        self.velocity = [torch.zeros_like(p) for p in self.params] if opt.momentum else []

    def narrow(self, clients: int) -> None:
        """From here on, only the first ``clients`` clients move."""
        self.params = [p[:clients] for p in self.params]
        self.velocity = [v[:clients] for v in self.velocity]

    @torch.no_grad()
    def step(self, grads: tuple[Tensor, ...] | list[Tensor]) -> None:
        if self.opt.weight_decay:
            grads = [g + d * p if d else g for g, d, p in zip(grads, self.decay, self.params, strict=True)]
        if self.velocity:
            torch._foreach_mul_(self.velocity, self.opt.momentum)
            torch._foreach_add_(self.velocity, grads)
            grads = self.velocity
        torch._foreach_add_(self.params, grads, alpha=-self.opt.lr)


class LocalCohort:
    """Clients of one round on this machine; implements :class:`manyheads.core.contract.Cohort`.

    With ``pooled`` weights, all of them together act as one client whose loss is the weighted mean of theirs.
    """

    def __init__(
        self,
        model: Model,
        data: ClientData,
        clients: Sequence[int],
        round: Round,
        mode: Mode = "auto",
        pooled: Tensor | None = None,
    ) -> None:
        self.model, self.data, self.clients, self.mode, self.pooled = model, data, list(clients), mode, pooled
        self._round = round
        self._template = model.params.all
        self._phase = -1
        self._loss = torch.zeros(len(self.clients), device=data.x.device)
        self._loss_steps = np.zeros(len(self.clients))

    @property
    def round(self) -> Round:
        return self._round

    @property
    def samples(self) -> Tensor:
        return torch.from_numpy(self.data.sizes)

    @property
    def train_loss(self) -> np.ndarray:
        """Mean loss of each client over the batches it trained on."""
        return self._loss.double().cpu().numpy() / np.maximum(self._loss_steps, 1)

    def sgd(
        self, part: Tree, *, opt: SGD, batch: int, epochs: int = 0, steps: int = 0, given: Tree | None = None
    ) -> Tree:
        if not part or not (epochs or steps):  # nothing to do draws nothing
            return self._each(part)
        plans = self._plans(batch, epochs, steps)
        net, x, rest = self.model.net, self.data.x, given or Tree()
        if self._features_last(part, plans):
            assert self.model.head_net is not None
            net, x, rest = self.model.head_net, self._features(rest), Tree()
        train = self._train_stacked if self._stacks(part) else self._train_looped
        return train(net, x, part, rest, plans, opt)

    def gradient(self, params: Tree, *, batch: int) -> Tree:
        plans = self._plans(batch, 0, 1)
        batches: list[tuple[np.ndarray, np.ndarray | None]]
        if self.pooled is None:
            batches = [(self.data.offsets[c] + plan[0], None) for c, plan in enumerate(plans)]
        else:
            share = (self.pooled / self.pooled.sum()).tolist()
            weights = np.concatenate([np.full(len(p[0]), s / len(p[0])) for p, s in zip(plans, share, strict=True)])
            batches = [(np.concatenate([o + p[0] for o, p in zip(self.data.offsets, plans, strict=False)]), weights)]
        grads = []
        for client, (rows, weight) in enumerate(batches):
            leaves = self.model.net.bind(self._of_client(params, client), train=params)
            loss = self._batch_loss(self.model.net, self.data.x, torch.from_numpy(rows), weight)
            grads.append(torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True))
            self._loss[client] += loss.detach()
            self._loss_steps[client] += 1
        return Tree({name: torch.stack(g) for name, g in zip(leaves, zip(*grads, strict=True), strict=True)})

    # -- which samples ------------------------------------------------------------------------------------------------

    def _plans(self, batch: int, epochs: int, steps: int) -> list[list[np.ndarray]]:
        self._phase += 1
        return [
            batch_plan(self._generator(client), int(size), batch=batch, epochs=epochs, steps=steps)
            for client, size in zip(self.clients, self.data.sizes, strict=True)
        ]

    def _generator(self, client: int) -> np.random.Generator:
        return generator(self.round.seed, Purpose.BATCHES, self.round.index, client, self._phase)

    def _noise(self, client: int) -> AbstractContextManager[None]:
        if not self.model.random:
            return nullcontext()
        return torch_seeded(self.round.seed, Purpose.NOISE, self.round.index, self.clients[client], self._phase)

    # -- which way ----------------------------------------------------------------------------------------------------

    def _stacks(self, part: Tree) -> bool:
        if self.model.random or self.mode == "loop":
            return False
        size = sum(self._template[name].numel() for name in part)
        small = size <= STACK_BELOW or self.data.x.device.type != "cpu"
        return self.mode == "stacked" or (small and len(self.clients) > 1)

    def _features_last(self, part: Tree, plans: list[list[np.ndarray]]) -> bool:
        """Only the head is trained, on at least one pass: the frozen body's features are computed once."""
        visits = sum(len(rows) for plan in plans for rows in plan)
        head = self.model.head_net is not None and part.keys() == self.model.params.head.keys()
        return head and not self.model.random and visits >= len(self.data.y)

    def _features(self, body: Tree) -> Tensor:
        shared = all(self._is_shared(name, leaf) for name, leaf in body.items())
        groups = [(0, len(self.data.y))] if shared else list(pairwise(self.data.offsets.tolist()))
        parts = []
        for client, (start, stop) in enumerate(groups):
            own = body if shared else self._of_client(body, client)
            parts += [
                self.model.features(own, self.data.x[i : min(i + SLICE, stop)]) for i in range(start, stop, SLICE)
            ]
        return torch.cat(parts)

    # -- values with and without the client dimension -----------------------------------------------------------------

    def _is_shared(self, name: str, leaf: Tensor) -> bool:
        return leaf.ndim == self._template[name].ndim

    def _each(self, tree: Tree) -> Tree:
        """Every client's own copy."""
        count = len(self.clients)
        return Tree(
            {k: v.expand(count, *v.shape).clone() if self._is_shared(k, v) else v.clone() for k, v in tree.items()}
        )

    def _of_client(self, tree: Tree, client: int) -> Tree:
        return Tree({k: v if self._is_shared(k, v) else v[client] for k, v in tree.items()})

    # -- training -----------------------------------------------------------------------------------------------------

    def _batch_loss(self, net: Net, x: Tensor, rows: Tensor, weight: np.ndarray | None = None) -> Tensor:
        each = losses(self.data.task, net(x[rows]), self.data.y[rows])
        return each.mean() if weight is None else each @ torch.from_numpy(weight).to(each)

    def _train_looped(
        self, net: Net, x: Tensor, part: Tree, given: Tree, plans: list[list[np.ndarray]], opt: SGD
    ) -> Tree:
        trained = self._each(part)
        for client, plan in enumerate(plans):
            own = Tree({k: v[client] for k, v in trained.items()})
            leaves = net.bind(own | self._of_client(given, client), train=part)
            descent = Descent(opt, leaves)
            start = int(self.data.offsets[client])
            with self._noise(client):
                for rows in plan:
                    loss = self._batch_loss(net, x, torch.from_numpy(rows + start))
                    descent.step(torch.autograd.grad(loss, descent.params, materialize_grads=True))
                    self._loss[client] += loss.detach()
            self._loss_steps[client] += len(plan)
        return trained

    def _train_stacked(
        self, net: Net, x: Tensor, part: Tree, given: Tree, plans: list[list[np.ndarray]], opt: SGD
    ) -> Tree:
        # Clients with most steps first: those that have finished are at the end, and drop out of the stack.
        order = np.argsort([-len(plan) for plan in plans], kind="stable")
        position = torch.from_numpy(order).to(x.device)
        rows_TCB, scale_TCB = self._stack_plans([plans[i] for i in order], self.data.offsets[:-1][order])
        trained = self._each(part).map(lambda v: v[position])
        rest = {k: v[position] for k, v in self._each(given).items()}
        descent = Descent(opt, dict(trained))
        loss_C = torch.zeros_like(self._loss)
        steps = np.array([len(plans[i]) for i in order])
        for step in range(int(steps[0])):
            active = int((steps > step).sum())
            if active < len(descent.params[0]):
                descent.narrow(active)
                rest = {k: v[:active] for k, v in rest.items()}
            leaves = [p.detach().requires_grad_() for p in descent.params]
            rows = rows_TCB[step, :active]
            out = net.stacked(dict(zip(part, leaves, strict=True)) | rest, x[rows])
            each = losses(self.data.task, out.flatten(0, 1), self.data.y[rows].flatten(0, 1)).view(rows.shape)
            loss = (each * scale_TCB[step, :active]).sum(dim=1)
            descent.step(torch.autograd.grad(loss.sum(), leaves, materialize_grads=True))
            loss_C[:active] += loss.detach()
        self._loss[position] += loss_C
        self._loss_steps[order] += steps
        back = torch.argsort(position)
        return trained.map(lambda v: v[back])

    def _stack_plans(self, plans: list[list[np.ndarray]], starts: np.ndarray) -> tuple[Tensor, Tensor]:
        """Rows [T, C, B] of each step, and the weight of each in the client's mean loss (0 where there is no sample)."""
        batch = max(len(rows) for plan in plans for rows in plan)
        shape = (max(map(len, plans)), len(plans), batch)
        rows_TCB, scale_TCB = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
        for client, (plan, start) in enumerate(zip(plans, starts, strict=True)):
            for step, rows in enumerate(plan):
                rows_TCB[step, client, : len(rows)] = rows + start
                scale_TCB[step, client, : len(rows)] = 1 / len(rows)
        dtype = next(iter(self._template.values())).dtype
        device = self.data.x.device
        return torch.from_numpy(rows_TCB).to(device), torch.from_numpy(scale_TCB).to(device, dtype)
