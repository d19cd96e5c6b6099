"""Lemma 1 by the number of clients a round: how often A_0 fails, its bound, and how many clients the lemma asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from manyheads.core.randomness import Purpose, generator
from manyheads.theory.collins2022.assumptions import largest_step
from manyheads.theory.collins2022.participation import CORRECTED, Lemma1
from manyheads.theory.facts import condition
from manyheads.theory.paper import Say

if TYPE_CHECKING:
    import altair as alt

    from manyheads.theory.collins2022.paper import Collins2022

__all__ = ["cohort_figure", "cohort_sweep"]

CLIENTS, DRAWS = 1000, 2000
STEP = 0.2
"""alpha L_max: A_0's limits are then a sixth of L_max, small enough to fail; at the paper's 0.4 they never can"""


def cohort_sweep(paper: Collins2022, say: Say) -> dict[str, Any]:
    """The share of random cohorts outside A_0, for one round, beside Bernstein's bound of it."""
    problem = replace(paper, clients=CLIENTS).problem()
    alpha = STEP / problem.largest
    lemma, rng, rows = Lemma1(problem, alpha, rounds=1), generator(paper.seed, Purpose.SAMPLING, 1), []
    for m in (2**i for i in range(CLIENTS.bit_length())):
        say(f"{m} of {CLIENTS} clients a round: {DRAWS} draws")
        cohorts = (rng.choice(CLIENTS, size=m, replace=False) for _ in range(DRAWS))
        failed = sum(not lemma.holds(lemma.distances(cohort)) for cohort in cohorts)
        rows.append({"m": m, "failed": failed / DRAWS, "bound": lemma.failure(m)})
    over = max(row["failed"] - row["bound"] for row in rows)
    enough = next((row["m"] for row in rows if row["failed"] == 0), None)
    whole = Lemma1(problem, alpha, paper.rounds)
    asked = whole.clients(CORRECTED)
    at_theorem = Lemma1(problem, largest_step(problem, paper.tau, 0.1), paper.rounds).clients()
    return {
        "clients": CLIENTS,
        "alpha": alpha,
        "needs": whole.clients(),
        "needs_corrected": asked,
        "needs_at_theorem_step": at_theorem,
        "rows": rows,
        "outcome": [
            condition("A_0 fails no more often than Bernstein's bound: largest excess", over <= 0, over, "<= 0"),
            condition(
                "the lemma asks for far more clients than A_0 needs: m at which it never failed",
                enough is not None and enough < asked / 50,
                enough,
                f"< {asked / 50:.3g}",
            ),
            condition(
                "at the theorem's step, less than all clients would have to be more than there are: m",
                at_theorem > 1e12,
                at_theorem,
                "> 1e12",
            ),
        ],
    }


def cohort_figure(facts: dict[str, Any]) -> alt.Chart:
    """The share of cohorts outside A_0, and its bound, by the number of clients a round."""
    from manyheads.theory.figures import lines

    rows = [
        {"line": line, "x": row["m"], "y": row[key]}
        for line, key in (("A_0 fails in a round, measured", "failed"), ("Bernstein's bound", "bound"))
        for row in facts["rows"]
    ]
    x = f"clients a round, of {facts['clients']} (Lemma 1 asks for {facts['needs']:.2g})"
    return lines(rows, "probability", x, log_x=True, points=True, dashed=["Bernstein's bound"])
