"""pFedMe: personal models at the Moreau envelope of each client's loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from manyheads.core.contract import Algorithm, Batch, Cohort, ModelKind, Update, register
from manyheads.core.fields import BatchSize
from manyheads.core.server import Server
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["PFedMe"]


@register
@settings
class PFedMe(Algorithm):
    """Minimise the mean of the clients' Moreau envelopes, ``F_i(w) = min_theta f_i(theta) + lam/2 |theta - w|^2``.

    R times, on a fresh batch D: theta by K steps of ``theta <- theta - lr (grad f_i(theta, D) + lam (theta - w_i))``,
    then ``w_i <- w_i - eta lam (w_i - theta)``, a gradient step on F_i. A client predicts with its theta.

    >>> from manyheads import PFedMe, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(PFedMe(steps=5), "mlp", federation, rounds=1).rounds
    1

    Reference: Dinh, Tran, Nguyen, Personalized Federated Learning with Moreau Envelopes, NeurIPS 2020, Algorithm 1.
    """

    name: ClassVar[str] = "pfedme"
    paper: ClassVar[str] = "Dinh et al. 2020, Algorithm 1"
    travels: ClassVar[str] = "the whole shared model"
    stays: ClassVar[str] = "a whole model"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "global", "local")
    weighting: ClassVar[Literal["samples", "equal"]] = "equal"
    averaged: ClassVar[tuple[str, ...]] = ("model",)
    knobs: ClassVar[Mapping[str, tuple[Any, ...]]] = {"lam": (3.0, 10.0, 15.0, 30.0)}

    lam: Annotated[float, Field(gt=0)] = 15.0
    """weight of the pull of the personal model to the shared one"""
    steps: Annotated[int, Field(ge=1)] = 20
    """local steps of the shared model a round, R"""
    inner_steps: Annotated[int, Field(ge=1)] = 5
    """steps of the personal model for each of them, K"""
    lr: Annotated[float, Field(gt=0)] = 0.01
    """step size of the personal model"""
    eta: Annotated[float, Field(gt=0)] = 0.005
    """step size of the shared model"""
    batch: BatchSize = 20
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        return State(model=params.all)

    def init_client(self, params: Params) -> State:
        return State(model=params.all)

    def newcomer(self, params: Params, server: State) -> State:
        return State(model=server.model)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        def step(state: State, D: Batch) -> State:
            w, theta = state.w, state.theta
            for _ in range(self.inner_steps):
                theta = theta - self.lr * (cohort.gradient(theta, on=D) + self.lam * (theta - w))
            return State(w=w - (self.eta * self.lam) * (w - theta), theta=theta)  # grad F_i(w) = lam (w - theta)

        start = cohort.each(server.model)
        end = cohort.scan(step, State(w=start, theta=start), batches=(self.batch,), steps=self.steps)
        return Update(State(model=end.w), State(model=end.theta), model=end.theta)

    def global_model(self, server: State) -> Tree:
        return server.model

    def personal_model(self, server: State, client: State) -> Tree:
        return client.model

    def step_sizes(self, lr: float, population: int) -> dict[str, float]:
        bounded = lr / (1 + self.lam * lr)  # about lr where that is small, and stable under the pull where it is not
        return {"lr": bounded, "eta": bounded}
