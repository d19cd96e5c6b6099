"""FedProx: FedAvg whose clients are held near the shared model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Update, register
from manyheads.core.fields import BatchSize, Epochs, Steps, Strength
from manyheads.core.optim import SGD
from manyheads.core.server import Server
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["FedProx"]


@register
@settings
class FedProx(Algorithm):
    """FedAvg with a proximal term: clients minimise ``f_i(w) + mu/2 |w - w_t|^2``, w_t being the model they were sent.

    ``w_i <- w_i - lr (grad f_i(w_i) + mu (w_i - w_t))``, ``w <- sum_i p_i w_i``.

    >>> from manyheads import FedProx, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(FedProx(), "mlp", federation, rounds=1).rounds
    1

    Reference: Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, Federated Optimization in Heterogeneous Networks, MLSys 2020.
    """

    name: ClassVar[str] = "fedprox"
    paper: ClassVar[str] = "Li et al. 2020"
    travels: ClassVar[str] = "the whole model"
    stays: ClassVar[str] = "nothing"
    models: ClassVar[tuple[ModelKind, ...]] = ("global", "local")
    knobs: ClassVar[Mapping[str, tuple[Any, ...]]] = {"mu": (0.001, 0.01, 0.1, 1.0)}
    averaged: ClassVar[tuple[str, ...]] = ("model",)

    epochs: Epochs = 1
    steps: Steps = 0
    batch: BatchSize = 10
    sgd: SGD = SGD()
    mu: Strength = 0.1
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        return State(model=params.all)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        near = (self.mu, server.model)
        model = cohort.sgd(
            server.model, prox=near, opt=self.sgd, batch=self.batch, epochs=self.epochs, steps=self.steps
        )
        return Update(State(model=model), model=model)

    def global_model(self, server: State) -> Tree:
        return server.model
