"""Reptile: FedAvg as meta-learning, with a step of the server and steps of each client at test time."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Update, register
from manyheads.core.fields import BatchSize, Epochs, Steps
from manyheads.core.optim import SGD, FineTune
from manyheads.core.server import Server, ServerOptimizer
from manyheads.core.settings import as_dict, settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["Reptile"]


@register
@settings
class Reptile(Algorithm):
    """A start from which a few local steps go far: the server moves a part of the way to what the clients' steps reach.

    ``w_i <- SGD(f_i, w)``, ``w <- w + epsilon mean_i(w_i - w)``; a client predicts after ``test_steps`` of its own.
    With epsilon 1 the training is that of FedAvg with equal weights.

    >>> from manyheads import Reptile, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(Reptile(), "mlp", federation, rounds=1).rounds
    1

    Reference: Nichol, Achiam, Schulman, On First-Order Meta-Learning Algorithms, 2018, Algorithm 2; that FedAvg is an
    instance of it: Jiang, Konecny, Rush, Kannan, Improving Federated Learning Personalization via Model Agnostic Meta
    Learning, 2019.
    """

    name: ClassVar[str] = "reptile"
    paper: ClassVar[str] = "Nichol et al. 2018; Jiang et al. 2019"
    travels: ClassVar[str] = "the whole model"
    stays: ClassVar[str] = "nothing; each client adapts the model by steps of its own"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "global", "local")
    weighting: ClassVar[Literal["samples", "equal"]] = "equal"
    averaged: ClassVar[tuple[str, ...]] = ("model",)

    epochs: Epochs = 1
    steps: Steps = 0
    batch: BatchSize = 10
    sgd: SGD = SGD()
    test_steps: Annotated[int, Field(ge=0)] = 10
    """steps that a client makes at test time, with the batches and the optimizer of training"""
    server: Server = ServerOptimizer(kind="sgd", lr=0.5, momentum=0.0)

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
        if not self.test_steps:
            return FineTune()
        return FineTune(scope="all", steps=self.test_steps, batch=self.batch, **as_dict(self.sgd))
