"""How many rounds Per-FedAvg needs: ``K tau`` of order ``1 / eps^2`` (Fallah et al. 2020, after Theorem 4.5)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.theory.facts import condition, fitted_power, number
from manyheads.theory.paper import Say

if TYPE_CHECKING:
    import altair as alt

    from manyheads.theory.fallah2020.paper import Fallah2020

__all__ = ["by_rounds", "by_rounds_figure"]

SHARES = (1 / 2, 1 / 4, 1 / 8, 1 / 16)
"""eps^2, as shares of the first squared gradient"""
LONG = 4000
"""rounds of the run that goes down to the smallest of them"""
TAUS = {1: 1600, 2: 900, 4: 600}
"""local steps, and rounds that are enough for the first share at any of the step sizes"""
SHOWN = 60
"""numbers of rounds that are drawn"""
SQUARE = (1.8, 2.5)
"""powers that count as the second: it is reached from above"""
SAME = 1.1
"""ratios below are those of equal numbers"""


def by_rounds(paper: Fallah2020, say: Say) -> dict[str, Any]:
    """The first K at which the mean of ``|grad F|^2`` is at most ``eps^2``, by eps, and by tau at two step sizes.

    ``sum_k |grad F|^2`` converges, so the mean falls as 1/K in the end, and K as ``1 / eps^2``; before, more slowly.
    """
    brief = replace(paper, views=2, draws=2)
    say(f"one local step, {LONG} rounds")
    long = replace(brief, tau=1, rounds=LONG).run(lambda _: None)
    by_eps = [_reached(long, 1, share) for share in SHARES]
    own = [_run(replace(brief, tau=tau, rounds=rounds), say) for tau, rounds in TAUS.items()]
    least = min(row["beta"] for row in own)
    same = [_run(replace(brief, tau=tau, rounds=rounds, beta=least), say) for tau, rounds in TAUS.items()]
    steps, shared = ([row["K_tau"] for row in rows] for rows in (own, same))
    reached = [row for row in by_eps if row["K"]]
    share = max((row["ratio"] for row in reached), default=None)
    last = reached[-1]["power"] if reached else None
    known = None not in (*steps, *shared)
    power = fitted_power(list(TAUS), steps) if known else None
    spread = max(shared) / min(shared) if known else None
    low, high = SQUARE
    return {
        "by_eps": by_eps,
        "by_tau_largest_beta": own,
        "by_tau_same_beta": same,
        "curve": _curve(long["series"]),
        "outcome": [
            condition(
                "K tau is below what the bound's first term asks for, at every eps reached: largest share",
                None if share is None else share <= 1, share, "<= 1",
            ),
            condition(
                "K goes with 1/eps to the power 2 in the end: power at the smallest eps reached",
                None if last is None else low < last < high, last, f"{low} to {high}",
            ),
            condition(
                "at the same beta, K tau does not depend on tau: largest over least",
                None if spread is None else spread < SAME, spread, f"< {SAME}",
            ),
            condition(
                "at the largest beta, 1 / (10 tau L_F), K does not: power of tau in K tau",
                None if power is None else abs(power - 1) < SAME - 1, power, f"1 within {SAME - 1:.1f}",
            ),
        ],
    }  # fmt: skip


def _run(setting: Fallah2020, say: Say) -> dict[str, Any]:
    say(f"{setting.tau} local steps, {setting.rounds} rounds")
    facts = setting.run(lambda _: None)
    row = _reached(facts, setting.tau, SHARES[0])
    return {"tau": setting.tau, "beta": facts["beta"], "K": row["K"], "K_tau": row["K_tau"]}


def _reached(facts: dict[str, Any], tau: int, share: float) -> dict[str, Any]:
    """The first round at which the mean is at most a share of the first squared gradient; None if there is none."""
    mean = np.array(facts["series"]["mean_gradient_square"])
    eps2 = share * facts["series"]["gradient_square"][0]
    below = mean <= eps2
    K = int(np.argmax(below)) + 1 if below.any() else None
    asked = 4 * facts["measured"]["first_loss"] / (facts["beta"] * tau * eps2)
    # one more round changes the mean by (gradient^2 - mean) / K: its power of K, hence that of 1/eps in K
    slope = (facts["series"]["gradient_square"][K - 1] - mean[K - 1]) / mean[K - 1] if K else None
    return {
        "eps": float(np.sqrt(eps2)),
        "K": K,
        "K_tau": K * tau if K else None,
        "asked": asked,
        "ratio": K / asked if K else None,
        "power": number(-2 / slope) if slope else None,
    }


def _curve(series: dict[str, Any]) -> list[dict[str, Any]]:
    """The theorem's mean and the bound's first term at some numbers of rounds."""
    some = np.unique(np.geomspace(1, len(series["round"]), SHOWN).astype(int)).tolist()
    return [
        {"K": K, "mean": series["mean_gradient_square"][K - 1], "first_term": series["bound_first_term"][K - 1]}
        for K in some
    ]


def by_rounds_figure(facts: dict[str, Any]) -> alt.HConcatChart | alt.ConcatChart:
    """The mean over rounds beside the bound's first term, K by eps, and K tau by tau."""
    from manyheads.theory.figures import lines

    named = {"mean of |grad F|²": "mean", "first term of the bound": "first_term"}
    mean = [{"line": line, "x": row["K"], "y": row[key]} for line, key in named.items() for row in facts["curve"]]
    eps = [{"line": line, "x": 1 / row["eps"], "y": row[key]}
           for line, key in (("measured", "K"), ("asked for by the first term", "asked")) for row in facts["by_eps"]]  # fmt: skip
    steps = [{"line": f"β {word}", "x": row["tau"], "y": row["K_tau"]}
             for word, key in (("largest allowed, 1 / (10 τ L_F)", "by_tau_largest_beta"), ("the same", "by_tau_same_beta"))
             for row in facts[key]]  # fmt: skip
    dashed = ("first term of the bound", "asked for by the first term")
    charts = (
        lines(mean, "mean over the rounds", "rounds K", log=True, log_x=True, dashed=dashed[:1]),
        lines(eps, "rounds K until the mean is ε²", "1 / ε", log=True, log_x=True, points=True, dashed=dashed[1:]),
        lines(steps, "K τ until the mean is half its first value", "local steps τ", points=True),
    )
    return (charts[0] | charts[1] | charts[2]).resolve_scale(color="independent", strokeDash="independent")
