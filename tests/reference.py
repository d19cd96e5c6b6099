"""The oracle: federated learning as most people write it first. A deep copy of the model a client, one client after
another, torch's own optimizer, averages of state dicts. Only the batch order is the library's."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from manyheads import DSGD, SGD, FedAvg, Federation, FedRep, Local
from manyheads.core.randomness import Purpose, batch_plan, generator
from manyheads.run.loop import sample_cohort
from manyheads.run.training import Training

Weights = dict[str, Tensor]


def loss_of(federation: Federation, module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    out = module(x)
    if federation.task == "classification":
        return functional.cross_entropy(out, y)
    return 0.5 * functional.mse_loss(out.reshape(-1), y.reshape(-1))


def client_data(federation: Federation, client: int) -> tuple[Tensor, Tensor]:
    x, y = federation.train.client(client)
    return torch.from_numpy(np.array(x)), torch.from_numpy(np.array(y))


def plan(seed: int, round: int, client: int, phase: int, samples: int, **how: int) -> list[np.ndarray]:
    return batch_plan(generator(seed, Purpose.BATCHES, round, client, phase), samples, **how)


def train(
    module: nn.Module, names: Iterable[str], batches: list, federation: Federation, client: int, opt: SGD
) -> None:
    names = set(names)
    x, y = client_data(federation, client)
    for name, p in module.named_parameters():
        p.requires_grad_(name in names)
    decayed = [p for n, p in module.named_parameters() if n in names and not n.endswith("bias")]
    biases = [p for n, p in module.named_parameters() if n in names and n.endswith("bias")]
    groups = [{"params": decayed, "weight_decay": opt.weight_decay}, {"params": biases, "weight_decay": 0.0}]
    optimizer = torch.optim.SGD([g for g in groups if g["params"]], lr=opt.lr, momentum=opt.momentum)
    for rows in batches:
        optimizer.zero_grad()
        loss_of(federation, module, x[rows], y[rows]).backward()
        optimizer.step()


def weights_of(module: nn.Module, names: Iterable[str] | None = None) -> Weights:
    chosen = set(names) if names is not None else None
    return {k: v.detach().clone() for k, v in module.named_parameters() if chosen is None or k in chosen}


def average(weights: list[Weights], shares: list[float]) -> Weights:
    total = sum(shares)
    return {k: sum(s / total * w[k] for w, s in zip(weights, shares, strict=True)) for k in weights[0]}


def with_weights(module: nn.Module, *weights: Weights) -> nn.Module:
    module = copy.deepcopy(module)
    module.load_state_dict({k: v for w in weights for k, v in w.items()}, strict=False)
    return module


def run(
    algorithm: object, module: nn.Module, head: list[str], federation: Federation, training: Training
) -> tuple[Weights, dict[int, Weights]]:
    """The server's weights and every touched client's own, after all rounds."""
    names = [n for n, _ in module.named_parameters()]
    body = [n for n in names if n not in head]
    seed, sizes = training.seed, federation.train.sizes
    start = weights_of(module)
    server = {k: start[k] for k in (body if isinstance(algorithm, FedRep) else names)}
    clients: dict[int, Weights] = {}
    for round in range(1, training.rounds + 1):
        uploads, shares = [], []
        for i in sample_cohort(training, len(federation), round, isinstance(algorithm, Local)):
            n = int(sizes[i])
            shares.append(1.0 if isinstance(algorithm, FedRep) else float(n))
            own = with_weights(module, start, server, clients.get(i, {}))
            if isinstance(algorithm, FedRep):
                batches = plan(seed, round, i, 0, n, batch=algorithm.batch, epochs=algorithm.head_epochs)
                train(own, head, batches, federation, i, algorithm.sgd)
                how = {"epochs": algorithm.body_epochs, "steps": algorithm.body_steps}
                batches = plan(seed, round, i, 1, n, batch=algorithm.batch, **how)
                train(own, body, batches, federation, i, algorithm.sgd)
                clients[i] = weights_of(own, head)
                uploads.append(weights_of(own, body))
            elif isinstance(algorithm, DSGD):
                x, y = client_data(federation, i)
                rows = plan(seed, round, i, 0, n, batch=algorithm.batch, steps=1)[0]
                loss_of(federation, own, x[rows], y[rows]).backward()
                uploads.append(
                    {
                        k: v - algorithm.lr * p.grad
                        for (k, p), v in zip(own.named_parameters(), server.values(), strict=True)
                    }
                )
            else:
                assert isinstance(algorithm, FedAvg | Local)
                how = {"epochs": algorithm.epochs, "steps": algorithm.steps}
                batches = plan(seed, round, i, 0, n, batch=algorithm.batch, **how)
                train(own, names, batches, federation, i, algorithm.sgd)
                if isinstance(algorithm, Local):
                    clients[i] = weights_of(own)
                else:
                    uploads.append(weights_of(own))
        if uploads:
            server = average(uploads, shares)
    return server, clients
