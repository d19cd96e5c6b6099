"""Methods, models and data of a user's own, as files outside the package."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from manyheads.core.registry import is_ours
from manyheads.run.kinds import KINDS

OWN = '''
"""One of each kind."""

from typing import ClassVar

import numpy as np
from torch import nn

from manyheads import SGD, Algorithm, State, Update, settings
from manyheads.data import Federation
from manyheads.data.partitions.partitioners import Partition


@settings
class Mine(Algorithm):
    """FedAvg that goes only part of the way."""

    name: ClassVar[str] = "mine"
    paper: ClassVar[str] = "none yet"
    travels: ClassVar[str] = "the whole model"
    stays: ClassVar[str] = "nothing"
    models: ClassVar[tuple[str, ...]] = ("global",)

    part_way: float = 0.5
    """how far to go"""
    sgd: SGD = SGD()

    def init_server(self, params, population):
        return State(model=params.all)

    def local(self, cohort, server, client):
        return Update(State(model=cohort.sgd(server.model, opt=self.sgd, batch=10, epochs=1)))

    def merge(self, server, uploads, round):
        return State(model=server.model + self.part_way * (uploads.mean().model - server.model))

    def global_model(self, server):
        return server.model


@settings
class Net:
    """One hidden layer."""

    name: ClassVar[str] = "my-net"
    units: int = 6
    """of the hidden layer"""

    def build(self, shape, outputs):
        return nn.Sequential(nn.Linear(shape[0], self.units), nn.Tanh(), nn.Linear(self.units, outputs)), "2"


@settings
class Blobs:
    """Two clouds of points, turned differently at every client."""

    name: ClassVar[str] = "blobs"
    model: ClassVar[str] = "mlp"
    samples: int = 20
    """a client"""

    def federation(self, seed):
        rng = np.random.default_rng(seed)
        def client():
            y = rng.integers(2, size=self.samples)
            return rng.normal(size=(self.samples, 4)).astype("float32") + 3 * y[:, None].astype("float32"), y
        return Federation.from_clients([client() for _ in range(5)], name="blobs", seed=seed)


@settings
class Halves(Partition):
    """Half of every class to the first client, the rest to the others alike."""

    name: ClassVar[str] = "halves"
    first: float = 0.5

    def counts(self, clients, per_class, rng):
        share = np.full(clients, (1 - self.first) / (clients - 1))
        share[0] = self.first
        return np.floor(share[:, None] * per_class).astype(int)
'''


def write_files(page: str, folder: Path) -> dict[str, str]:
    """Write the files that a page shows: blocks of Python whose first line is their name."""
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    files = {found[1]: code for code in blocks if (found := re.match(r"# (\w+\.py)\n", code))}
    for name, code in files.items():
        (folder / name).write_text(code)
    return files


@contextmanager
def own_code(folder: Path, name: str = "own_things") -> Iterator[None]:
    """A module of that name with one of each kind in a folder; all that was imported is forgotten at the end."""
    (folder / f"{name}.py").write_text(OWN)
    path = list(sys.path)
    try:
        yield
    finally:
        forget(folder)
        sys.path[:] = path


def forget(folder: Path) -> None:
    """As in another process: nothing of the folder is imported, and only our own things are registered."""
    for known in KINDS.values():
        for name in [n for n, thing in known._known.items() if not is_ours(thing)]:
            del known._known[name]
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(folder)):
            del sys.modules[name]
