"""What Theorem 1 of Collins et al. 2022 asks for, in the constants of its two versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyheads.theory.collins2022.induction import C3
from manyheads.theory.collins2022.linear_fedavg import Problem
from manyheads.theory.collins2022.participation import PRINTED, Lemma1
from manyheads.theory.facts import condition, number

__all__ = ["Asked", "asked", "asked_by_neurips", "conditions", "largest_step"]


@dataclass(frozen=True)
class Asked:
    """The right-hand sides of the theorem's conditions."""

    clients: float
    """m, if there are as many"""
    drift: float
    """(ii) of |I - alpha B_0^T B_0|"""
    head: float
    """(iii) of |w_0|"""
    step: float
    """of alpha"""


def largest_step(problem: Problem, tau: int, delta0: float) -> float:
    """Theorem 1's largest step size, with the constant of Appendix B."""
    return float((1 - delta0) / (C3 * np.sqrt(tau) * problem.largest * problem.condition**2))


def asked(problem: Problem, alpha: float, tau: int, delta0: float, rounds: int) -> Asked:
    """As in Appendix B of the arXiv version."""
    length, kappa = problem.largest, problem.condition
    return Asked(
        clients=Lemma1(problem, alpha, rounds).clients(),
        drift=alpha**2 * tau * length**2 * kappa**2,
        head=alpha**2.5 * tau * length**3,
        step=largest_step(problem, tau, delta0),
    )


def asked_by_neurips(
    problem: Problem, alpha: float, tau: int, delta0: float, rounds: int
) -> tuple[Asked, dict[str, Any]]:
    """As in the proceedings, where k is split off every constant, and these constants.

    ``|w_i| <= L sqrt(k)``, ``kappa = L / mu``, ``gamma^2`` divided by k and ``H^4`` by k^2. O(.) is read with the
    constants of the other version. The products are the same: L sqrt(k) = L_max and kappa sqrt(k) = kappa_max.
    """
    k = len(problem.mean)
    length = problem.largest / np.sqrt(k)
    kappa = length / problem.diversity if problem.diversity > 0 else np.inf
    gamma, h4 = problem.deviation / np.sqrt(k), problem.spread**4 / k**2
    few = (gamma / length) ** 2 + h4 / length**4
    found = Asked(
        clients=PRINTED * few * (alpha * length * np.sqrt(k)) ** -4 * np.log(k * rounds),
        drift=alpha**2 * tau * length**2 * kappa**2 * k**2,
        head=alpha**2.5 * tau * length**3 * k**1.5,
        step=(1 - delta0) / (C3 * np.sqrt(tau) * length * kappa**2 * k**1.5),
    )
    return found, {"L": length, "kappa": number(kappa), "gamma": gamma, "H": h4**0.25}


def conditions(
    problem: Problem,
    body: np.ndarray,
    head: np.ndarray,
    alpha: float,
    tau: int,
    delta0: float,
    cohort: int,
    rounds: int,
) -> list[dict[str, Any]]:
    """The theorem's conditions on the start of a run with ``cohort`` clients a round."""
    needs = asked(problem, alpha, tau, delta0, rounds)
    drift = float(np.linalg.norm(np.eye(body.shape[1]) - alpha * body.T @ body, 2))
    size = float(np.linalg.norm(head))
    least = min(len(problem.heads), needs.clients)
    return [
        condition("local steps: tau", tau >= 2, tau, ">= 2"),
        condition("client diversity: mu (Assumption 2)", problem.diversity > 0, problem.diversity, "> 0"),
        condition("clients a round: m", cohort >= least, cohort, f">= {least:.4g}"),
        condition("(i) initial distance: delta_0", delta0 < 1, delta0, "< 1"),
        condition("(ii) |I - alpha B_0^T B_0|", drift <= needs.drift + 1e-14, drift, f"<= {needs.drift:.4g}"),
        condition("(iii) |w_0|", size <= needs.head, size, f"<= {needs.head:.4g}"),
        condition("step size: alpha", alpha <= needs.step * (1 + 1e-12), alpha, f"<= {needs.step:.4g}"),
    ]
