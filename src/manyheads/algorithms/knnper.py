"""kNN-Per: FedAvg, and at test time each client's own training samples as neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Update, register
from manyheads.core.fields import BatchSize, Epochs, Neighbours, Scale, Steps, Weight
from manyheads.core.optim import SGD, FineTune
from manyheads.core.server import Server
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["KNNPer"]


@register
@settings
class KNNPer(Algorithm):
    """Personalization by local memorization: one model for all, and neighbours among the client's own samples.

    Training is FedAvg's. A client then remembers the features phi(x_j) and labels of its training samples, and predicts
    ``lam_i kNN(phi(x)) + (1 - lam_i) softmax(h(x))``, where kNN is the share of each class among the k nearest, weighted by
    ``exp(-|phi(x) - phi(x_j)|)``.

    >>> from manyheads import KNNPer, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(KNNPer(), "mlp", federation, rounds=1).rounds
    1

    Reference: Marfoq, Neglia, Kameni, Vidal, Personalized Federated Learning through Local Memorization, ICML 2022.
    """

    name: ClassVar[str] = "knn-per"
    paper: ClassVar[str] = "Marfoq et al. 2022"
    travels: ClassVar[str] = "the whole model"
    stays: ClassVar[str] = "features and labels of the training samples, which are remembered at test time"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "global", "local")
    averaged: ClassVar[tuple[str, ...]] = ("model",)
    knobs: ClassVar[Mapping[str, tuple[Any, ...]]] = {"neighbours": (3, 5, 10, 20), "scale": (0.1, 1.0, 10.0)}

    epochs: Epochs = 1
    steps: Steps = 0
    batch: BatchSize = 10
    sgd: SGD = SGD()
    neighbours: Neighbours = 10
    scale: Scale = 1.0
    weight: Weight = None
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        return State(model=params.all)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        model = cohort.sgd(server.model, opt=self.sgd, batch=self.batch, epochs=self.epochs, steps=self.steps)
        return Update(State(model=model), model=model)

    def global_model(self, server: State) -> Tree:
        return server.model

    def personal_model(self, server: State, client: State) -> Tree:
        return server.model

    def adaptation(self) -> FineTune:
        return FineTune(scope="knn", neighbours=self.neighbours, scale=self.scale, weight=self.weight)
