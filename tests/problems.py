"""Small federations that several tests use."""

from __future__ import annotations

import numpy as np
from torch import nn

from manyheads import Federation, Model
from manyheads.core.randomness import Purpose, torch_seeded
from manyheads.data import Samples


def ragged(sizes: tuple[int, ...] = (1, 23, 7, 30, 12, 4, 18, 9, 15, 2), classes: int = 3, dim: int = 6) -> Federation:
    """Clients of very unequal size, down to one sample, with labels that can be learned."""
    rng = np.random.default_rng(7)
    truth = rng.normal(size=(dim, classes))
    clients = []
    for n in sizes:
        x = rng.normal(size=(n + 4, dim)).astype(np.float32)
        clients.append((x, (x @ (truth + rng.normal(size=truth.shape))).argmax(1).astype(np.int64)))
    return Federation.from_clients(clients, name="ragged", test_fraction=0.3, outputs=classes)


def small_net(dim: int = 6, hidden: int = 8, classes: int = 3, seed: int = 0) -> nn.Sequential:
    with torch_seeded(seed, Purpose.MODEL):
        return nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, 5), nn.Tanh(), nn.Linear(5, classes))


def normed_net(dim: int = 6, classes: int = 3) -> nn.Sequential:
    """A net with a norm layer."""
    with torch_seeded(0, Purpose.MODEL):
        return nn.Sequential(nn.Linear(dim, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, classes))


def shifted(clients: int = 12, dim: int = 4, train: int = 200, noise: float = 0.0) -> Federation:
    """The planted feature shift: the same regression at all, of inputs that each measures in units of its own."""
    rng = np.random.default_rng(4)
    truth, parts = rng.normal(size=dim), []
    for _ in range(clients):
        z = rng.normal(size=(train + 200, dim))
        scale, shift = np.exp(rng.normal(size=dim)), 3 * rng.normal(size=dim)
        y = z @ truth + noise * rng.normal(size=len(z))
        parts.append((z * scale + shift, y))
    first, rest = ([(x[rows], y[rows]) for x, y in parts] for rows in (slice(train), slice(train, None)))
    return Federation("shifted", Samples.of(first), Samples.of(rest), "regression", 1)


def normed_first(dim: int = 4) -> Model:
    """A batch norm of the inputs, and a linear model of what comes out."""
    with torch_seeded(0, Purpose.MODEL):
        return Model(nn.Sequential(nn.BatchNorm1d(dim), nn.Linear(dim, 1)).double(), norm="average")


def grouped(clients: int = 8, dim: int = 3, samples: int = 40) -> Federation:
    """Planted clusters: clients with an odd number have the opposite answer of those with an even one. No noise."""
    rng = np.random.default_rng(5)
    truth, parts = 2 * rng.normal(size=dim), []
    for i in range(clients):
        x = rng.normal(size=(samples, dim))
        parts.append((x, x @ (truth if i % 2 == 0 else -truth)))
    return Federation("grouped", Samples.of(parts), Samples.of(parts), "regression", 1)


def relabelled(seed: int, others: int = 8, clients: int = 40, classes: int = 4, train: int = 15) -> Federation:
    """Planted disagreement: classes that all clients can tell apart, which the first few call by other names.

    Two of the 60 inputs tell the classes apart; the rest is noise.
    """
    rng = np.random.default_rng(100 + seed)
    other = [(client < others) * (1 + client % (classes - 1)) for client in range(clients)]
    return _renamed("relabelled", rng, other, classes, train, inputs=60, apart=3)


def agreeing(seed: int, clients: int = 20, classes: int = 4, train: int = 12) -> Federation:
    """Planted groups: clients with an odd number call the classes by other names than those with an even one.

    Two of the 30 inputs tell the classes apart; the rest is noise.
    """
    rng = np.random.default_rng(200 + seed)
    other = [client % 2 * classes // 2 for client in range(clients)]
    return _renamed("agreeing", rng, other, classes, train, inputs=30, apart=2.5)


def _renamed(
    name: str, rng: np.random.Generator, other: list[int], classes: int, train: int, inputs: int, apart: float
) -> Federation:
    """Classes on a circle in the first two inputs; each client's names for them are ``other`` places further."""
    angle = 2 * np.pi * np.arange(classes) / classes
    centres = np.zeros((classes, inputs))
    centres[:, :2] = apart * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    parts = []
    for further in other:
        kind = rng.integers(classes, size=train + 100)
        x = (centres[kind] + rng.normal(size=(len(kind), inputs))).astype(np.float32)
        parts.append((x, (kind + further) % classes))
    return _divided(name, parts, train, classes)


def few_classes(seed: int, clients: int = 20, classes: int = 8, each: int = 4, train: int = 12) -> Federation:
    """Planted label skew: four of eight classes at each client, three samples of each; three of the 30 inputs tell them."""
    rng = np.random.default_rng(300 + seed)
    centres = np.zeros((classes, 30))
    centres[:, :3] = 2.5 * rng.normal(size=(classes, 3))
    parts = []
    for _ in range(clients):
        own = rng.choice(classes, each, replace=False)
        y = own[rng.integers(each, size=train + 100)]
        parts.append(((centres[y] + rng.normal(size=(len(y), 30))).astype(np.float32), y))
    return _divided("few classes", parts, train, classes)


def _divided(name: str, parts: list[tuple[np.ndarray, np.ndarray]], train: int, classes: int) -> Federation:
    """The first samples of each client to train on, the rest as its test."""
    first, rest = ([(x[rows], y[rows]) for x, y in parts] for rows in (slice(train), slice(train, None)))
    return Federation(name, Samples.of(first), Samples.of(rest), "classification", classes)


def net_for(method: str) -> nn.Sequential:
    """A small net that the method can train."""
    return normed_net() if method == "fedbn" else small_net()


class ConvNet(nn.Module):
    """A network that is not a plain chain of layers, so that stacking goes through vmap."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.fc = nn.Linear(4 * 4, 8)
        self.out = nn.Linear(8, classes)

    def forward(self, x):
        x = self.conv(x).relu()
        return self.out(self.fc(x.flatten(1)).relu())


def images(classes: int = 3) -> Federation:
    rng = np.random.default_rng(3)
    clients = []
    for n in (5, 12, 20, 9):
        y = rng.integers(0, classes, n)
        x = rng.normal(size=(n, 1, 4, 4)).astype(np.float32) + y[:, None, None, None].astype(np.float32)
        clients.append((x, y))
    return Federation.from_clients(clients, name="images", outputs=classes)
