"""One of FLamby's benchmarks: the same model trained at each site alone, on all samples together, and by federation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from manyheads.algorithms import FedAvg, Local
from manyheads.core.contract import Algorithm
from manyheads.core.optim import SGD
from manyheads.core.server import ServerOptimizer
from manyheads.core.trees import Tree
from manyheads.data import Federation
from manyheads.engines.client_data import ClientData
from manyheads.engines.evaluation import predict
from manyheads.engines.workbench import tried_on
from manyheads.metrics import METRICS
from manyheads.models import Model
from manyheads.run import Run, simulate

__all__ = ["POOLED", "Benchmark", "adaptive"]

POOLED = "all"
"""in place of a site's name: the test samples of all sites as one"""


def adaptive(kind: Literal["adam", "yogi", "adagrad"], lr: float, server_lr: float, batch: int) -> Algorithm:
    """FedAdam, FedYogi or FedAdagrad with 100 local updates, and what FLamby leaves the same for all of them."""
    server = ServerOptimizer(kind=kind, lr=server_lr, momentum=0.9, beta2=0.999, tau=1e-8)
    return FedAvg(sgd=SGD(lr=lr, momentum=0.0), batch=batch, steps=100, server=server)


@dataclass(frozen=True)
class Benchmark:
    """What FLamby trains and how, with its own settings."""

    name: str
    apart: Federation
    """the sites"""
    together: Federation
    """all samples at one site"""
    module: Callable[[], nn.Module]
    metric: str
    epochs: int
    """of training alone and together, which is by Adam"""
    batch: int
    lr: float
    """step size of Adam"""
    rounds: int
    methods: Mapping[str, Algorithm]
    """the federated methods"""

    def run(self, seed: int, but: Collection[str] = ()) -> Iterator[tuple[str, str, float]]:
        """The method, the test samples (of a site, or all), and the value of the metric; of all methods ``but`` some.

        The seed gives the initial model that it gives FLamby; batches are drawn in another order than there.
        """
        if "local" not in but:
            own = self._trained(self._alone, self.apart, 1, seed)
            for index in range(len(self.apart)):
                site = self.apart.client_name(index)
                yield "local", site, self._at(self.apart, own.client_model(index))[site]
        for method in ("pooled", *self.methods):
            if method not in but:
                for site, value in self.shared(method, seed).items():
                    yield method, site, value

    def shared(self, method: str, seed: int) -> dict[str, float]:
        """The values of the one model that a method trains for all sites; ``pooled`` trains it on all samples."""
        if method == "pooled":
            params = self._trained(self._alone, self.together, 1, seed).client_model(0)
        else:
            params = self._trained(self.methods[method], self.apart, self.rounds, seed).client_model(0)
        return self._at(self.apart, params) | self._at(self.together, params)

    @property
    def _alone(self) -> Algorithm:
        return Local(epochs=self.epochs, batch=self.batch, optimizer="adam", sgd=SGD(lr=self.lr))

    def _trained(self, method: Algorithm, federation: Federation, rounds: int, seed: int) -> Run:
        """FLamby weights sites by their training samples in every method."""
        return simulate(method, self._model(seed), federation, rounds=rounds, seed=seed, weighting="samples")

    def _model(self, seed: int) -> Model:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return Model(self.module(), head=())

    def _at(self, federation: Federation, params: Tree) -> dict[str, float]:
        """The metric of one model at every site, by its name."""
        tried = tried_on(self._model(0), federation)
        like = next(iter(params.values()))
        found = predict(tried, params, ClientData.of(federation.test, federation.task, like))
        values = METRICS.find(self.metric)().of_clients(found).values
        return {federation.client_name(i): float(value) for i, value in enumerate(values)}
