"""What is timed: one round of local training, or one evaluation, on random data of the shapes that the papers use."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from own_models import lenet, own_mlp, resnet
from torch import nn

from manyheads import APFL, SGD, Ditto, Engine, Evaluate, FedAvg, FedRep, FedRepLinear, Model, PerFedAvg, Scaffold
from manyheads.core.contract import Algorithm
from manyheads.core.randomness import Purpose, torch_seeded
from manyheads.data import Federation, LinearTasks, Samples
from manyheads.models import MLP, MODELS, LinearRepresentation, ReluNet, build_model
from manyheads.models.lstm import TokenReader
from manyheads.run.simulate import run_training
from manyheads.run.training import Training

__all__ = ["WORKLOADS", "Workload", "classified", "known", "mlp_of"]

NEVER = 10**9
SGD_PLAIN = SGD(lr=0.01, momentum=0.0)
ALL = ("flower", "pfl", "fluke", "pfllib")


@dataclass(frozen=True)
class Workload:
    """An algorithm, a model and a federation whose clients all take part; what is timed is a round of it."""

    name: str
    words: str
    algorithm: Algorithm
    model: Callable[[], Model]
    federation: Callable[[], Federation]
    target: float
    """times as fast as the plain loop, that we want to be; 0 if nothing was set"""
    rounds: int = 1
    """rounds in one timing: short ones are timed together"""
    peak: float | None = None
    """share of the machine's peak that we want to reach"""
    peers: tuple[str, ...] = ()
    """other libraries that do it too, where they are installed"""
    evaluation: bool = False
    """what is timed is the evaluation of all clients, not the round"""

    def training(self, workers: int) -> Training:
        """Rounds without end, evaluated only if that is what is timed, and never saved."""
        return Training(
            rounds=NEVER,
            cohort=1 if self.evaluation else 0,
            checkpoint_seconds=NEVER,
            evaluate=Evaluate(every=1 if self.evaluation else NEVER),
            engine=Engine(workers=workers),
        )

    def run(self, workers: int, on_round: Callable[[Any], None]) -> None:
        """Rounds without end; ``on_round`` ends them by an exception."""
        config = {"data": {"name": "custom"}, "model": {"name": "custom"}}
        training = self.training(workers)
        run_training(self.algorithm, self.model(), self.federation(), training, config, None, on_round=on_round)


def mlp_of(parameters: int, inputs: int = 100) -> Model:
    """An MLP inputs-width-width-10 with about so many parameters."""
    width = round(((inputs + 10) ** 2 / 4 + parameters) ** 0.5 - (inputs + 10) / 2)
    return build_model(MLP(hidden=(width, width)), (inputs,), 10, seed=0)


def classified(clients: int, samples: int, shape: tuple[int, ...], classes: int = 10, test: int = 1) -> Federation:
    """Noise around a pattern for each class: something to learn, of the right shape."""
    rng = np.random.default_rng(0)
    patterns = rng.normal(size=(classes, *shape)).astype(np.float32)

    def split(count: int) -> Samples:
        y = rng.integers(0, classes, clients * count)
        x = patterns[y] * 0.3 + rng.normal(size=(len(y), *shape)).astype(np.float32)
        return Samples(x, y, np.arange(clients + 1) * count)

    return Federation("random", split(samples), split(test), "classification", classes)


