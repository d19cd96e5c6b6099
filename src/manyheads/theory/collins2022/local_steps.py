"""How far local steps help: the gain of a round, 1 minus its contraction, by tau, for three step sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.core.errors import UserError
from manyheads.metrics import principal_angle_distance
from manyheads.theory.collins2022.assumptions import largest_step
from manyheads.theory.collins2022.linear_fedavg import LocalUpdates, Problem
from manyheads.theory.collins2022.rates import closed_form, limit_rate, printed_term, sharp_term
from manyheads.theory.facts import condition, fitted_contraction
from manyheads.theory.paper import Say

if TYPE_CHECKING:
    import altair as alt

    from manyheads.theory.collins2022.paper import Collins2022

__all__ = ["tau_figure", "tau_sweep"]

PARTS = (1, 2, 4)
"""by which the step size is divided"""
FAR = 12
"""alpha^2 tau up to which tau goes: far beyond the turn, which is at about 1 / |w_i|^2"""
START, LOW, HIGH = 0.5, 1e-8, 1e-2
"""a run starts at this distance; the distances between which its rate is fitted"""
MEASURED = 128
"""local steps up to which the rate is also fitted on a run"""


def tau_sweep(paper: Collins2022, say: Say) -> dict[str, Any]:
    """For each step size and tau: the exact limit rate, its closed form, the leading terms, and a fit on a run."""
    # the rate does not depend on d, so runs are short and narrow
    narrow = replace(paper, dim=min(paper.dim, 3 * paper.rank), start=START)
    problem, rows = narrow.problem(), []
    if problem.diversity == 0 or not paper.alpha or limit_rate(problem, paper.alpha, 2) is None:
        given = f"{paper.alpha:g} with {paper.clients} clients"
        raise UserError("no step size for a sweep over tau", where="alpha", given=given, fix="--alpha 0.4 --clients 40")
    start = narrow.initial_body(problem)
    for alpha in (paper.alpha / part for part in PARTS):
        say(f"step size {alpha:g}")
        for tau in (2**i for i in range(1, 30) if alpha**2 * 2**i <= FAR):
            exact = limit_rate(problem, alpha, tau)
            if exact is None:  # local steps diverge
                break
            closed = closed_form(problem, alpha, tau)
            fit = _fitted(problem, start, alpha, tau, 1 - exact) if tau <= MEASURED and exact < 0.97 else None
            rows.append(
                {
                    "alpha": alpha,
                    "tau": tau,
                    "alpha^2 tau": alpha**2 * tau,
                    "gain": 1 - exact,
                    "gain_closed_form": None if closed is None else 1 - closed,
                    "gain_fitted": fit,
                    "gain_sharp_term": 1 - sharp_term(problem, alpha, tau),
                    "gain_printed_term": 1 - printed_term(problem, alpha, tau),
                }
            )
    return {"rows": rows, **_turns(problem, paper, rows)}


def _fitted(problem: Problem, start: np.ndarray, alpha: float, tau: int, gain: float) -> float | None:
    body, head, everyone = start / np.sqrt(alpha), np.zeros(start.shape[1]), list(range(len(problem.heads)))
    dist: list[float] = []
    while not dist or (dist[-1] > LOW and len(dist) < 60 / gain):
        dist.append(principal_angle_distance(body, problem.body))
        body, head = LocalUpdates.of(problem, body, head, everyone, alpha, tau).averaged()
    fit = fitted_contraction(dist, LOW, HIGH)
    return 1 - fit["contraction"] if fit else None


def _turns(problem: Problem, paper: Collins2022, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Where the gain is half of what it becomes, for each step size; and what is stated."""
    steps = list(dict.fromkeys(row["alpha"] for row in rows))
    last = {alpha: [row for row in rows if row["alpha"] == alpha][-1] for alpha in steps}
    small = steps[1:]  # at the largest step, higher powers of alpha matter
    turns = {alpha: _half(rows, alpha) for alpha in steps}
    ends = {alpha: closed_form(problem, alpha, np.inf) for alpha in small}
    scaled = [alpha**2 * (turns[alpha] - 1) for alpha in small]  # the first step has the same head for all
    off = [row["gain"] / row["gain_closed_form"] - 1 for row in rows if row["alpha"] in small]
    fits = [row["gain_fitted"] / row["gain"] - 1 for row in rows if row["gain_fitted"] is not None]
    first = [row["gain"] / row["gain_sharp_term"] - 1 for row in rows if row["tau"] == 2 and row["alpha"] in small]
    doubled = [last[alpha]["gain"] / (1 - (ends[alpha] or 0.0)) - 1 for alpha in small]
    tied = [largest_step(problem, tau, 0.1) ** 2 * tau for tau in (2, 64, 4096)]
    return {
        "turns": [{"alpha": a, "tau": turns[a], "alpha^2 tau": a**2 * turns[a]} for a in steps],
        "outcome": [
            _near("the closed form is the limit rate: largest relative difference of the gains", off, 0.02),
            _near("the limit rate is the run's: largest relative difference of the gains", fits, 0.1),
            _near("two steps gain what the sharper leading term says: relative difference", first, 0.02),
            condition("the turn is at the same alpha^2 (tau - 1): largest over smallest", max(scaled) < 1.15 * min(scaled),
                      max(scaled) / min(scaled), "< 1.15"),
            _near("then it stops, at the closed form for tau without end: relative difference", doubled, 0.05),
            _near("at the theorem's largest step its bound is the same for every tau: spread", [max(tied) / min(tied) - 1],
                  1e-9),
        ],
    }  # fmt: skip


