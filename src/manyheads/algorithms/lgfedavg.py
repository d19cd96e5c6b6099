"""LG-FedAvg: local representations, shared last layers."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Update, register
from manyheads.core.fields import BatchSize, Epochs, Steps
from manyheads.core.optim import SGD
from manyheads.core.server import Server
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["LGFedAvg"]


@register
@settings
class LGFedAvg(Algorithm):
    """The reverse of FedPer: every client keeps its own lower layers, the last ones are shared.

    ``(bottom_i, top_i) <- SGD(f_i, (bottom_i, top))``, ``top <- sum_i p_i top_i``.

    >>> from manyheads import LGFedAvg, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(LGFedAvg(), "mlp", federation, rounds=1).rounds
    1

    Reference: Liang, Liu, Ziyin, Allen, Auerbach, Brent, Salakhutdinov, Morency, Think Locally, Act Globally: Federated
    Learning with Local and Global Representations, 2020.
    """

    name: ClassVar[str] = "lg-fedavg"
    paper: ClassVar[str] = "Liang et al. 2020"
    travels: ClassVar[str] = "the last layers"
    stays: ClassVar[str] = "the layers below them"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "local")
    averaged: ClassVar[tuple[str, ...]] = ("top",)

    epochs: Epochs = 1
    steps: Steps = 0
    batch: BatchSize = 10
    sgd: SGD = SGD()
    shared_layers: Annotated[int, Field(ge=1)] = 2
    """how many of the last layers are shared"""
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        return State(top=params.all.last_layers(self.shared_layers))

    def init_client(self, params: Params) -> State:
        top = params.all.last_layers(self.shared_layers)
        return State(bottom=params.all.select(params.all.keys() - top.keys()))

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        both = client.bottom | server.top
        both = cohort.sgd(both, opt=self.sgd, batch=self.batch, epochs=self.epochs, steps=self.steps)
        return Update(State(top=both.select(server.top)), State(bottom=both.select(client.bottom)), model=both)

    def personal_model(self, server: State, client: State) -> Tree:
        return client.bottom | server.top
