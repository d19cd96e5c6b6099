"""Local GD and Local SGD, as analysed on deep ReLU networks."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from manyheads.core.contract import Algorithm, Batch, Cohort, ModelKind, Update, register
from manyheads.core.fields import Rate
from manyheads.core.server import Server
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["LocalSGD"]


@register
@settings
class LocalSGD(Algorithm):
    """tau local steps of gradient descent (GD) or of single-sample stochastic gradients (SGD), then the plain mean.

    GD: ``W_i <- W_i - lr grad L_i(W_i)``. SGD: one sample drawn uniformly, ``G = n grad l(W_i; x, y)``,
    ``W_i <- W_i - lr G``. Then ``W <- 1/K sum_i W_i``. Parameters that need no gradient (the paper's V) stay as they are.

    >>> from manyheads import LocalSGD, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(LocalSGD(steps=2), "mlp", federation, rounds=1).rounds
    1

    Reference: Deng, Kamani, Mahdavi, Local SGD Optimizes Overparameterized Neural Networks in Polynomial Time, AISTATS
    2022, Algorithm 1.
    """

    name: ClassVar[str] = "local-sgd"
    paper: ClassVar[str] = "Deng et al. 2022, Algorithm 1"
    travels: ClassVar[str] = "the trained parameters"
    stays: ClassVar[str] = "nothing"
    models: ClassVar[tuple[ModelKind, ...]] = ("global", "local")
    weighting: ClassVar[Literal["samples", "equal"]] = "equal"
    averaged: ClassVar[tuple[str, ...]] = ("model",)

    gradient: Literal["full", "single"] = "full"
    """full: Local GD; single: Local SGD, one sample a step"""
    steps: Annotated[int, Field(ge=1)] = 10
    """local steps between synchronizations, tau"""
    lr: Rate = 0.01
    scale_by_n: bool = True
    """single: multiply a sample's gradient by the client's number of samples, as the paper's Algorithm 1 does"""
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        return State(model=params.all)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        scaled = self.gradient == "single" and self.scale_by_n

        def step(state: State, batch: Batch) -> State:
            slope = cohort.gradient(state.w, on=batch)
            return State(w=state.w - (slope * (self.lr * state.n) if scaled else self.lr * slope), n=state.n)

        start = State(w=cohort.each(server.model), n=cohort.samples)
        end = cohort.scan(step, start, batches=(1 if self.gradient == "single" else 0,), steps=self.steps)
        return Update(State(model=end.w), model=end.w)

    def global_model(self, server: State) -> Tree:
        return server.model

    def step_sizes(self, lr: float, population: int) -> dict[str, float]:
        return {"lr": lr}