def tokens(clients: int, samples: int, length: int = 25, vocabulary: int = 10_000) -> Federation:
    """Rows of random tokens, padded at the end; the label is whether the first one is a frequent word."""
    rng = np.random.default_rng(0)

    def split(count: int) -> Samples:
        x = rng.integers(2, vocabulary, (clients * count, length))
        x[np.arange(length) >= rng.integers(5, length + 1, len(x))[:, None]] = 0
        return Samples(x, (x[:, 0] < vocabulary // 2).astype(np.int64), np.arange(clients + 1) * count)

    return Federation("tokens", split(samples), split(1), "classification", 2)


def named(name: str, shape: tuple[int, ...], outputs: int = 10, **settings: Any) -> Callable[[], Model]:
    return lambda: build_model(MODELS.find(name)(**settings), shape, outputs, seed=0)


def sent140() -> Model:
    """The network of Collins et al. 2021 with random word vectors of 300 dimensions, frozen."""
    with torch_seeded(0, Purpose.MODEL):
        embedding = nn.Embedding(10_000, 300, padding_idx=0)
        embedding.weight.requires_grad_(False)
        return Model(TokenReader(embedding, 128, 2, dropout=0.5), head="head")


def linear(dim: int, rank: int) -> Callable[[], Model]:
    return lambda: build_model(LinearRepresentation(rank=rank), (dim,), 1, seed=0)


def relu(width: int, depth: int) -> Callable[[], Model]:
    return lambda: build_model(ReluNet(width=width, depth=depth), (784,), 10, seed=0)


def femnist() -> Federation:
    return classified(15, 148, (784,))


def cifar_100() -> Federation:
    return classified(10, 100, (3, 32, 32))


def cifar() -> Federation:
    return classified(10, 500, (3, 32, 32))


def mnist_50() -> Federation:
    return classified(50, 500, (784,))


def mnist_10() -> Federation:
    return classified(10, 500, (784,))


WORKLOADS = {
    w.name: w
    for w in (
        Workload(
            "mlp-fedavg",
            "FedAvg, MLP 784-512-256-64-10, 15 clients x 148 samples, batch 10, one epoch",
            FedAvg(epochs=1, batch=10),
            named("femnist-mlp", (784,)),
            femnist,
            4.5,
            rounds=3,
            peers=ALL,
        ),
        Workload(
            "mlp-fedrep",
            "FedRep, the same MLP and clients, 10 epochs on the head and 5 on the body",
            FedRep(head_epochs=10, body_epochs=5, batch=10),
            named("femnist-mlp", (784,)),
            femnist,
            7,
            peers=("fluke", "pfllib"),
        ),
        Workload(
            "class-fedavg",
            "FedAvg, the same MLP written as a class with functional.relu in its forward",
            FedAvg(epochs=1, batch=10),
            own_mlp,
            femnist,
            4.5,
            rounds=3,
        ),
        Workload(
            "class-fedrep",
            "FedRep, the same class",
            FedRep(head_epochs=10, body_epochs=5, batch=10),
            own_mlp,
            femnist,
            7,
        ),
        Workload(
            "cnn-fedavg",
            "FedAvg, 2-layer CNN of CIFAR-10, 10 clients x 500 samples, batch 10, one epoch",
            FedAvg(epochs=1, batch=10),
            named("cnn-cifar10", (3, 32, 32)),
            cifar,
            1.6,
            peak=0.55,
            peers=ALL,
        ),
        Workload(
            "cnn-fedrep",
            "FedRep, the same CNN and clients, 10 epochs on the head and 1 on the body",
            FedRep(head_epochs=10, body_epochs=1, batch=10),
            named("cnn-cifar10", (3, 32, 32)),
            cifar,
            8,
        ),
        Workload(
            "cnn6-fedavg",
            "FedAvg, 6-layer CNN, 10 clients, 50 steps of batch 10",
            FedAvg(steps=50, batch=10),
            named("cnn-6", (3, 32, 32)),
            cifar,
            1.5,
            peak=0.60,
        ),
        Workload(
            "mlp-ditto",
            "Ditto, the MLP 784-512-256-64-10, 15 clients x 148 samples, batch 10, one epoch",
            Ditto(epochs=1, batch=10),
            named("femnist-mlp", (784,)),
            femnist,
            3,
            rounds=3,
        ),
        Workload(
            "mlp-scaffold",
            "SCAFFOLD, the MLP 784-512-256-64-10, 15 clients x 148 samples, batch 10, one epoch",
            Scaffold(epochs=1, batch=10),
            named("femnist-mlp", (784,)),
            femnist,
            3,
            rounds=3,
        ),
        Workload(
            "mlp-apfl",
            "APFL, the MLP 784-512-256-64-10, 15 clients x 148 samples, batch 10, one epoch",
            APFL(epochs=1, batch=10),
            named("femnist-mlp", (784,)),
            femnist,
            3,
            rounds=3,
        ),
        Workload(
            "mlp-perfedavg",
            "Per-FedAvg, exact, the MLP 784-512-256-64-10, 15 clients x 148 samples, 15 steps of batches of 10",
            PerFedAvg(steps=15, batch=10, outer_batch=10, hessian_batch=10),
            named("femnist-mlp", (784,)),
            femnist,
            3,
            rounds=3,
        ),
        Workload(
            "cnn-ditto",
            "Ditto, 2-layer CNN of CIFAR-10, 10 clients x 100 samples, batch 10, one epoch",
            Ditto(epochs=1, batch=10),
            named("cnn-cifar10", (3, 32, 32)),
            cifar_100,
            1.7,
        ),
        Workload(
            "cnn-scaffold",
            "SCAFFOLD, 2-layer CNN of CIFAR-10, 10 clients x 100 samples, batch 10, one epoch",
            Scaffold(epochs=1, batch=10),
            named("cnn-cifar10", (3, 32, 32)),
            cifar_100,
            1.7,
        ),
        Workload(
            "cnn-apfl",
            "APFL, 2-layer CNN of CIFAR-10, 10 clients x 100 samples, batch 10, one epoch",
            APFL(epochs=1, batch=10),
            named("cnn-cifar10", (3, 32, 32)),
            cifar_100,
            1.7,
        ),
        Workload(
            "lenet-fedavg",
            "FedAvg, LeNet-5 written as a class, 10 clients x 100 images of CIFAR-10, batch 10, one epoch",
            FedAvg(epochs=1, batch=10),
            lenet,
            cifar_100,
            0,
            rounds=3,
        ),
        Workload(
            "resnet-fedavg",
            "FedAvg, ResNet-8 with GroupNorm written as a class, 10 clients x 100 images of CIFAR-10, batch 10, one epoch",
            FedAvg(epochs=1, batch=10),
            resnet,
            cifar_100,
            1.5,
        ),
        Workload(
            "linear-40",
            "linear FedRep, 40 clients x 100 samples, d 100, k 5",
            FedRepLinear(start="given"),
            linear(100, 5),
            lambda: LinearTasks(clients=40, dim=100, rank=5, samples=100, test_samples=1).federation(seed=0),
            0,
            rounds=50,
        ),
        Workload(
            "linear-1000",
            "linear FedRep, 1000 clients x 5 samples, d 10, k 2",
            FedRepLinear(start="given"),
            linear(10, 2),
            lambda: LinearTasks(clients=1000, dim=10, rank=2, samples=5, test_samples=1).federation(seed=0),
            40,
            rounds=20,
        ),
        Workload(
            "relu-wide",
            "FedAvg, ReLU 784-1000-10 with a fixed top, 50 clients, 10 steps of batch 50",
            FedAvg(steps=10, batch=50, sgd=SGD_PLAIN),
            relu(1000, 1),
            mnist_50,
            3.5,
            peak=0.80,
        ),
        Workload(
            "relu-deep",
            "FedAvg, ReLU of 5 layers of 100 with a fixed top, 50 clients, 10 steps of batch 50",
            FedAvg(steps=10, batch=50, sgd=SGD_PLAIN),
            relu(100, 5),
            mnist_50,
            6,
            rounds=3,
        ),
        Workload(
            "lstm-fedavg",
            "FedAvg, LSTM of 128 units on 25 tokens of 300 dimensions, 18 clients x 80 samples, batch 4",
            FedAvg(epochs=1, batch=4),
            sent140,
            lambda: tokens(18, 80),
            1.5,
        ),
        Workload(
            "perfedavg-exact",
            "Per-FedAvg, exact, MLP 784-80-60-10, 10 clients, 10 steps of batches of 50",
            PerFedAvg(variant="exact"),
            named("elu-mlp", (784,)),
            mnist_10,
            5,
            rounds=3,
        ),
        Workload(
            "perfedavg-fo",
            "Per-FedAvg, first order, the same",
            PerFedAvg(variant="fo"),
            named("elu-mlp", (784,)),
            mnist_10,
            0,
            rounds=3,
        ),
        Workload(
            "evaluate-1000",
            "evaluation of 1000 clients x 20 samples, each with its own head on the MLP 784-512-256-64-10",
            FedRep(head_epochs=1),
            named("femnist-mlp", (784,)),
            lambda: classified(1000, 2, (784,), test=20),
            8,
            rounds=3,
            evaluation=True,
        ),
    )
}


def known(name: str) -> str:
    """The name of a workload, on a command line."""
    if name not in WORKLOADS:
        raise ArgumentTypeError(f"no workload is called {name}; there are {', '.join(WORKLOADS)}")
    return name
