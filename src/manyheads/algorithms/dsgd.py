"""D-SGD: one gradient a round from every client."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Round, Update, Uploads, register
from manyheads.core.fields import BatchSize, Rate
from manyheads.core.optim import decays
from manyheads.core.server import Server
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["DSGD"]


@register
@settings
class DSGD(Algorithm):
    """Distributed SGD: every client sends the gradient of one batch at the shared model; FedAvg with tau = 1.

    ``w <- w - lr sum_i p_i grad f_i(w)``.

    >>> from manyheads import DSGD, simulate
    >>> from manyheads.data import Digits, Iid, federate
    >>> federation = federate(Digits().pool(seed=0), Iid(), clients=5, seed=0)
    >>> simulate(DSGD(lr=0.1), "mlp", federation, rounds=1).history[0]["round"]
    1

    Reference: the comparison of Collins et al., FedAvg with Fine Tuning, NeurIPS 2022, Section 2.
    """

    name: ClassVar[str] = "dsgd"
    paper: ClassVar[str] = "Collins et al. 2022 (the comparison)"
    travels: ClassVar[str] = "the whole model down, its gradient up"
    stays: ClassVar[str] = "nothing"
    models: ClassVar[tuple[ModelKind, ...]] = ("global",)
    pooled: ClassVar[bool] = True
    averaged: ClassVar[tuple[str, ...]] = ("model",)

    batch: BatchSize = 10
    lr: Rate = 0.01
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """weight decay; not applied to biases"""
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        return State(model=params.all)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        return Update(State(model=cohort.gradient(server.model, on=cohort.draw(self.batch))))

    def merge(self, server: State, uploads: Uploads, round: Round) -> State:
        gradient = uploads.mean().model
        if self.weight_decay:
            decayed = Tree({k: v * (self.weight_decay * decays(k)) for k, v in server.model.items()})
            gradient = gradient + decayed
        return State(model=server.model - self.lr * gradient)

    def global_model(self, server: State) -> Tree:
        return server.model

    def step_sizes(self, lr: float, population: int) -> dict[str, float]:
        return {"lr": lr}
