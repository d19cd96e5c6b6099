"""SCAFFOLD: control variates against client drift."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Round, Update, Uploads, register
from manyheads.core.fields import BatchSize, Epochs, Rate, Steps
from manyheads.core.optim import SGD
from manyheads.core.server import Server, ServerOptimizer
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["Scaffold"]


@register
@settings
class Scaffold(Algorithm):
    """Local SGD corrected by control variates, so that clients with different data do not drift apart.

    ``y_i <- y_i - lr (grad f_i(y_i) + c - c_i)``; then ``c_i+ = grad f_i(x)`` (option I) or
    ``c_i+ = c_i - c + (x - y_i) / (K lr)`` (option II, K the number of local steps); at the server
    ``x <- x + server_lr mean(y_i - x)`` and ``c <- c + |S|/N mean(c_i+ - c_i)``.

    >>> from manyheads import Scaffold, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(Scaffold(), "mlp", federation, rounds=1).rounds
    1

    Reference: Karimireddy, Kale, Mohri, Reddi, Stich, Suresh, SCAFFOLD: Stochastic Controlled Averaging for Federated
    Learning, ICML 2020, Algorithm 1.
    """

    name: ClassVar[str] = "scaffold"
    paper: ClassVar[str] = "Karimireddy et al. 2020"
    travels: ClassVar[str] = "the whole model and a control variate of its size"
    stays: ClassVar[str] = "the client's own control variate"
    models: ClassVar[tuple[ModelKind, ...]] = ("global", "local")
    weighting: ClassVar[Literal["samples", "equal"]] = "equal"
    knobs: ClassVar[Mapping[str, tuple[Any, ...]]] = {"server_lr": (0.1, 0.3, 1.0)}
    averaged: ClassVar[tuple[str, ...]] = ("model",)

    epochs: Epochs = 1
    steps: Steps = 0
    batch: BatchSize = 10
    lr: Rate = 0.01
    server_lr: Annotated[float, Field(gt=0)] = 0.1
    """step size of the server; 1 takes the mean of the clients' models; short for a server of kind sgd without momentum"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """momentum of the local steps; the method has none, some implementations do"""
    option: Literal["I", "II"] = "II"
    """how a client renews its control variate: I by a full gradient, II by what its steps amounted to"""
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        return State(model=params.all, control=0.0 * params.all)

    def init_client(self, params: Params) -> State:
        return State(control=0.0 * params.all)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        opt = SGD(lr=self.lr, momentum=self.momentum)
        y = cohort.sgd(
            server.model,
            opt=opt,
            correction=server.control - client.control,
            batch=self.batch,
            epochs=self.epochs,
            steps=self.steps,
        )
        K = cohort.steps(batch=self.batch, epochs=self.epochs, steps=self.steps)
        if self.option == "I":
            control = cohort.gradient(server.model, on=cohort.draw(0))
        else:
            control = client.control - server.control + (server.model - y) * (1 / (self.lr * K.double()))
        change = State(model=y - server.model, control=control - client.control)
        return Update(change, State(control=control), model=y)

    def merge(self, server: State, uploads: Uploads, round: Round) -> State:
        mean, share = uploads.mean(), len(uploads.clients) / round.population
        return State(model=server.model + mean.model, control=server.control + share * mean.control)

    def change(self, server: State, merged: State, uploads: Uploads) -> State:
        return State(model=uploads.mean().model)

    @property
    def server_optimizer(self) -> ServerOptimizer:
        return self.server or ServerOptimizer(kind="sgd", lr=self.server_lr, momentum=0.0)

    def global_model(self, server: State) -> Tree:
        return server.model

    def step_sizes(self, lr: float, population: int) -> dict[str, float]:
        return {"lr": lr}
