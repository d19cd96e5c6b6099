"""Fallah et al. 2020: what the theory of Per-FedAvg says of a run, and what the run does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from torch import Tensor

from manyheads.algorithms import PerFedAvg
from manyheads.core.errors import UserError
from manyheads.core.randomness import Purpose, generator
from manyheads.core.settings import settings
from manyheads.core.trees import State
from manyheads.data import Federation, Samples
from manyheads.models import MLP, build_model
from manyheads.run import Evaluate, simulate
from manyheads.theory.facts import condition, within
from manyheads.theory.landscape import Landscape, points_of, watched
from manyheads.theory.meta import (
    bias_F,
    bias_without_noise,
    gamma_F2,
    meta_gradients,
    meta_smoothness,
    sigma_F2,
    smoothness_F,
    stochastic_bias,
    stochastic_error,
)
from manyheads.theory.paper import Say
from manyheads.theory.similarity import against, similarity
from manyheads.theory.smoothness import Constants, View, estimate, known_for_softmax, look

if TYPE_CHECKING:
    import altair as alt

__all__ = ["Fallah2020", "figure"]

LEMMA: dict[Literal["exact", "fo", "hf"], str] = {"exact": "Lemma 4.3", "fo": "Lemma G.1", "hf": "Lemma G.2"}
EQUATION: dict[Literal["fo", "hf"], str] = {"fo": "Equation (116)", "hf": "Equation (127)"}


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

    model: Literal["softmax", "tanh", "elu"] = "softmax"
    """softmax regression (constants known), or a network with a hidden layer (constants estimated)"""
    hidden: Annotated[int, Field(ge=1)] = 4
    """hidden units of the network"""
    clients: Annotated[int, Field(ge=2)] = 6
    """number of clients, n"""
    samples: Annotated[int, Field(ge=2)] = 40
    """samples a client"""
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
    """local steps a round"""
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

    def algorithm(self, beta: float) -> PerFedAvg:
        batch = min(self.batch, self.samples)
        return PerFedAvg(
            variant=self.variant, alpha=self.alpha, beta=beta, steps=self.tau, delta=self.delta, random_iterate=True,
            batch=batch, outer_batch=batch, hessian_batch=batch,
        )  # fmt: skip

    def run(self, say: Say) -> dict[str, Any]:
        """Train, then measure at some points of the run; the facts as plain values."""
        federation = self.federation()
        spec = MLP(hidden=()) if self.model == "softmax" else MLP(hidden=(self.hidden,), activation=self.model)
        model = build_model(spec, federation.sample_shape, federation.outputs, self.seed, "float64")
        clients = Landscape(model, federation, self.seed)
        alone, shares = points_of(federation)
        points = Landscape(model, alone, self.seed)
        known = known_for_softmax(federation) if self.model == "softmax" else None

        start = clients.flat(model.params.all)
        first = known or estimate([look(clients, points, start, self.alpha)], shares)
        share = 1.0 if known else 0.5  # of networks, constants grow along the run
        beta = self.beta or share / (10 * self.tau * smoothness_F(first, self.alpha))
        algorithm = self.algorithm(beta)
        states: list[State] = []
        simulate(
            watched(algorithm, states.append), model, federation, rounds=self.rounds, participation=self.participation,
            seed=self.seed, evaluate=Evaluate(every=self.rounds), on_round=_progress(say, self.rounds),
        )  # fmt: skip
        path = [start, *(clients.flat(state.model) for state in states)]
        iterates = [clients.flat(state.iterate) for state in states]

        chosen = np.unique(np.linspace(0, self.rounds, self.views).astype(int)).tolist()
        say(f"derivatives after rounds {', '.join(map(str, chosen))}")
        views = [look(clients, points, path[at], self.alpha) for at in chosen]
        estimated = estimate(views, shares)
        constants = known or estimated
        conditions = self._conditions(constants, beta, known is not None)
        theorem = self._theorem(clients, algorithm, constants, estimated, path, iterates)
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
            },
            "conditions": conditions,
            "within_assumptions": within(conditions),
            **theorem,
            "lemmas": self._lemmas(clients, algorithm, constants, views),
            **similarity(federation, views),
            "measured_after": chosen,
        }

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

    def _theorem(
        self,
        clients: Landscape,
        algorithm: PerFedAvg,
        c: Constants,
        estimated: Constants,
        path: list[Tensor],
        iterates: list[Tensor],
    ) -> dict[str, Any]:
        """Theorem 4.5 by the scheme of Remark 4.6: a random local iterate of every round stands for all of them."""
        exact = replace(algorithm, variant="exact")
        square = [float(meta_gradients(clients, exact, w).mean(dim=0).square().sum()) for w in iterates]
        loss = [float(clients.losses(w - self.alpha * clients.gradients(w)).mean()) for w in path]
        rounds = np.arange(1, self.rounds + 1)
        mean = np.cumsum(square) / rounds
        # F* >= 0 as the losses are cross entropies, so F(w_0) - F* <= F(w_0)
        initial = 4 * loss[0] / (algorithm.beta * self.tau * rounds)
        terms = self._terms(c, algorithm, float(initial[-1]))
        bound = initial + terms["sigma_F"] + terms["gamma_F"]
        return {
            "bound": {
                "value": float(bound[-1]),
                "violations": int((mean > bound).sum()),
                "terms": terms,
                "dominant": max(terms, key=lambda term: terms[term]),
                "terms_with_estimated_constants": self._terms(estimated, algorithm, float(initial[-1])),
            },
            "measured": {
                "mean_gradient_square": float(mean[-1]),
                "exponent_of_K": _exponent(rounds, mean),
                "first_loss": loss[0],
                "last_loss": loss[-1],
            },
            "series": {
                "round": rounds.tolist(),
                "loss": loss[1:],
                "gradient_square": square,
                "mean_gradient_square": mean.tolist(),
                "bound": bound.tolist(),
                "bound_first_term": initial.tolist(),
            },
        }

    def _terms(self, c: Constants, algorithm: PerFedAvg, initial: float) -> dict[str, float]:
        """The terms of the bound ``4 (F(w_0) - F*) / (beta tau K) + 60 sigma_F^2 + 60 gamma_F^2``."""
        return {"initial": initial, "sigma_F": 60 * sigma_F2(c, algorithm), "gamma_F": 60 * gamma_F2(c, self.alpha)}

    def _lemmas(
        self, clients: Landscape, algorithm: PerFedAvg, c: Constants, views: list[View]
    ) -> list[dict[str, Any]]:
        exact = replace(algorithm, variant="exact")
        true = [meta_gradients(clients, exact, view.w) for view in views]
        apart = max(float((g - g.mean(dim=0)).square().sum(dim=1).mean()) for g in true)
        smooth = max(meta_smoothness(clients, exact, view.w) for view in views)
        rows = [
            against("Lemma 4.2", "smoothness of F_i", smooth, smoothness_F(c, self.alpha)),
            against("Lemma 4.4", "mean square distance of the gradients of F_i", apart, gamma_F2(c, self.alpha)),
        ]
        ends = (views[0].w, views[-1].w)
        bias = max(stochastic_bias(clients, exact, w, self.draws) for w in ends)
        rows.append(against("Appendix C", "bias of the exact gradient", bias, bias_F(c, exact)))
        for variant, lemma in LEMMA.items():
            method = replace(algorithm, variant=variant)
            error = max(stochastic_error(clients, method, w, self.draws) for w in ends)
            rows.append(against(lemma, f"mean square error of the {variant} gradient", error, sigma_F2(c, method)))
        for variant, equation in EQUATION.items():
            method = replace(algorithm, variant=variant)
            gaps = [(meta_gradients(clients, method, v.w) - g).norm(dim=1) for v, g in zip(views, true, strict=True)]
            bias = max(float(gap.max()) for gap in gaps)
            rows.append(against(equation, f"bias of {variant} on all samples", bias, bias_without_noise(c, method)))
        return rows


def figure(facts: dict[str, Any]) -> alt.HConcatChart | alt.ConcatChart:
    """The theorem's average against its bound, and every lemma's measurement against its own."""
    from manyheads.theory.figures import lines, rows_of

    series = facts["series"]
    mean = {
        "bound of Theorem 4.5": series["bound"],
        "its first term": series["bound_first_term"],
        "measured": series["mean_gradient_square"],
    }
    left = lines(rows_of(mean), "mean of |grad F|² over the rounds", "round", log=True)
    both = left | _spans([*facts["lemmas"], *facts["similarity"]])
    return both.resolve_scale(color="independent", strokeDash="independent")


def _spans(rows: list[dict[str, Any]]) -> alt.LayerChart:
    """From every measured number to its bound, where a logarithmic axis can show both."""
    import altair as alt

    shown = [r | {"label": f"{r['name']}: {r['what']}"} for r in rows if min(r["measured"], r["bound"]) > 0]
    ends = [{"label": r["label"], "end": end, "value": r[end]} for r in shown for end in ("bound", "measured")]
    label = alt.Y("label:N", sort=[r["label"] for r in shown], title=None, axis=alt.Axis(labelLimit=420))
    axis = alt.Axis(format=".0e", tickCount=6)
    spans = alt.Chart(alt.Data(values=shown)).mark_rule(color="#bbb")  # type: ignore[no-untyped-call]
    dots = alt.Chart(alt.Data(values=ends)).mark_point(filled=True, size=60)  # type: ignore[no-untyped-call]
    chart = spans.encode(y=label, x=alt.X("measured:Q"), x2="bound:Q") + dots.encode(
        y=label,
        x=alt.X("value:Q", scale=alt.Scale(type="log"), axis=axis, title="measured along the run, and its bound"),
        color=alt.Color("end:N", title=None, legend=alt.Legend(orient="bottom")),
    )
    return chart.properties(width=300, height=240)


def _exponent(rounds: np.ndarray, mean: np.ndarray) -> float:
    """Slope of log(mean) against log(K) over the second half: -1 for a mean that falls like the bound's first term."""
    half = len(rounds) // 2
    return float(np.polyfit(np.log(rounds[half:]), np.log(mean[half:]), 1)[0])


def _progress(say: Say, rounds: int) -> Callable[[dict[str, Any]], None]:
    every = max(1, rounds // 5)

    def tell(record: dict[str, Any]) -> None:
        if record["round"] % every == 0:
            say(f"round {record['round']} of {rounds}")

    return tell
