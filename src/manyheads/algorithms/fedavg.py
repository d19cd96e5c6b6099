"""FedAvg: local SGD on the whole model, then average."""

from __future__ import annotations

from typing import ClassVar

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Update, register
from manyheads.core.fields import BatchSize, Epochs, Steps
from manyheads.core.optim import SGD
from manyheads.core.server import Server
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["FedAvg"]


@register
@settings
class FedAvg(Algorithm):
    """Federated averaging: tau local steps (or E epochs) of SGD at every client, then the mean of their models.

    ``w_i <- SGD(f_i, w)``, ``w <- sum_i p_i w_i``.

    >>> from manyheads import FedAvg, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(FedAvg(), "mlp", federation, rounds=1).rounds
    1

    Reference: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017;
    as a learner of representations: Collins et al., FedAvg with Fine Tuning, NeurIPS 2022.
    """

    name: ClassVar[str] = "fedavg"
    paper: ClassVar[str] = "McMahan et al. 2017; Collins et al. 2022"
    travels: ClassVar[str] = "the whole model"
    stays: ClassVar[str] = "nothing"
    models: ClassVar[tuple[ModelKind, ...]] = ("global", "local")
    averaged: ClassVar[tuple[str, ...]] = ("model",)

    epochs: Epochs = 1
    steps: Steps = 0
    batch: BatchSize = 10
    sgd: SGD = SGD()
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        return State(model=params.all)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        model = cohort.sgd(server.model, opt=self.sgd, batch=self.batch, epochs=self.epochs, steps=self.steps)
        return Update(State(model=model), model=model)

    def global_model(self, server: State) -> Tree:
        return server.model
