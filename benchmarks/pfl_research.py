"""The same FedAvg round in pfl-research: ``python benchmarks/pfl_research.py WORKLOAD``.

Runs in an environment of its own, with ``pfl`` beside manyheads (see docs/benchmarks.md), in one process with one thread:
its simulation uses more than one process only through Horovod. Batches are not shuffled, as is its default. Answers like
child.py: for every line on its standard input, the seconds of one round.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from itertools import cycle
from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from plain import Plain
from torch import Tensor, nn
from torch.nn import functional
from workloads import WORKLOADS


class Net(nn.Module):
    """The workload's network with the two methods that pfl asks for."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def loss(self, x: Tensor, y: Tensor, eval: bool = False) -> Tensor:
        return functional.cross_entropy(self.net(x), y)

    @torch.no_grad()
    def metrics(self, x: Tensor, y: Tensor, eval: bool = True) -> dict[str, Weighted]:
        return {"loss": Weighted(self.loss(x, y).item() * len(y), len(y))}


class Timed(TrainingProcessCallback):
    """A round begins when a line arrives."""

    def wait(self) -> None:
        if not sys.stdin.readline():
            raise SystemExit
        self.began = time.perf_counter()

    def on_train_begin(self, *, model: Any) -> Metrics:
        self.wait()
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        print(time.perf_counter() - self.began, flush=True)
        self.wait()
        return False, Metrics()


def main(name: str) -> None:
    torch.set_num_threads(1)
    loop = Plain(WORKLOADS[name])
    a, order = loop.a, cycle(range(len(loop.train)))
    data = FederatedDataset.from_slices({i: d.tensors for i, d in enumerate(loop.train)}, lambda: next(order))
    model = PyTorchModel(
        Net(loop.net), partial(torch.optim.SGD, momentum=a.sgd.momentum), torch.optim.SGD(loop.net.parameters(), lr=1.0)
    )
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=10**6,
            evaluation_frequency=10**6,
            train_cohort_size=len(loop.train),
            val_cohort_size=0,
        ),
        SimulatedBackend(training_data=data, val_data=None),
        model,
        NNTrainHyperParams(
            local_num_epochs=a.epochs, local_learning_rate=a.sgd.lr, local_batch_size=a.batch, local_max_grad_norm=None
        ),
        NNTrainHyperParams(local_num_epochs=0, local_learning_rate=0.0, local_batch_size=a.batch),
        callbacks=[Timed()],
        send_metrics_to_platform=False,
    )


if __name__ == "__main__":
    main(sys.argv[1])
