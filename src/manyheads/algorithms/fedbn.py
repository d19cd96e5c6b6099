"""FedBN: everything is shared but the norm layers, which stay with each client."""

from __future__ import annotations

from typing import ClassVar, Literal

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Update, register
from manyheads.core.errors import UserError
from manyheads.core.fields import BatchSize, Epochs, Steps
from manyheads.core.optim import SGD
from manyheads.core.server import Server
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["FedBN"]


@register
@settings
class FedBN(Algorithm):
    """FedAvg without the norm layers: each client keeps its own scales, shifts and running statistics.

    ``(w_i, b_i) <- SGD(f_i, (w, b_i))``, b_i the norm layers of client i, ``w <- mean w_i``.

    >>> from manyheads import FedBN, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> from manyheads.models import MLP
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(FedBN(), MLP(norm="batch"), federation, rounds=1).rounds
    1

    Reference: Li, Jiang, Zhang, Kamp, Dou, FedBN: Federated Learning on Non-IID Features via Local Batch Normalization,
    ICLR 2021, Algorithm 1.
    """

    name: ClassVar[str] = "fedbn"
    paper: ClassVar[str] = "Li et al. 2021, FedBN"
    travels: ClassVar[str] = "the model without its norm layers"
    stays: ClassVar[str] = "the norm layers with their running statistics"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "local")
    weighting: ClassVar[Literal["samples", "equal"]] = "equal"
    averaged: ClassVar[tuple[str, ...]] = ("shared",)

    epochs: Epochs = 1
    steps: Steps = 0
    batch: BatchSize = 10
    sgd: SGD = SGD()
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        if not params.norms:
            raise UserError(
                "fedbn keeps the norm layers at the clients, and this model has none",
                fix="use a model with norm layers, such as --model mlp --model.norm batch, or fedavg",
            )
        return State(shared=params.all.select(params.all.keys() - params.norms))

    def init_client(self, params: Params) -> State:
        return State(norms=params.all.select(params.norms))

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        both = server.shared | client.norms
        both = cohort.sgd(both, opt=self.sgd, batch=self.batch, epochs=self.epochs, steps=self.steps)
        return Update(State(shared=both.select(server.shared)), State(norms=both.select(client.norms)), model=both)

    def personal_model(self, server: State, client: State) -> Tree:
        return server.shared | client.norms
