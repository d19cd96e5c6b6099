"""Fallah et al. 2020: what the theory of Per-FedAvg says of a run, and what the run does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from manyheads.algorithms import PerFedAvg
from manyheads.core.errors import UserError
from manyheads.core.randomness import Purpose, generator
from manyheads.core.round_end import RoundEnd
from manyheads.core.settings import settings
from manyheads.core.trees import State
from manyheads.data import Federation, Samples
from manyheads.models import MLP, Model, build_model
from manyheads.run import Evaluate, simulate
from manyheads.theory.facts import condition, within
from manyheads.theory.fallah2020.by_rounds import by_rounds, by_rounds_figure
from manyheads.theory.fallah2020.by_samples import by_samples, by_samples_figure
from manyheads.theory.fallah2020.drift import DRIFTS, drift
from manyheads.theory.fallah2020.meta import CORRECTED, gamma_F2, sigma_F2, smoothness_F
from manyheads.theory.fallah2020.similarity import similarity
from manyheads.theory.fallah2020.smoothness import Constants, estimate, known_for_softmax, view_at
from manyheads.theory.fallah2020.theorem import lemmas, theorem
from manyheads.theory.landscape import Landscape, points_of
from manyheads.theory.paper import Say, Sweep

if TYPE_CHECKING:
    import altair as alt

__all__ = ["Fallah2020"]


@settings
class Fallah2020:
    """Per-FedAvg: the constants of its assumptions, Lemmas 4.2 to 4.4, Theorem 4.5 and Appendix G on a live run.

    Clients draw their samples from one finite set of points, each with a preference for a part of it, so that the
    distances between their distributions are exact. Softmax regression has constants that are known for every w; of the
    networks they are estimated along the run, which gives lower bounds of them.

    Reference: Fallah, Mokhtari, Ozdaglar, Personalized Federated Learning: A Meta-Learning Approach, arXiv 2002.07948,
    whose bound has explicit constants.
    """

    name: ClassVar[str] = "fallah2020"
    title: ClassVar[str] = "Fallah et al. 2020: Per-FedAvg finds a stationary point of the meta-loss (Theorem 4.5)"
    sweeps: ClassVar[Mapping[str, Sweep]] = {
        "rounds": Sweep(
            "how many rounds eps needs: K tau of order 1 / eps^2, at a fixed beta", by_rounds, by_rounds_figure
        ),
        "samples": Sweep("gamma_G and gamma_H against the number of samples", by_samples, by_samples_figure),
    }

    model: Literal["softmax", "tanh", "elu"] = "softmax"
    """softmax regression (constants known), or a network with a hidden layer (constants estimated)"""
    hidden: Annotated[int, Field(ge=1)] = 4
    """hidden units of the network"""
    clients: Annotated[int, Field(ge=2)] = 6
    """number of clients, n"""
    samples: Annotated[int, Field(ge=2)] = 40
    """samples per client"""
    points: Annotated[int, Field(ge=2)] = 48
    """distinct samples that the clients draw from"""
    dim: Annotated[int, Field(ge=1)] = 5
    """input dimension; inputs have norm 1"""
    classes: Annotated[int, Field(ge=2)] = 3
    """number of classes"""
    heterogeneity: Annotated[float, Field(ge=0, le=1)] = 0.5
    """0: all clients draw from all points alike; 1: each from a part of its own, of similar labels"""
    alpha: Annotated[float, Field(ge=0)] = 0.3
    """inner step size"""
    beta: Annotated[float, Field(ge=0)] = 0.0
    """outer step size; 0: 1 / (10 tau L_F), the largest that Theorem 4.5 allows, or half of it for a network"""
    tau: Annotated[int, Field(ge=1)] = 5
    """local steps per round"""
    batch: Annotated[int, Field(ge=1)] = 10
    """size of each of the batches D, D' and D''"""
    variant: Literal["exact", "fo", "hf"] = "exact"
    """the method that is run; the errors of all three are measured"""
    delta: Annotated[float, Field(gt=0)] = 1e-3
    """distance of the gradient difference, of hf"""
    rounds: Annotated[int, Field(ge=3)] = 150
    """communication rounds, K"""
    participation: Annotated[float, Field(gt=0, le=1)] = 1.0
    """fraction of the clients in each round, r"""
    views: Annotated[int, Field(ge=2)] = 4
    """points of the run at which derivatives are measured"""
    draws: Annotated[int, Field(ge=2)] = 200
    """stochastic gradients drawn to measure their error, at the first and the last of these points"""
    seed: Annotated[int, Field(ge=0)] = 0
    """everything random comes from it"""

    def federation(self) -> Federation:
        """``p_i = (1 - h) uniform(all points) + h uniform(own points)``, sampled."""
        if self.points < self.clients:
            raise UserError(
                "fewer points than clients", where="points", given=self.points, allowed=f"{self.clients} or more"
            )
        rng = generator(self.seed, Purpose.DATA)
        x = rng.normal(size=(self.points, self.dim))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        y = (x @ rng.normal(size=(self.dim, self.classes)) + 0.3 * rng.gumbel(size=(self.points, self.classes))).argmax(
            1
        )
        train = []
        for client, own in enumerate(np.array_split(np.argsort(y, kind="stable"), self.clients)):
            mine = generator(self.seed, Purpose.DATA, client)
            rows = mine.integers(self.points, size=self.samples)
            prefer = mine.random(self.samples) < self.heterogeneity
            rows[prefer] = mine.choice(own, prefer.sum())
            train.append((x[rows], y[rows]))
        samples = Samples.of(train)
        return Federation("fallah2020", samples, samples, "classification", self.classes)

    def problem(self) -> tuple[Federation, Model]:
        """The clients, and the model at its start."""
        federation = self.federation()
        spec = MLP(hidden=()) if self.model == "softmax" else MLP(hidden=(self.hidden,), activation=self.model)
        return federation, build_model(spec, federation.sample_shape, federation.outputs, self.seed, "float64")

    def algorithm(self, beta: float) -> PerFedAvg:
        batch = min(self.batch, self.samples)
        return PerFedAvg(
            variant=self.variant, alpha=self.alpha, beta=beta, steps=self.tau, delta=self.delta, random_iterate=True,
            batch=batch, outer_batch=batch, hessian_batch=batch,
        )  # fmt: skip

    def run(self, say: Say) -> dict[str, Any]:
        """Train, then measure at some points of the run; the facts as plain values."""
        federation, model = self.problem()
        clients = Landscape(model, federation, self.seed)
        alone, shares = points_of(federation)
        points = Landscape(model, alone, self.seed)
        known = known_for_softmax(federation) if self.model == "softmax" else None

        start = clients.flat(model.params.all)
        first = known or estimate([view_at(clients, points, start, self.alpha)], shares)
        share = 1.0 if known else 0.5  # of networks, constants grow along the run
        beta = self.beta or share / (10 * self.tau * smoothness_F(first, self.alpha))
        algorithm = self.algorithm(beta)
        states: list[State] = []
        run = simulate(
            algorithm, model, federation, rounds=self.rounds, participation=self.participation, seed=self.seed,
            evaluate=Evaluate(every=self.rounds), monitor=("drift", *DRIFTS), on_round=_watching(states, say, self.rounds),
        )  # fmt: skip
        monitors = {name: [record["monitors"][name] for record in run.history] for name in ("drift", *DRIFTS)}
        path = [start, *(clients.flat(state.model) for state in states)]
        iterates = [clients.flat(state.iterate) for state in states]

        chosen = np.unique(np.linspace(0, self.rounds, self.views).astype(int)).tolist()
        say(f"derivatives after rounds {', '.join(map(str, chosen))}")
        views = [view_at(clients, points, path[at], self.alpha) for at in chosen]
        estimated = estimate(views, shares)
        constants = known or estimated
        conditions = self._conditions(constants, beta, known is not None)
        found = theorem(clients, algorithm, constants, estimated, path, iterates)
        found["series"] |= monitors
        apart = drift(
            clients, algorithm, constants, [(at + 1, path[at]) for at in chosen if at < self.rounds], monitors
        )
        say("errors of the stochastic gradients")
        return {
            "beta": beta,
            "parameters": len(start),
            "constants": {
                "used": "known, for every w" if known else "estimated: the largest met along the run, lower bounds",
                "known": asdict(known) if known else None,
                "estimated": asdict(estimated),
                "L_F": smoothness_F(constants, self.alpha),
                "sigma_F^2": sigma_F2(constants, algorithm),
                "gamma_F^2": gamma_F2(constants, self.alpha),
                "gamma_F^2_corrected": gamma_F2(constants, self.alpha, CORRECTED),
            },
            "conditions": conditions,
            "within_assumptions": within(conditions),
            **found,
            "local_steps": apart["steps"],
            "lemmas": [*lemmas(clients, algorithm, constants, views, self.draws), *apart["rows"]],
            **similarity(federation, views),
            "measured_after": chosen,
        }

    @staticmethod
    def figure(facts: dict[str, Any]) -> alt.HConcatChart | alt.ConcatChart:
        """The theorem's average against its bound, and every lemma's measurement against its own."""
        from manyheads.theory.fallah2020.figure import figure

        return figure(facts)

    def _conditions(self, c: Constants, beta: float, known: bool) -> list[dict[str, Any]]:
        hedge = "" if known else " (at most, since L is a lower bound)"
        limit = 1 / (10 * self.tau * smoothness_F(c, self.alpha))
        smooth = {
            "softmax": "they are: the constants are known",
            "tanh": "smooth, but no constant holds for every w: those of the run are used",
            "elu": "the second derivative of ELU jumps at 0, so that Hessians are not even continuous",
        }[self.model]
        holds = {"softmax": True, "tanh": None, "elu": False}[self.model]
        needs = f"for every w, gradients bounded and Lipschitz, Hessians Lipschitz; {smooth}"
        alpha, beta_most = self.alpha, f"<= 1 / (10 tau L_F) = {limit:.4g}{hedge}"
        return [
            condition(f"Assumptions 2 and 3: {self.model}", holds, None, needs),
            condition(
                "inner step size: alpha", 0 < alpha <= 1 / c.L, alpha, f"in (0, 1/L], 1/L = {1 / c.L:.4g}{hedge}"
            ),
            condition("outer step size: beta", beta <= limit * (1 + 1e-12), beta, beta_most),
        ]


def _watching(states: list[State], say: Say, rounds: int) -> Callable[[RoundEnd], None]:
    """Keeps the server's states, and tells of every fifth of the rounds."""
    every = max(1, rounds // 5)

    def watch(end: RoundEnd) -> None:
        states.append(end.server)
        if len(states) % every == 0:
            say(f"round {len(states)} of {rounds}")

    return watch
