"""MR-MTL: a model for each client, held near the mean of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Update, register
from manyheads.core.fields import BatchSize, Epochs, Steps, Strength
from manyheads.core.optim import SGD
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["MRMTL"]


@register
@settings
class MRMTL(Algorithm):
    """Mean-regularized multi-task learning: ``min 1/N sum_i f_i(w_i) + lam/2 |w_i - mean w|^2``.

    ``w_i <- w_i - lr (grad f_i(w_i) + lam (w_i - m))``, m the mean of the clients' models as it was sent;
    ``m <- mean w_i``. With lam 0 every client trains alone; the larger lam, the nearer all are to one model.

    >>> from manyheads import MRMTL, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(MRMTL(lam=0.1), "mlp", federation, rounds=1).rounds
    1

    Reference: Evgeniou, Pontil, Regularized Multi-Task Learning, KDD 2004; in federations: Liu, Hu, Wu, Smith, On
    Privacy and Personalization in Cross-Silo Federated Learning, NeurIPS 2022, Algorithm A1 without its noise.
    """

    name: ClassVar[str] = "mr-mtl"
    paper: ClassVar[str] = "Liu et al. 2022"
    travels: ClassVar[str] = "the client's model up, the mean of all down"
    stays: ClassVar[str] = "a whole model, which the server receives too"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "global", "local")
    weighting: ClassVar[Literal["samples", "equal"]] = "equal"
    knobs: ClassVar[Mapping[str, tuple[Any, ...]]] = {"lam": (0.01, 0.1, 1.0, 10.0)}

    epochs: Epochs = 1
    steps: Steps = 0
    batch: BatchSize = 10
    sgd: SGD = SGD()
    lam: Strength = 0.1

    def init_server(self, params: Params, population: int) -> State:
        return State(mean=params.all)

    def init_client(self, params: Params) -> State:
        return State(model=params.all)

    def newcomer(self, params: Params, server: State) -> State:
        return State(model=server.mean)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        near = (self.lam, server.mean)
        model = cohort.sgd(
            client.model, prox=near, opt=self.sgd, batch=self.batch, epochs=self.epochs, steps=self.steps
        )
        return Update(State(mean=model), State(model=model), model=model)

    def global_model(self, server: State) -> Tree:
        return server.mean

    def personal_model(self, server: State, client: State) -> Tree:
        return client.model
