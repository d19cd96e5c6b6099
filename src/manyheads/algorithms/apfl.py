"""APFL: a mixture of a local and the shared model for each client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from manyheads.core.contract import Algorithm, Batch, Cohort, ModelKind, Update, register
from manyheads.core.fields import BatchSize, Epochs, Rate, Steps
from manyheads.core.server import Server
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["APFL"]


@register
@settings
class APFL(Algorithm):
    """Each client predicts with ``v-bar = a v + (1 - a) w``, a mixture of its own model v and the shared one, w.

    On every batch: ``w <- w - lr grad f_i(w)``, ``v <- v - lr a grad f_i(v-bar)`` and, if adaptive,
    ``a <- a - lr <v - w, grad f_i(v-bar)>``, kept in [0, 1]; ``w <- mean w_i`` at the server.

    >>> from manyheads import APFL, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(APFL(), "mlp", federation, rounds=1).rounds
    1

    Reference: Deng, Kamani, Mahdavi, Adaptive Personalized Federated Learning, 2020, Algorithm 1.
    """

    name: ClassVar[str] = "apfl"
    paper: ClassVar[str] = "Deng et al. 2020"
    travels: ClassVar[str] = "the whole shared model"
    stays: ClassVar[str] = "a whole model and the mixing weight"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "global", "local")
    weighting: ClassVar[Literal["samples", "equal"]] = "equal"
    knobs: ClassVar[Mapping[str, tuple[Any, ...]]] = {"alpha": (0.25, 0.5, 0.75, 0.9)}
    averaged: ClassVar[tuple[str, ...]] = ("model",)

    epochs: Epochs = 1
    steps: Steps = 0
    batch: BatchSize = 10
    lr: Rate = 0.01
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.75
    """weight of the client's own model, at first if adaptive"""
    adaptive: bool = False
    """let every client learn its alpha"""
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        return State(model=params.all)

    def init_client(self, params: Params) -> State:
        return State(model=params.all, alpha=self._alpha(params))

    def _alpha(self, params: Params) -> Tensor:
        return next(iter(params.all.values())).new_tensor(self.alpha)

    def newcomer(self, params: Params, server: State) -> State:
        return State(model=server.model, alpha=self._alpha(params))

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        def step(state: State, batch: Batch) -> State:
            w, v, a = state.w, state.v, state.a
            mixed = cohort.gradient(w.lerp(v, a), on=batch)
            if self.adaptive:
                a = (a - self.lr * (v - w).dot(mixed)).clamp(0, 1)
            return State(w=w - self.lr * cohort.gradient(w, on=batch), v=v - mixed * (self.lr * state.a), a=a)

        start = State(w=cohort.each(server.model), v=client.model, a=client.alpha)
        end = cohort.scan(step, start, batches=(self.batch,), epochs=self.epochs, steps=self.steps, independent=False)
        return Update(State(model=end.w), State(model=end.v, alpha=end.a), model=end.w.lerp(end.v, end.a))

    def global_model(self, server: State) -> Tree:
        return server.model

    def personal_model(self, server: State, client: State) -> Tree:
        return server.model.lerp(client.model, client.alpha)

    def step_sizes(self, lr: float, population: int) -> dict[str, float]:
        return {"lr": lr}
