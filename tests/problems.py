"""Small federations that several tests use."""

from __future__ import annotations

import numpy as np
from torch import nn

from manyheads import Federation
from manyheads.core.randomness import Purpose, torch_seeded


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
