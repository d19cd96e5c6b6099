"""ANIL: an initial model that is good after steps of its head alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field

from manyheads.core.contract import Algorithm, Batch, Cohort, ModelKind, Update, register
from manyheads.core.fields import BatchSize
from manyheads.core.optim import FineTune
from manyheads.core.server import Server
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["ANIL"]


@register
@settings
class ANIL(Algorithm):
    """Almost no inner loop: federated MAML whose inner steps train the head alone, and whose outer steps train all.

    tau times, on independent batches D, D': ``h~ = h - alpha grad_h f_i((phi, h), D)``, then
    ``w <- w - beta (I - alpha H_i(w, D) P) grad f_i((phi, h~), D')``, w = (phi, h), where P keeps the head's part of a
    vector; ``fo`` leaves H out.

    >>> from manyheads import ANIL, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(ANIL(), "mlp", federation, rounds=1).rounds
    1

    Reference: Raghu, Raghu, Bengio, Vinyals, Rapid Learning or Feature Reuse? Towards Understanding the Effectiveness
    of MAML, ICLR 2020, Section 4; with the rounds of Per-FedAvg (Fallah et al. 2020).
    """

    name: ClassVar[str] = "anil"
    paper: ClassVar[str] = "Raghu et al. 2020"
    travels: ClassVar[str] = "the whole model"
    stays: ClassVar[str] = "nothing; each client adapts the head by a step of its own"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "global", "local")
    weighting: ClassVar[Literal["samples", "equal"]] = "equal"
    averaged: ClassVar[tuple[str, ...]] = ("body", "head")
    knobs: ClassVar[Mapping[str, tuple[Any, ...]]] = {"alpha": (0.003, 0.01, 0.03, 0.1)}

    variant: Literal["exact", "fo"] = "exact"
    """exact Hessian-vector product, or first-order"""
    alpha: Annotated[float, Field(gt=0)] = 0.01
    """inner step size, of the head; also of the steps at test time"""
    beta: Annotated[float, Field(gt=0)] = 0.001
    """outer step size"""
    steps: Annotated[int, Field(ge=1)] = 10
    """local steps a round, tau"""
    inner_steps: Annotated[int, Field(ge=1)] = 1
    """inner steps"""
    batch: BatchSize = 50
    outer_batch: BatchSize = 50
    """size of D', of the outer gradient; 0: all the client has"""
    test_steps: Annotated[int, Field(ge=0)] = 1
    """gradient steps of the head that a client takes at test time, on all its training samples"""
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        return State(body=params.body, head=params.head)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        def step(state: State, D: Batch, D1: Batch) -> State:
            return State(w=state.w - self.beta * self.direction(cohort, state.w, server.head, D, D1))

        start = State(w=cohort.each(server.body | server.head))
        end = cohort.scan(step, start, batches=(self.batch, self.outer_batch), steps=self.steps).w
        return Update(State(body=end.select(server.body), head=end.select(server.head)), model=end)

    def direction(self, cohort: Cohort, w: Tree, head: Tree, D: Batch, D1: Batch) -> Tree:
        """The stochastic gradient at w of the loss after the head's steps."""
        path = [w]
        for _ in range(self.inner_steps):
            slope = cohort.gradient(path[-1], on=D).select(head)
            path.append(path[-1] | (path[-1].select(head) - self.alpha * slope))
        v = cohort.gradient(path[-1], on=D1)
        for point in reversed(path[:-1]) if self.variant == "exact" and head else ():
            inner = v.map(torch.zeros_like) | v.select(head)
            v = v - self.alpha * cohort.hvp(point, inner, on=D)
        return v

    def global_model(self, server: State) -> Tree:
        return server.body | server.head

    def personal_model(self, server: State, client: State) -> Tree:
        return server.body | server.head

    def adaptation(self) -> FineTune:
        if not self.test_steps:
            return FineTune()
        return FineTune(scope="head", steps=self.test_steps, batch=0, lr=self.alpha, momentum=0.0)

    def step_sizes(self, lr: float, population: int) -> dict[str, float]:
        return {"alpha": lr, "beta": lr}

    def scheduled(self) -> Iterable[str]:
        return ("beta",)  # alpha is part of what is minimised
