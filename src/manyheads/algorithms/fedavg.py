"""FedAvg: local SGD on the whole model, then average."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Update, register
from manyheads.core.optim import SGD
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["FedAvg"]


@register
@settings
class FedAvg(Algorithm):
    """Federated averaging: tau local steps (or E epochs) of SGD at every client, then the mean of their models.

    ``w_i <- SGD(f_i, w)``, ``w <- sum_i p_i w_i``.

    >>> from manyheads import FedAvg, simulate
    >>> from manyheads.data import Digits, Iid, federate
    >>> federation = federate(Digits().pool(seed=0), Iid(), clients=5, seed=0)
    >>> simulate(FedAvg(epochs=1), "mlp", federation, rounds=1).history[0]["round"]
    1

    Reference: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017;
    as a learner of representations: Collins et al., FedAvg with Fine Tuning, NeurIPS 2022.
    """

    name: ClassVar[str] = "fedavg"
    paper: ClassVar[str] = "McMahan et al. 2017; Collins et al. 2022"
    travels: ClassVar[str] = "the whole model"
    stays: ClassVar[str] = "nothing"
    models: ClassVar[tuple[ModelKind, ...]] = ("global", "local")

    epochs: Annotated[int, Field(ge=1)] = 1
    """local epochs a round, E"""
    steps: Annotated[int, Field(ge=0)] = 0
    """local steps a round, tau; if not 0, instead of epochs"""
    batch: Annotated[int, Field(ge=0)] = 10
    """samples a step; 0: all the client has"""
    sgd: SGD = SGD()
    """the local optimizer"""

    def init_server(self, params: Params) -> State:
        return State(model=params.all)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        model = cohort.sgd(server.model, opt=self.sgd, batch=self.batch, epochs=self.epochs, steps=self.steps)
        return Update(State(model=model), model=model)

    def global_model(self, server: State) -> Tree:
        return server.model
