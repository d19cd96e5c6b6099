"""One of FLamby's benchmarks: the same model trained at each site alone, on all samples together, and by federation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from manyheads.algorithms import Local
from manyheads.core.contract import Algorithm
from manyheads.core.optim import SGD
from manyheads.core.trees import Tree
from manyheads.data import Federation
from manyheads.engines.client_data import ClientData
from manyheads.engines.evaluation import predict
from manyheads.engines.workbench import tried_on
from manyheads.metrics import METRICS
from manyheads.models import Model
from manyheads.run import Run, simulate

__all__ = ["POOLED", "Benchmark"]

POOLED = "all"
"""in place of a site's name: the test samples of all sites as one"""


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

    def run(self, seed: int) -> Iterator[tuple[str, str, float]]:
        """The method, the test samples (of a site, or all), and the value of the metric.

        The seed gives the initial model that it gives FLamby; batches are drawn in another order than there.
        """
        own = self._trained(self._alone, self.apart, 1, seed)
        for index in range(len(self.apart)):
            site = self.apart.client_name(index)
            yield "local", site, self._at(self.apart, own.client_model(index))[site]
        for method in ("pooled", *self.methods):
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
