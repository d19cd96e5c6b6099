"""L2GD: personal models drawn to their mean, at random times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Round, Update, Uploads, register
from manyheads.core.fields import BatchSize, Strength
from manyheads.core.optim import SGD
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["L2GD"]


@register
@settings
class L2GD(Algorithm):
    """Loopless local gradient descent on ``1/n sum_i f_i(x_i) + lam/(2n) sum_i |x_i - mean x|^2``.

    A round is one iteration. With probability 1 - p, every client makes a local step of ``eta / (n (1 - p))``; else it
    moves to the mean by ``eta lam / (n p)``. All throw the same coin. Only when a step is followed by a move must the
    mean be found anew, and only then does anything travel.

    >>> from manyheads import L2GD, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(L2GD(), "mlp", federation, rounds=1).rounds
    1

    Reference: Hanzely, Richtarik, Federated Learning of a Mixture of Global and Local Models, 2020, Algorithm 1.
    """

    name: ClassVar[str] = "l2gd"
    paper: ClassVar[str] = "Hanzely and Richtarik 2020"
    travels: ClassVar[str] = "the clients' models up and their mean down, when the coin changes to a move"
    stays: ClassVar[str] = "a whole model"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "global", "local")
    weighting: ClassVar[Literal["samples", "equal"]] = "equal"
    knobs: ClassVar[Mapping[str, tuple[Any, ...]]] = {"lam": (0.05, 0.5, 5.0)}

    eta: Annotated[float, Field(gt=0)] = 1.0
    """step size (alpha in the paper)"""
    lam: Strength = 0.5
    p: Annotated[float, Field(gt=0, lt=1)] = 0.9
    """probability of a move to the mean"""
    batch: BatchSize = 10
    epochs: Annotated[int, Field(ge=0)] = 0
    """if not 0, epochs in place of the one local step, as in the code of Collins et al. 2021"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """of the steps of these epochs"""

    def everyone(self, round: int) -> bool:
        return True

    def init_server(self, params: Params, population: int) -> State:
        return State(mean=params.all)

    def init_client(self, params: Params) -> State:
        return State(model=params.all, mean=params.all)

    def newcomer(self, params: Params, server: State) -> State:
        return State(model=server.mean, mean=server.mean)

    def changes(self, round: Round, later: int = 0) -> bool:
        """Whether that round moves to a mean that the round before it has changed."""
        return round.index + later > 1 and round.coin(self.p, later) and not round.coin(self.p, later - 1)

    def download(self, server: State, round: Round) -> State:
        return server if self.changes(round) else State()

    def expects(self, server: State, round: Round) -> State:
        return server if self.changes(round, later=1) else State()

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        round = cohort.round
        mean = cohort.each(server.mean) if self.changes(round) else client.mean
        if round.coin(self.p):
            model = client.model - (self.eta * self.lam / (round.population * self.p)) * (client.model - mean)
        else:
            lr = self.eta / (round.population * (1 - self.p))
            opt, steps = SGD(lr=lr, momentum=self.momentum), 0 if self.epochs else 1
            model = cohort.sgd(client.model, opt=opt, batch=self.batch, epochs=self.epochs, steps=steps)
        upload = State(mean=model) if self.changes(round, later=1) else State()
        return Update(upload, State(model=model, mean=mean), model=model)

    def merge(self, server: State, uploads: Uploads, round: Round) -> State:
        return uploads.mean() if self.changes(round, later=1) else server

    def global_model(self, server: State) -> Tree:
        return server.mean

    def personal_model(self, server: State, client: State) -> Tree:
        return client.model

    def step_sizes(self, lr: float, population: int) -> dict[str, float]:
        return {"eta": lr * population * (1 - self.p)}
