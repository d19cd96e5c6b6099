"""Ditto: a personal model beside the shared one, held near it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Update, register
from manyheads.core.fields import BatchSize, Epochs, Steps, Strength
from manyheads.core.optim import SGD
from manyheads.core.server import Server
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["Ditto"]


@register
@settings
class Ditto(Algorithm):
    """FedAvg, and beside it a model of each client's own that is pulled to the shared one.

    ``w_i <- SGD(f_i, w)``, ``w <- sum_i p_i w_i``; ``v_i <- v_i - lr (grad f_i(v_i) + lam (v_i - w))``, w as sent.

    >>> from manyheads import Ditto, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(Ditto(), "mlp", federation, rounds=1).rounds
    1

    Reference: Li, Hu, Beirami, Smith, Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021,
    Algorithm 1.
    """

    name: ClassVar[str] = "ditto"
    paper: ClassVar[str] = "Li et al. 2021"
    travels: ClassVar[str] = "the whole shared model"
    stays: ClassVar[str] = "a whole model"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "global", "local")
    knobs: ClassVar[Mapping[str, tuple[Any, ...]]] = {"lam": (0.1, 0.3, 1.0, 3.0)}
    averaged: ClassVar[tuple[str, ...]] = ("model",)

    epochs: Epochs = 1
    steps: Steps = 0
    batch: BatchSize = 10
    sgd: SGD = SGD()
    lam: Strength = 1.0
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        return State(model=params.all)

    def init_client(self, params: Params) -> State:
        return State(model=params.all)

    def newcomer(self, params: Params, server: State) -> State:
        return State(model=server.model)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        w = cohort.sgd(server.model, opt=self.sgd, batch=self.batch, epochs=self.epochs, steps=self.steps)
        near = (self.lam, server.model)
        v = cohort.sgd(client.model, prox=near, opt=self.sgd, batch=self.batch, epochs=self.epochs, steps=self.steps)
        return Update(State(model=w), State(model=v), model=v)

    def global_model(self, server: State) -> Tree:
        return server.model

    def personal_model(self, server: State, client: State) -> Tree:
        return client.model
