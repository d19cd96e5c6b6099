"""The same round of FedAvg or FedRep in PFLlib: ``python benchmarks/pfllib_peer.py CHECKOUT WORKLOAD [THREADS]``.

PFLlib is on no package registry: it is run from a checkout, in one process with torch's default number of threads unless
it is given. Its servers and clients train, send and average as they do in its own ``train``; three things are ours, so that
it does the same work: the data are in memory instead of being read from a file in every round, the last batch of an epoch
is not dropped, and the optimizers have the workload's momentum, which they keep from round to round. Nothing is evaluated.
Packages that it needs for files and metrics have stand-ins where they are not installed.
Answers like child.py: for every line on its standard input, the seconds of one round.
"""
# ruff: noqa: E402

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from absent import stand_in

stand_in("sklearn", "preprocessing", "metrics")
stand_in("h5py")

import torch
from plain import Plain
from torch import Tensor, nn
from torch.optim import SGD
from torch.utils.data import DataLoader
from workloads import WORKLOADS

from manyheads import FedAvg

ALWAYS = 10**9


class Split(nn.Module):
    """A network as PFLlib wants it for methods with personal heads."""

    def __init__(self, base: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.base, self.head = base, head

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.base(x))
        return out


class Settings(SimpleNamespace):
    """Those of its command line that matter here; all others, whatever the version has, are off."""

    def __getattr__(self, name: str) -> int:
        return 0


def timed(kind: Any, answers: Any) -> Any:
    """A server of this kind whose round begins when a line arrives."""

    class Timed(kind):  # type: ignore[misc]
        def select_clients(self) -> Any:
            if not sys.stdin.readline():
                raise SystemExit
            self.began = time.perf_counter()
            return super().select_clients()

        def aggregate_parameters(self) -> None:
            super().aggregate_parameters()
            print(time.perf_counter() - self.began, file=answers, flush=True)

        def evaluate(self, *arguments: Any, **named: Any) -> None:
            """Not timed."""

    return Timed


def server_of(checkout: str, name: str, answers: Any) -> Any:
    """The workload as PFLlib's own objects."""
    sys.path.insert(0, str(Path(checkout) / "system"))
    loop = Plain(WORKLOADS[name])
    a, average = loop.a, isinstance(loop.a, FedAvg)
    module = import_module(f"flcore.servers.{'serveravg' if average else 'serverrep'}")
    base, client = (import_module(f"flcore.{name}") for name in ("servers.serverbase", "clients.clientbase"))
    data = [list(zip(*d.tensors, strict=True)) for d in loop.train]
    for reader in (base, client):
        vars(reader)["read_client_data"] = lambda dataset, i, *rest, **named: data[i]
    vars(client)["DataLoader"] = lambda samples, batch, **named: DataLoader(samples, batch, shuffle=True)
    *body, head = loop.net.children()
    settings = Settings(
        algorithm=type(a).__name__,
        model=loop.net if average else Split(nn.Sequential(*body), head),
        device="cpu",
        num_classes=10,
        num_clients=len(data),
        join_ratio=1.0,
        global_rounds=ALWAYS,
        eval_gap=ALWAYS,
        time_threthold=ALWAYS,
        batch_size=a.batch,
        local_learning_rate=a.sgd.lr,
        learning_rate_decay_gamma=1.0,
        local_epochs=a.epochs if average else a.body_epochs,
        plocal_epochs=0 if average else a.head_epochs,
    )
    federation = timed(module.FedAvg if average else module.FedRep, answers)(settings, 0)
    for c in federation.clients:
        for optimizer in ("optimizer",) if average else ("optimizer", "optimizer_per"):
            groups = getattr(c, optimizer).param_groups
            setattr(c, optimizer, SGD(groups[0]["params"], lr=a.sgd.lr, momentum=a.sgd.momentum))
    return federation


def main(checkout: str, name: str, threads: str = "") -> None:
    if threads:
        torch.set_num_threads(int(threads))
    answers, sys.stdout = sys.stdout, sys.stderr  # its words about every round
    server_of(checkout, name, answers).train()


if __name__ == "__main__":
    main(*sys.argv[1:])
