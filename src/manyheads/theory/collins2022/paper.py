"""Collins et al. 2022: FedAvg with at least two local steps learns the shared representation, D-GD does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.randomness import Purpose, generator
from manyheads.core.settings import settings
from manyheads.data import LinearTasks
from manyheads.metrics import principal_angle_distance
from manyheads.run.loop import sample_cohort
from manyheads.run.training import Training
from manyheads.theory.collins2022.assumptions import asked_by_neurips, conditions, largest_step
from manyheads.theory.collins2022.cohort_sizes import cohort_figure, cohort_sweep
from manyheads.theory.collins2022.induction import Hypotheses
from manyheads.theory.collins2022.linear_fedavg import LocalUpdates, Problem, d_gd_step
from manyheads.theory.collins2022.local_steps import tau_figure, tau_sweep
from manyheads.theory.collins2022.participation import Cohorts, Lemma1
from manyheads.theory.collins2022.proposition1 import lower_bound
from manyheads.theory.collins2022.rates import limit_rate, printed_term, sharp_term
from manyheads.theory.facts import fitted_contraction, number, numbers, within
from manyheads.theory.paper import Say, Sweep

if TYPE_CHECKING:
    import altair as alt

__all__ = ["Collins2022"]

LOW, HIGH = 1e-10, 0.5
"""the distances between which the rate is fitted"""
TARGETS = (1e-3, 1e-6)
CLOSER, CLOSER_ROUNDS = 0.1, 40
"""start and length of the run at the step that the theorem allows"""


@settings
class Collins2022:
    """FedAvg with population gradients on multi-task linear regression: Theorem 1 and Proposition 1.

    Reference: Collins, Hassani, Mokhtari, Shakkottai, FedAvg with Fine Tuning: Local Updates Lead to Representation
    Learning, NeurIPS 2022; constants as in Appendix B of the arXiv version.
    """

    name: ClassVar[str] = "collins2022"
    title: ClassVar[str] = "Collins et al. 2022: FedAvg with local steps learns the representation (Theorem 1)"
    sweeps: ClassVar[Mapping[str, Sweep]] = {
        "tau": Sweep("more local steps help up to tau of order alpha^-2, then no more", tau_sweep, tau_figure),
        "cohort": Sweep("Lemma 1: how many clients a round stand for all", cohort_sweep, cohort_figure),
    }

    dim: Annotated[int, Field(ge=2)] = 100
    """input dimension, d"""
    rank: Annotated[int, Field(ge=1)] = 5
    """dimension of the representation, k"""
    clients: Annotated[int, Field(ge=1)] = 40
    """number of clients, M"""
    cohort: Annotated[int, Field(ge=0)] = 0
    """clients per round, m; 0: all"""
    tau: Annotated[int, Field(ge=1)] = 2
    """local steps; 1 is D-GD"""
    alpha: Annotated[float, Field(ge=0)] = 0.4
    """step size; 0: the largest that Theorem 1 allows, which is tiny"""
    start: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """distance of the initial representation from the true one; 0: a random one"""
    rounds: Annotated[int, Field(ge=1)] = 400
    """communication rounds, T"""
    instances: Annotated[int, Field(ge=0)] = 10
    """random instances on which Proposition 1 is checked"""
    seed: Annotated[int, Field(ge=0)] = 0
    """everything random comes from it"""

    def run(self, say: Say) -> dict[str, Any]:
        """The run, its quantities, and Theorem 1 beside it; then the same at a step that the theorem allows."""
        problem = self.problem()
        facts = self._theorem(problem, say)
        body, alpha = self.initial_body(problem), facts["problem"]["alpha"]
        within_it = self._at_theorem_step(problem, say) if self.alpha else None
        return {
            **facts,
            "d_gd": self._d_gd(problem, body / np.sqrt(alpha), np.zeros(self.rank), alpha),
            "proposition_1": self._proposition1(problem, alpha),
            "hypotheses_at_theorem_step": within_it.pop("hypotheses") if within_it else [],
            "theorem_step": within_it,
        }

    def _theorem(self, problem: Problem, say: Say) -> dict[str, Any]:
        body, head = self.initial_body(problem), np.zeros(self.rank)
        delta0 = principal_angle_distance(body, problem.body)
        alpha = self.alpha or largest_step(problem, self.tau, delta0)
        if alpha == 0:
            raise UserError("Theorem 1 allows no step: the true heads do not span", where="alpha", fix="more clients")
        body = body / np.sqrt(alpha)
        m = self.cohort or self.clients
        found = conditions(problem, body, head, alpha, self.tau, delta0, m, self.rounds)
        series, hypotheses, cohorts = self._measure(problem, body, head, alpha, delta0, say)
        gain = alpha**2 * self.tau * problem.diversity**2 * (1 - delta0**2)
        # A5(t), which Theorem 1 follows from; t >= 1
        bound = [1.0, *((1 - 0.04 * gain) ** np.arange(self.rounds))]
        violations = int(np.sum(np.array(series["dist"]) > np.array(bound) * (1 + 1e-12)))
        return {
            "problem": {
                "L_max": problem.largest,
                "mu": problem.diversity,
                "kappa_max": number(problem.condition),
                "gamma": problem.deviation,
                "H": problem.spread,
                "delta_0": delta0,
                "E_0": 1 - delta0**2,
                "alpha": alpha,
            },
            "neurips": asked_by_neurips(problem, alpha, self.tau, delta0, self.rounds)[1],
            "conditions": found,
            "within_assumptions": within(found),
            "bound": {
                "contraction": 1 - 0.04 * gain,
                "rounds_to_1e-06": number(25 / gain * np.log(1e6)) if gain > 0 else None,
                "violations": violations,
            },
            "measured": {
                "fit": fitted_contraction(series["dist"], LOW, HIGH),
                "leading_term": printed_term(problem, alpha, self.tau),
                "sharp_term": sharp_term(problem, alpha, self.tau),
                "limit_rate": limit_rate(problem, alpha, self.tau),
                "last_dist": series["dist"][-1],
                **{f"rounds_to_{e:.0e}": _first_below(series["dist"], e) for e in TARGETS},
            },
            "hypotheses": hypotheses.facts(),
            "vacuous": sum(h["vacuous"] for h in hypotheses.facts()),
            "lemma_8": hypotheses.lemma8(),
            "participation": cohorts.facts(m),
            "series": {"dist": series["dist"], "bound": numbers(bound)} | series,
        }

    def _at_theorem_step(self, problem: Problem, say: Say) -> dict[str, Any] | None:
        """A few rounds with the largest step that Theorem 1 allows, where the limits of its induction say something."""
        if problem.diversity == 0 or (self.start == 0 and 2 * self.rank > self.dim):
            return None
        say(f"{CLOSER_ROUNDS} rounds at the step that Theorem 1 allows")
        allowed = replace(self, alpha=0.0, start=self.start or CLOSER, rounds=CLOSER_ROUNDS)
        facts = allowed._theorem(problem, lambda _: None)
        fit, bound = facts["measured"]["fit"], facts["bound"]
        return {
            "hypotheses": facts["hypotheses"],
            "alpha": facts["problem"]["alpha"],
            "delta_0": facts["problem"]["delta_0"],
            "rounds": CLOSER_ROUNDS,
            "within_assumptions": facts["within_assumptions"],
            "vacuous": facts["vacuous"],
            "lemma_8": facts["lemma_8"],
            "violations": bound["violations"],
            "gain": 1 - fit["contraction"] if fit else None,
            "gain_of_bound": 1 - bound["contraction"],
            "gain_of_sharp_term": 1 - facts["measured"]["sharp_term"],
            "clients_for_less_than_all": facts["participation"]["needs"],
        }

    @staticmethod
    def figure(facts: dict[str, Any]) -> alt.HConcatChart:
        """Distance, gradient norm, and what the proof controls, over rounds."""
        from manyheads.theory.collins2022.figure import figure

        return figure(facts)

    def problem(self) -> Problem:
        """B_* with orthonormal columns and w_{*,i} ~ N(0, I)."""
        truth = LinearTasks(clients=self.clients, dim=self.dim, rank=self.rank).truth(self.seed)
        return Problem(truth.body, truth.heads)

    def initial_body(self, problem: Problem) -> np.ndarray:
        """An orthonormal basis, random or at the distance ``start`` from the truth."""
        drawn = generator(self.seed, Purpose.MODEL).normal(size=(self.dim, self.rank))
        if self.start == 0:
            return np.linalg.qr(drawn)[0]
        if 2 * self.rank > self.dim:
            raise UserError("no room for a start at an angle", where="rank", given=self.rank, allowed="up to dim / 2")
        aside = np.linalg.qr(problem.outside(drawn))[0]  # all k directions tilted alike
        return np.sqrt(1 - self.start**2) * problem.body + self.start * aside

    def _measure(
        self, problem: Problem, body: np.ndarray, head: np.ndarray, alpha: float, delta0: float, say: Say
    ) -> tuple[dict[str, list[float]], Hypotheses, Cohorts]:
        names = ("dist", "delta", "head_norm", "head_diversity", "prior_weight", "signal_weight", "gradient_norm")
        series: dict[str, list[float]] = {name: [] for name in names}
        hypotheses = Hypotheses(problem, alpha, self.tau, delta0)
        cohorts = Cohorts(Lemma1(problem, alpha, self.rounds))
        training = Training(seed=self.seed, cohort=self.cohort)
        for t in range(self.rounds + 1):
            if t % 100 == 99:
                say(f"round {t + 1} of {self.rounds}: distance {series['dist'][-1]:.2g}")
            cohort = sample_cohort(training, self.clients, t + 1)
            local = LocalUpdates.of(problem, body, head, cohort, alpha, self.tau)
            series["dist"].append(principal_angle_distance(body, problem.body))
            series["delta"].append(float(local.deltas[0, 0]))
            series["head_norm"].append(float(np.linalg.norm(head)))
            series["gradient_norm"].append(problem.gradient_norm(body, head))
            hypotheses.check_global(t, body, head, cohort, series["delta"][-1], series["dist"][-1])
            if t < self.rounds:  # the rest is about the step to the next round
                prior, signal = local.weights()
                series["head_diversity"].append(local.head_diversity())
                series["prior_weight"].append(float(np.linalg.norm(prior, 2)))
                series["signal_weight"].append(float(np.sqrt(alpha) * np.linalg.norm(signal, -2)))
                hypotheses.check_local(t, local, series["dist"][-1])
                cohorts.check(cohort)
                body, head = local.averaged()
        return series, hypotheses, cohorts

    def _d_gd(self, problem: Problem, body: np.ndarray, head: np.ndarray, alpha: float) -> dict[str, list[float]]:
        """D-GD from the same start, with all clients: distance and gradient norm (Figures 1 and 3)."""
        series: dict[str, list[float]] = {"dist": [], "gradient_norm": []}
        for _ in range(self.rounds + 1):
            series["dist"].append(principal_angle_distance(body, problem.body))
            series["gradient_norm"].append(problem.gradient_norm(body, head))
            body, head = d_gd_step(problem, body, head, alpha)
        return series

    def _proposition1(self, problem: Problem, alpha: float) -> dict[str, Any] | None:
        """D-GD on representations that it cannot learn, from random starts at random distances up to 1/2."""
        if self.instances == 0 or not 1 < self.rank < self.dim:
            return None
        rng = generator(self.seed, Purpose.MODEL, 1)
        ratios = []
        for _ in range(self.instances):
            body = np.linalg.qr(rng.normal(size=(self.dim, self.rank)))[0] / np.sqrt(alpha)
            delta0 = float(rng.uniform(0.01, 0.5))
            ratios.append(lower_bound(body, problem.heads, delta0, alpha, self.rounds, rng) / delta0)
        holds = sum(r >= 0.7 for r in ratios)
        return {"instances": self.instances, "holds": holds, "smallest_ratio": min(ratios), "needs": 0.7}


def _first_below(values: list[float], target: float) -> int | None:
    return next((t for t, v in enumerate(values) if v < target), None)
