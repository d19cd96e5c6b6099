"""The same round of FedAvg or FedRep in fluke: ``python benchmarks/fluke_peer.py WORKLOAD [THREADS]``.

Runs in an environment of its own, with ``fluke-fl`` beside manyheads (see docs/benchmarks.md): in one process with torch's
default number of threads unless it is given, models in memory and no evaluation of any kind. Batches come from its own loader, shuffled. Its
clients keep their optimizer, and so its momentum, from round to round, as is its default. It imports torchvision and
clearml for data sets, networks and logs that are not used here: where they are not installed, mocks stand in for them.
Answers like child.py: for every line on its standard input, the seconds of one round.
"""
# ruff: noqa: E402

from __future__ import annotations

import os
import sys
import time
from copy import deepcopy
from typing import Any

from absent import stand_in

stand_in("torchvision", "datasets", "datasets.utils", "models", "transforms")
stand_in("clearml")

import torch
from fluke import DDict, FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.algorithms.fedrep import FedRep, FedRepClient
from fluke.data import DataSplitter, DummyDataContainer, FastDataLoader
from fluke.nets import EncoderHeadNet
from fluke.utils import FederationObserver
from plain import Plain
from torch import nn
from workloads import WORKLOADS

from manyheads import FedAvg


class OwnModel(FedRepClient):
    """A client with a copy of the network: given a network and not its name, all clients would share it."""

    def __init__(self, *arguments: Any, model: nn.Module, **named: Any) -> None:
        super().__init__(*arguments, model=deepcopy(model), **named)


class Personal(FedRep):
    def get_client_class(self) -> type:
        return OwnModel


class Timed(FederationObserver):
    """A round begins when a line arrives."""

    def __init__(self, answers: Any) -> None:
        self.answers = answers

    def start_round(self, round: int, global_model: Any) -> None:
        if not sys.stdin.readline():
            os._exit(0)  # a run that ends would evaluate and finish all clients first
        self.began = time.perf_counter()

    def end_round(self, round: int) -> None:
        print(time.perf_counter() - self.began, file=self.answers, flush=True)


def federation(name: str) -> Any:
    """The workload as fluke's own objects."""
    loop = Plain(WORKLOADS[name])
    a, net, classes = loop.a, loop.net, 10
    data = [FastDataLoader(*d.tensors, num_labels=classes, batch_size=a.batch, shuffle=True) for d in loop.train]
    splitter = DataSplitter(DummyDataContainer(data, [None] * len(data), None, classes))
    client: dict[str, Any] = {
        "batch_size": a.batch,
        "loss": nn.CrossEntropyLoss,
        "optimizer": {"name": "SGD", "lr": a.sgd.lr, "momentum": a.sgd.momentum},
        "scheduler": {"name": "StepLR", "step_size": 1, "gamma": 1},
    }
    if isinstance(a, FedAvg):
        client |= {"local_epochs": a.epochs}
        return FedAVG(len(data), splitter, DDict(model=net, client=client, server={"weighted": True}))
    *body, head = net.children()
    split = EncoderHeadNet(nn.Sequential(*body), head)
    client |= {"local_epochs": a.head_epochs, "tau": a.body_epochs, "model": split}
    return Personal(len(data), splitter, DDict(model=split.encoder, client=client, server={"weighted": True}))


def main(name: str, threads: str = "") -> None:
    if threads:
        torch.set_num_threads(int(threads))
    answers, sys.stdout = sys.stdout, sys.stderr  # fluke's progress bars
    FlukeENV().set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
    algorithm = federation(name)
    algorithm.set_callbacks([Timed(answers)])
    algorithm.run(n_rounds=10**6, eligible_perc=1.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