def _near(name: str, differences: list[float], within: float) -> dict[str, Any]:
    worst = float(np.abs(differences).max()) if differences else None
    return condition(name, None if worst is None else worst < within, worst, f"< {within:g}")


def _half(rows: list[dict[str, Any]], alpha: float) -> float:
    """tau at which the gain is half of the last, between the measured ones on logarithmic axes."""
    found = [row for row in rows if row["alpha"] == alpha]
    gains, taus = (np.log([row[key] for row in found]) for key in ("gain", "tau"))
    return float(np.exp(np.interp(gains[-1] - np.log(2), gains, taus)))


def tau_figure(facts: dict[str, Any]) -> alt.HConcatChart:
    """The gain by tau, and by alpha^2 tau, where the step sizes fall on one curve."""
    import altair as alt

    from manyheads.theory.figures import lines

    steps = list(dict.fromkeys(row["alpha"] for row in facts["rows"]))
    exact = [{"line": f"step {row['alpha']:g}", "x": row["tau"], "y": row["gain"]} for row in facts["rows"]]
    top = max(row["gain"] for row in facts["rows"])
    sharp = [
        {"line": f"leading term, step {steps[-1]:g}", "x": row["tau"], "y": row["gain_sharp_term"]}
        for row in facts["rows"]
        if row["alpha"] == steps[-1] and row["gain_sharp_term"] < 2 * top
    ]
    scaled = [{"line": f"step {row['alpha']:g}", "x": row["alpha^2 tau"], "y": row["gain"]} for row in facts["rows"]]
    fitted = [
        {"line": "fitted on runs", "x": row["alpha^2 tau"], "y": row["gain_fitted"]}
        for row in facts["rows"]
        if row["gain_fitted"] is not None
    ]
    y, dashed = "gain of a round: 1 - contraction", [row["line"] for row in sharp[:1]]
    right = lines(scaled, y, "alpha² tau (circles: fitted on runs)", log=True, log_x=True, points=True)
    marks = alt.Chart(alt.Data(values=fitted)).mark_point(size=90, color="black")  # type: ignore[no-untyped-call]
    return alt.hconcat(
        lines([*exact, *sharp], y, "local steps tau", log=True, log_x=True, points=True, dashed=dashed),
        right + marks.encode(x="x:Q", y="y:Q"),
    ).resolve_scale(color="independent", strokeDash="independent")
