"""Local-only training: what a client can do alone."""

from __future__ import annotations

from typing import ClassVar

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Round, Update, Uploads, register
from manyheads.core.fields import BatchSize, Epochs, Steps
from manyheads.core.optim import SGD, OptimizerName, optimizer_named
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["Local"]


@register
@settings
class Local(Algorithm):
    """Every client trains alone. Nothing travels, so all of them train in every round, whatever the participation.

    ``w_i <- SGD(f_i, w_i)``.

    >>> from manyheads import Local, simulate
    >>> from manyheads.data import Digits, Iid, federate
    >>> federation = federate(Digits().pool(seed=0), Iid(), clients=5, seed=0)
    >>> run = simulate(Local(), "mlp", federation, rounds=1, participation=0.2)
    >>> run.history[0]["clients"], run.history[0]["bytes_up"]
    (5, 0)

    Reference: the baseline "Local" of Collins et al. 2021, Table 1.
    """

    name: ClassVar[str] = "local"
    paper: ClassVar[str] = "baseline of Collins et al. 2021"
    travels: ClassVar[str] = "nothing"
    stays: ClassVar[str] = "the whole model"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "local")
    alone: ClassVar[bool] = True

    epochs: Epochs = 1
    steps: Steps = 0
    batch: BatchSize = 10
    sgd: SGD = SGD()
    optimizer: OptimizerName = "sgd"
    """of every local update; others than sgd start anew in each, with its step size and weight decay"""

    def everyone(self, round: int) -> bool:
        return True

    def init_server(self, params: Params, population: int) -> State:
        return State()

    def init_client(self, params: Params) -> State:
        return State(model=params.all)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        opt = optimizer_named(self.optimizer, self.sgd)
        model = cohort.sgd(client.model, opt=opt, batch=self.batch, epochs=self.epochs, steps=self.steps)
        return Update(State(), State(model=model), model=model)

    def merge(self, server: State, uploads: Uploads, round: Round) -> State:
        return server

    def personal_model(self, server: State, client: State) -> Tree:
        return client.model
