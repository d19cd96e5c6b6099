"""FedBABU: a body trained against a fixed random head, then fine-tuning at each client."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Update, register
from manyheads.core.fields import BatchSize, Epochs, Steps
from manyheads.core.optim import SGD, FineTune
from manyheads.core.server import Server
from manyheads.core.settings import as_dict, settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["FedBABU"]


@register
@settings
class FedBABU(Algorithm):
    """Body aggregation, body update: all clients train the body against one and the same random head, never trained.

    ``phi_i <- SGD(f_i(h, .), phi)``, ``phi <- sum_i p_i phi_i``, h as it was drawn. For its predictions a client
    fine-tunes head and body, or the head alone, on its own samples.

    >>> from manyheads import FedBABU, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(FedBABU(), "mlp", federation, rounds=1).rounds
    1

    Reference: Oh, Kim, Yun, FedBABU: Toward Enhanced Representation for Federated Image Classification, ICLR 2022,
    Algorithm 1.
    """

    name: ClassVar[str] = "fedbabu"
    paper: ClassVar[str] = "Oh et al. 2022"
    travels: ClassVar[str] = "the body"
    stays: ClassVar[str] = "the head, which only fine-tuning at test time changes"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "local")
    averaged: ClassVar[tuple[str, ...]] = ("body",)

    epochs: Epochs = 1
    steps: Steps = 0
    batch: BatchSize = 10
    sgd: SGD = SGD()
    tune: Literal["none", "head", "all", "lp-ft"] = "all"
    """what a client fine-tunes for its predictions"""
    tune_epochs: Annotated[int, Field(ge=1)] = 5
    """epochs of that fine-tuning, with the batches and the optimizer of training"""
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        return State(body=params.body)

    def init_client(self, params: Params) -> State:
        return State(head=params.head)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        body = cohort.sgd(
            server.body, given=client.head, opt=self.sgd, batch=self.batch, epochs=self.epochs, steps=self.steps
        )
        return Update(State(body=body), client, model=body | client.head)

    def personal_model(self, server: State, client: State) -> Tree:
        return server.body | client.head

    def adaptation(self) -> FineTune:
        return FineTune(scope=self.tune, epochs=self.tune_epochs, batch=self.batch, **as_dict(self.sgd))
