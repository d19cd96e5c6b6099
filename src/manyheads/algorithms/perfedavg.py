"""Per-FedAvg: an initial model that is good after one local gradient step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from manyheads.core.contract import Algorithm, Batch, Cohort, ModelKind, Round, Update, register
from manyheads.core.optim import FineTune
from manyheads.core.server import Server
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["PerFedAvg"]


@register
@settings
class PerFedAvg(Algorithm):
    """Federated MAML: minimise ``F(w) = mean_i f_i(w - alpha grad f_i(w))``, the loss after each client's own step.

    tau times, on independent batches D, D', D'': ``w~ = w - alpha grad f_i(w, D)``, then
    ``w <- w - beta (I - alpha H_i(w, D'')) grad f_i(w~, D')``. ``exact`` multiplies by the Hessian without forming it,
    ``hf`` takes ``H v = (grad f_i(w + delta v) - grad f_i(w - delta v)) / (2 delta)`` on D'', ``fo`` leaves H out.

    >>> from manyheads import PerFedAvg, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(PerFedAvg(), "mlp", federation, rounds=1).rounds
    1

    Reference: Fallah, Mokhtari, Ozdaglar, Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic
    Meta-Learning Approach, NeurIPS 2020, Algorithm 1, Appendix G.
    """

    name: ClassVar[str] = "perfedavg"
    paper: ClassVar[str] = "Fallah et al. 2020, Algorithm 1"
    travels: ClassVar[str] = "the whole model"
    stays: ClassVar[str] = "nothing; each client adapts the model by a step of its own"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "global", "local")
    weighting: ClassVar[Literal["samples", "equal"]] = "equal"
    knobs: ClassVar[Mapping[str, tuple[Any, ...]]] = {"alpha": (0.003, 0.01, 0.03, 0.1)}
    averaged: ClassVar[tuple[str, ...]] = ("model",)

    variant: Literal["exact", "fo", "hf"] = "exact"
    """exact Hessian-vector product, first-order, or Hessian-free"""
    alpha: Annotated[float, Field(ge=0)] = 0.01
    """inner step size, also of the step at test time"""
    beta: Annotated[float, Field(gt=0)] = 0.001
    """outer step size"""
    steps: Annotated[int, Field(ge=0)] = 10
    """local steps a round, tau"""
    epochs: Annotated[int, Field(ge=0)] = 0
    """local epochs of the batches D; used if steps is 0"""
    batch: Annotated[int, Field(ge=0)] = 50
    """size of D, of the inner step; 0: all the client has"""
    outer_batch: Annotated[int, Field(ge=0)] = 50
    """size of D', of the outer gradient"""
    hessian_batch: Annotated[int, Field(ge=0)] = 50
    """size of D'', of the Hessian"""
    inner_steps: Annotated[int, Field(ge=1)] = 1
    """inner steps; the paper has one"""
    delta: Annotated[float, Field(gt=0)] = 1e-3
    """distance of the gradient difference, of hf"""
    test_steps: Annotated[int, Field(ge=0)] = 1
    """gradient steps a client takes at test time, on all its training samples"""
    random_iterate: bool = False
    """also send the model at a random local step (Remark 4.6); the server keeps the mean as ``iterate``"""
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        return State(model=params.all, **({"iterate": params.all} if self.random_iterate else {}))

    def download(self, server: State, round: Round) -> State:
        return State(model=server.model)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        def step(state: State, D: Batch, D1: Batch, D2: Batch) -> State:
            w = state.w - self.beta * self.direction(cohort, state.w, D, D1, D2)
            if not self.random_iterate:
                return State(w=w)
            now = (state.t == state.chosen).to(state.t.dtype)
            return State(
                w=w, iterate=state.iterate + (state.w - state.iterate) * now, t=state.t + 1, chosen=state.chosen
            )

        start = State(w=cohort.each(server.model))
        if self.random_iterate:  # t_k is uniform on {0, ..., tau - 1} and the same for all that make as many steps
            steps = cohort.steps(batch=self.batch, epochs=self.epochs, steps=self.steps)
            chosen = (cohort.round.uniform() * steps).floor()
            start = start | State(iterate=start.w, t=0.0 * chosen, chosen=chosen)
        sizes = (self.batch, self.outer_batch, self.hessian_batch)
        end = cohort.scan(step, start, batches=sizes, steps=self.steps, epochs=self.epochs)
        upload = State(model=end.w, iterate=end.iterate) if self.random_iterate else State(model=end.w)
        return Update(upload, model=end.w)

    def direction(self, cohort: Cohort, w: Tree, D: Batch, D1: Batch, D2: Batch) -> Tree:
        """The stochastic gradient of ``F_i`` at w, equation (9), (23) or (118)."""
        path = [w]
        for _ in range(self.inner_steps):
            path.append(path[-1] - self.alpha * cohort.gradient(path[-1], on=D))
        v = cohort.gradient(path[-1], on=D1)
        for point in reversed(path[:-1]) if self.variant != "fo" and self.alpha else ():
            v = v - self.alpha * self.hessian_times(cohort, point, v, D2)
        return v

    def hessian_times(self, cohort: Cohort, w: Tree, v: Tree, D2: Batch) -> Tree:
        if self.variant == "exact":
            return cohort.hvp(w, v, on=D2)
        ahead, behind = (cohort.gradient(w + s * v, on=D2) for s in (self.delta, -self.delta))
        return (0.5 / self.delta) * (ahead - behind)

    def global_model(self, server: State) -> Tree:
        return server.model

    def personal_model(self, server: State, client: State) -> Tree:
        return server.model

    def adaptation(self) -> FineTune:
        if not self.test_steps or not self.alpha:
            return FineTune()
        return FineTune(scope="all", steps=self.test_steps, batch=0, lr=self.alpha, momentum=0.0)

    def step_sizes(self, lr: float, population: int) -> dict[str, float]:
        return {"alpha": lr, "beta": lr}

    def scheduled(self) -> Iterable[str]:
        return ("beta",)  # alpha is part of what is minimised
