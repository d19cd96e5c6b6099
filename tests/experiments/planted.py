"""Federations whose answer is known."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from manyheads import Federation, Model

DIM, RANK, CLASSES, FEW, PLENTY, TEST = 30, 3, 4, 40, 800, 300
NAMES = (*(f"alike {i}" for i in range(10)), "unlike 0", "unlike 1", "plenty")


def planted(seed: int, few: int = FEW, plenty: int = PLENTY, test: int = TEST) -> Federation:
    """Ten sites share a representation, two have one of their own, one that shares it has plenty of data.

    Without ``test`` samples of their own, the sites' samples can be divided into folds.
    """
    rng = np.random.default_rng(seed)
    bodies = [np.linalg.qr(rng.normal(size=(DIM, RANK)))[0] for _ in range(3)]
    clients = []
    for name in NAMES:
        body = bodies[1 + int(name[-1])] if name.startswith("unlike") else bodies[0]
        head = rng.normal(size=(RANK, CLASSES))
        x = rng.normal(size=((plenty if name == "plenty" else few) + test, DIM)).astype(np.float32)
        clients.append((x, (x @ body @ head).argmax(axis=1)))
    more = {"name": "planted", "outputs": CLASSES, "client_names": NAMES}
    if not test:
        return Federation.from_clients(clients, **more)
    own = [(x[-test:], y[-test:]) for x, y in clients]
    return Federation.from_clients([(x[:-test], y[:-test]) for x, y in clients], test=own, **more)


def noise(seed: int, sites: int = 8, samples: int = 60) -> Federation:
    """Labels that nothing explains."""
    rng = np.random.default_rng(seed)
    clients = [(rng.normal(size=(samples, 10)).astype(np.float32), rng.integers(0, 3, samples)) for _ in range(sites)]
    return Federation.from_clients(clients, name="noise", outputs=3)


def strangers(seed: int, sites: int = 10, samples: int = 80) -> Federation:
    """Each site has a representation and a head of its own: what one learns tells the others nothing."""
    rng, clients = np.random.default_rng(seed), []
    for _ in range(sites):
        x = rng.normal(size=(samples, DIM)).astype(np.float32)
        clients.append(
            (x, (x @ np.linalg.qr(rng.normal(size=(DIM, RANK)))[0] @ rng.normal(size=(RANK, CLASSES))).argmax(1))
        )
    return Federation.from_clients(clients, name="strangers", outputs=CLASSES)


def model(seed: int, dim: int = DIM, rank: int = RANK, classes: int = CLASSES) -> Model:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Model(nn.Sequential(nn.Linear(dim, rank, bias=False), nn.Linear(rank, classes)), head="1")
