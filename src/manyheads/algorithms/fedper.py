"""FedPer: a shared body and a head for each client, trained together."""

from __future__ import annotations

from typing import ClassVar

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Update, register
from manyheads.core.fields import BatchSize, Epochs, Steps
from manyheads.core.optim import SGD
from manyheads.core.server import Server
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["FedPer"]


@register
@settings
class FedPer(Algorithm):
    """A shared body and personal heads as in FedRep, but body and head make the same steps together.

    ``(phi_i, h_i) <- SGD(f_i, (phi, h_i))``, ``phi <- sum_i p_i phi_i``.

    >>> from manyheads import FedPer, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(FedPer(), "mlp", federation, rounds=1).rounds
    1

    Reference: Arivazhagan, Aggarwal, Singh, Choudhary, Federated Learning with Personalization Layers, 2019.
    """

    name: ClassVar[str] = "fedper"
    paper: ClassVar[str] = "Arivazhagan et al. 2019"
    travels: ClassVar[str] = "the body"
    stays: ClassVar[str] = "the head"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "local")
    averaged: ClassVar[tuple[str, ...]] = ("body",)

    epochs: Epochs = 1
    steps: Steps = 0
    batch: BatchSize = 10
    sgd: SGD = SGD()
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        return State(body=params.body)

    def init_client(self, params: Params) -> State:
        return State(head=params.head)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        both = server.body | client.head
        both = cohort.sgd(both, opt=self.sgd, batch=self.batch, epochs=self.epochs, steps=self.steps)
        return Update(State(body=both.select(server.body)), State(head=both.select(client.head)), model=both)

    def personal_model(self, server: State, client: State) -> Tree:
        return server.body | client.head
