"""Local-only training: what a client can do alone."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Round, Update, Uploads, register
from manyheads.core.optim import SGD
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
    everyone: ClassVar[bool] = True

    epochs: Annotated[int, Field(ge=1)] = 1
    """epochs a round"""
    steps: Annotated[int, Field(ge=0)] = 0
    """steps a round; if not 0, instead of epochs"""
    batch: Annotated[int, Field(ge=0)] = 10
    """samples a step; 0: all the client has"""
    sgd: SGD = SGD()
    """the optimizer"""

    def init_server(self, params: Params) -> State:
        return State()

    def init_client(self, params: Params) -> State:
        return State(model=params.all)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        model = cohort.sgd(client.model, opt=self.sgd, batch=self.batch, epochs=self.epochs, steps=self.steps)
        return Update(State(), State(model=model), model=model)

    def merge(self, server: State, uploads: Uploads, round: Round) -> State:
        return server

    def personal_model(self, server: State, client: State) -> Tree:
        return client.model
