"""The plain loop, as research code is usually written: one client after another, with a deep copy of the model,
``DataLoader(shuffle=True)``, ``optim.SGD`` and an average of state dictionaries."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from workloads import Workload

from manyheads import APFL, Ditto, FedAvg, FedRep, FedRepLinear, PerFedAvg, Scaffold

__all__ = ["Plain", "Shuffled"]

Batches = Iterator[list[Tensor]]


class Shuffled:
    """Where batches come from: shuffled passes over a client's samples."""

    def passes(self, data: TensorDataset, client: int, phase: int, batch: int, epochs: int, steps: int) -> Batches:
        loader = DataLoader(data, batch_size=batch, shuffle=True)
        if not steps:
            for _ in range(epochs):
                yield from loader
            return
        while True:
            for drawn in loader:
                yield drawn
                steps -= 1
                if not steps:
                    return

    def draw(self, data: TensorDataset, client: int, stream: int, batch: int, steps: int) -> Batches:
        return self.passes(data, client, 0, batch, 0, steps)


class Plain:
    """A workload, round by round; ``server`` is the state dictionary of what is averaged."""

    def __init__(self, workload: Workload, batches: Any = None) -> None:
        self.a: Any = workload.algorithm
        self.batches = batches or Shuffled()
        model, federation = workload.model(), workload.federation()
        self.net, self.head = model.module, list(model.params.head)
        self.train = [_dataset(*federation.train.client(i)) for i in range(len(federation))]
        self.test = [_dataset(*federation.test.client(i)) for i in range(len(federation))]
        trained = {k: v.detach().clone() for k, v in self.net.named_parameters() if v.requires_grad}
        self.heads = [{k: trained[k] for k in self.head} for _ in self.train]
        personal = isinstance(self.a, FedRep | FedRepLinear)
        self.server = {k: v for k, v in trained.items() if not (personal and k in self.head)}
        self.own = [{k: v.clone() for k, v in self.server.items()} for _ in self.train]
        """the personal model of each client, where the method has one"""
        self.control = {k: torch.zeros_like(v) for k, v in self.server.items()}
        self.controls = [self.control for _ in self.train]
        kinds: dict[type, Callable[[int], dict[str, Tensor]]] = {
            FedAvg: self.fedavg, FedRep: self.fedrep, PerFedAvg: self.perfedavg, FedRepLinear: self.fedrep_linear,
            Ditto: self.ditto, Scaffold: self.scaffold, APFL: self.apfl,
        }  # fmt: skip
        self.local = kinds[type(self.a)]

    def round(self) -> None:
        uploads = [self.local(i) for i in range(len(self.train))]
        mean = {k: sum(u[k] for u in uploads) / len(uploads) for k in self.server}  # all have as many samples
        if isinstance(self.a, Scaffold):
            mean = {k: w + self.a.server_lr * (mean[k] - w) for k, w in self.server.items()}
            self.control = {k: sum(c[k] for c in self.controls) / len(self.controls) for k in self.control}
        self.server = mean

    def personal(self, i: int) -> dict[str, Tensor]:
        """The model that a client predicts with, if it has one of its own."""
        if isinstance(self.a, APFL):
            return {k: self.a.alpha * v + (1 - self.a.alpha) * self.server[k] for k, v in self.own[i].items()}
        return self.own[i] if isinstance(self.a, Ditto) else {}

    def client_net(self, i: int) -> nn.Module:
        net = copy.deepcopy(self.net)
        net.load_state_dict(self.server, strict=False)
        net.load_state_dict(self.heads[i] if isinstance(self.a, FedRep) else {}, strict=False)
        return net

    def upload(self, net: nn.Module) -> dict[str, Tensor]:
        state = net.state_dict()
        return {k: state[k] for k in self.server}

    def sgd(
        self, net: nn.Module, i: int, phase: int, epochs: int, steps: int = 0,
        change: Callable[[str, nn.Parameter], Tensor] | None = None,
    ) -> None:  # fmt: skip
        """Steps of ``optim.SGD``; ``change`` is added to the gradient of each parameter."""
        opt = self.a if isinstance(self.a, Scaffold) else self.a.sgd
        params = [p for p in net.parameters() if p.requires_grad]
        optimizer = torch.optim.SGD(params, lr=opt.lr, momentum=opt.momentum)
        for x, y in self.batches.passes(self.train[i], i, phase, self.a.batch, epochs, steps):
            optimizer.zero_grad()
            functional.cross_entropy(net(x), y).backward()
            if change is not None:
                with torch.no_grad():
                    for name, p in net.named_parameters():
                        p.grad += change(name, p)
            optimizer.step()

    def fedavg(self, i: int) -> dict[str, Tensor]:
        net = self.client_net(i)
        self.sgd(net, i, 0, self.a.epochs, self.a.steps)
        return self.upload(net)

    def fedrep(self, i: int) -> dict[str, Tensor]:
        net = self.client_net(i)
        for phase, epochs in enumerate((self.a.head_epochs, self.a.body_epochs)):
            for name, p in net.named_parameters():
                p.requires_grad_((name in self.head) == (phase == 0))
            self.sgd(net, i, phase, epochs)
        state = net.state_dict()
        self.heads[i] = {k: state[k].clone() for k in self.head}
        return self.upload(net)

    def ditto(self, i: int) -> dict[str, Tensor]:
        net, own = self.client_net(i), copy.deepcopy(self.net)
        self.sgd(net, i, 0, self.a.epochs, self.a.steps)
        own.load_state_dict(self.own[i], strict=False)
        near = self.server
        self.sgd(own, i, 1, self.a.epochs, self.a.steps, lambda name, p: self.a.lam * (p - near[name]))
        self.own[i] = self.upload(own)
        return self.upload(net)

    def scaffold(self, i: int) -> dict[str, Tensor]:
        net, c, own = self.client_net(i), self.control, self.controls[i]
        self.sgd(net, i, 0, self.a.epochs, self.a.steps, lambda name, _: c[name] - own[name])
        steps = self.a.steps or self.a.epochs * -(-len(self.train[i]) // self.a.batch)
        y = self.upload(net)
        self.controls[i] = {k: own[k] - c[k] + (self.server[k] - y[k]) / (steps * self.a.lr) for k in y}
        return y

    def apfl(self, i: int) -> dict[str, Tensor]:
        a, net, own = self.a, self.client_net(i), self.own[i]
        mixed = copy.deepcopy(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=a.lr)
        for x, y in self.batches.passes(self.train[i], i, 0, a.batch, a.epochs, a.steps):
            with torch.no_grad():
                for (name, w), m in zip(net.named_parameters(), mixed.parameters(), strict=True):
                    m.copy_(a.alpha * own[name] + (1 - a.alpha) * w)
            mixed.zero_grad()
            functional.cross_entropy(mixed(x), y).backward()
            for name, m in mixed.named_parameters():
                own[name] -= a.lr * a.alpha * m.grad
            optimizer.zero_grad()
            functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        return self.upload(net)

    def perfedavg(self, i: int) -> dict[str, Tensor]:
        a, net = self.a, self.client_net(i)
        params = list(net.parameters())
        sizes = (a.batch, a.outer_batch, a.hessian_batch)
        streams = [self.batches.draw(self.train[i], i, s, size, a.steps) for s, size in enumerate(sizes)]
        for (x, y), (x1, y1), (x2, y2) in zip(*streams, strict=True):
            inner = torch.autograd.grad(functional.cross_entropy(net(x), y), params)
            before = [p.detach().clone() for p in params]
            with torch.no_grad():
                for p, g in zip(params, inner, strict=True):
                    p -= a.alpha * g
            outer = torch.autograd.grad(functional.cross_entropy(net(x1), y1), params)
            with torch.no_grad():
                for p, b in zip(params, before, strict=True):
                    p.copy_(b)
            if a.variant == "exact":
                slope = torch.autograd.grad(functional.cross_entropy(net(x2), y2), params, create_graph=True)
                product = torch.autograd.grad(slope, params, outer)
                outer = [g - a.alpha * h for g, h in zip(outer, product, strict=True)]
            with torch.no_grad():
                for p, g in zip(params, outer, strict=True):
                    p -= a.beta * g
        return self.upload(net)

    def fedrep_linear(self, i: int) -> dict[str, Tensor]:
        x, y = self.train[i].tensors
        ((name, body),) = self.server.items()
        body = body.clone().requires_grad_()
        w = torch.linalg.lstsq(x @ body.detach().T, y.reshape(-1, 1)).solution
        loss = 0.5 * (x @ body.T @ w - y.reshape(-1, 1)).square().mean()
        loss.backward()
        self.heads[i] = {self.head[0]: w.T}
        return {name: (body - self.a.eta * body.grad).detach()}

    @torch.no_grad()
    def evaluate(self) -> tuple[list[float], list[int]]:
        """Mean loss and number of right answers of each client."""
        loss, correct = [], []
        for i, data in enumerate(self.test):
            net = self.client_net(i).eval()
            total, right = 0.0, 0
            for x, y in DataLoader(data, batch_size=128):
                out = net(x)
                total += functional.cross_entropy(out, y, reduction="sum").item()
                right += int((out.argmax(dim=1) == y).sum())
            loss.append(total / len(data))
            correct.append(right)
        return loss, correct


def _dataset(x: Any, y: Any) -> TensorDataset:
    return TensorDataset(torch.from_numpy(x.copy()), torch.from_numpy(y.copy()))
