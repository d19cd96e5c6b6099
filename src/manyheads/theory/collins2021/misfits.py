"""FedRep where the model is wrong: a representation of another rank, or one that clients share only approximately.

Both have a closed form. Let ``tail`` be the sum of the eigenvalues of ``1/n sum_i beta_i beta_i^T`` (beta_i: the client's
true weights) after the first k': what the best subspace of k' dimensions leaves out, on average over clients. To a client
that fits k' coefficients on m samples, what it leaves out is noise, independent of the features it sees, so that for
Gaussian inputs its expected error is ``tail + (tail + sigma^2) k' / (m - k' - 1)``. The subspace is learned from the
``n (m - k')`` equations that the heads leave, which adds ``(tail + sigma^2) min(k, k') (d - k') / (n (m - k'))``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.theory.collins2021.tasks import Tasks, enough_for_a_sweep, fitted, train_fedrep
from manyheads.theory.facts import condition
from manyheads.theory.paper import Say

if TYPE_CHECKING:
    import altair as alt

    from manyheads.theory.collins2021.paper import Collins2021

__all__ = ["expected_error", "rank_figure", "rank_sweep", "shared_figure", "shared_sweep"]

NOISE, ROUNDS = 1e-3**0.5, 300
TRUE_RANK, RANKS = 3, (1, 2, 3, 4, 6, 10)
APART = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
TOLERANCE = 0.35
"""relative: the second term takes heads and subspace as learned from independent samples"""


def expected_error(tasks: Tasks, rank: int) -> float:
    """The mean squared error of clients that fit ``rank`` coefficients on a subspace of that dimension, learned together."""
    m, weights = tasks.samples, tasks.weights
    spectrum = np.linalg.eigvalsh(weights.T @ weights / tasks.clients)[::-1]
    tail = float(spectrum[rank:].sum())
    head = rank / (m - rank - 1)
    body = min(tasks.rank, rank) * (tasks.dim - rank) / (tasks.clients * (m - rank))
    return tail + (tail + tasks.noise**2) * (head + body)


def rank_sweep(paper: Collins2021, say: Say) -> dict[str, Any]:
    """FedRep with k' features where the truth has 3."""
    enough_for_a_sweep(paper.clients, paper.dim, paper.rank)
    samples = 2 * max(RANKS)
    tasks = Tasks(2 * paper.clients, max(paper.dim, samples), TRUE_RANK, samples, NOISE, paper.seed)
    rows = []
    for rank in RANKS:
        say(f"FedRep with {rank} features, the truth has {TRUE_RANK}: {ROUNDS} rounds")
        found = train_fedrep(tasks, ROUNDS, rank=rank)
        basis = np.linalg.qr(found.body)[0]
        missing = float(np.linalg.norm(tasks.truth.body - basis @ (basis.T @ tasks.truth.body), 2))
        expected = expected_error(tasks, rank)
        rows.append(
            {"rank": rank, "missing": missing, "error": float(found.errors(tasks).mean()), "expected": expected}
        )
    few = [row for row in rows if row["rank"] < TRUE_RANK]
    enough = [row for row in rows if row["rank"] >= TRUE_RANK]
    least, most = min(row["missing"] for row in few), max(row["missing"] for row in enough)
    loss, cost = min(row["error"] for row in few), max(row["error"] for row in enough)
    return {
        "true_rank": TRUE_RANK,
        "samples_per_client": samples,
        "rows": rows,
        "outcome": [
            condition("too few features miss a direction entirely: distance", least > 0.9, least, "> 0.9"),
            condition("enough or more contain the true subspace: distance", most < 0.05, most, "< 0.05"),
            condition(
                "too few cost more than too many: error of both", cost < 0.05 * loss, cost, f"< {0.05 * loss:.3g}"
            ),
            _as_expected("the error is the closed form's: largest ratio, either way", rows),
        ],
    }


def shared_sweep(paper: Collins2021, say: Say) -> dict[str, Any]:
    """FedRep where clients' weights leave the shared subspace by a share of their length, beside each client alone."""
    enough_for_a_sweep(paper.clients, paper.dim, paper.rank)
    rows = []
    for samples in (paper.dim // 2, 2 * paper.dim):
        for apart in APART:
            say(f"{samples} samples per client, {apart:g} of the length apart: {ROUNDS} rounds")
            tasks = Tasks(2 * paper.clients, paper.dim, paper.rank, samples, NOISE, paper.seed, apart)
            found = train_fedrep(tasks, ROUNDS)
            alone = np.square(fitted(*tasks.drawn) - tasks.weights).sum(axis=1)
            rows.append(
                {
                    "samples": samples,
                    "apart": apart,
                    "dist": found.distance(tasks),
                    "error": float(found.errors(tasks).mean()),
                    "expected": expected_error(tasks, paper.rank),
                    "error_local": float(alone.mean()),
                }
            )
    few, many = ([row for row in rows if (row["samples"] < paper.dim) == first] for first in (True, False))
    helped = max((row["apart"] for row in few if row["error"] < row["error_local"]), default=0.0)
    hurt = min((row["apart"] for row in many if row["error"] > row["error_local"]), default=np.inf)
    straight = [row for row in many if 0.03 <= row["apart"] <= 0.3]  # above the noise, below the length of the weights
    logs = [np.log([row[key] for row in straight]) for key in ("apart", "error")]
    power = float(np.polyfit(logs[0], logs[1], 1)[0])
    return {
        "rows": rows,
        "outcome": [
            condition("below d samples sharing helps, up to apart", helped >= 0.3, helped, ">= 0.3"),
            condition("with 2 d samples it hurts, already from apart", hurt <= 0.1, hurt, "<= 0.1"),
            condition("the error grows as apart to the power", abs(power - 2) < 0.2, power, "2, within 0.2"),
            _as_expected("the error is the closed form's: largest ratio, either way", rows),
        ],
    }


def _as_expected(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    worst = max(max(row["error"] / row["expected"], row["expected"] / row["error"]) for row in rows)
    return condition(name, worst < 1 + TOLERANCE, worst, f"< {1 + TOLERANCE:g}")


def rank_figure(facts: dict[str, Any]) -> alt.HConcatChart:
    """The error by the number of features, and how much of the true subspace is missing."""
    import altair as alt

    from manyheads.theory.figures import lines

    error = [
        {"line": line, "x": row["rank"], "y": row[key]}
        for line, key in (("FedRep", "error"), ("closed form", "expected"))
        for row in facts["rows"]
    ]
    missing = [{"line": "FedRep", "x": row["rank"], "y": row["missing"]} for row in facts["rows"]]
    x = f"features k' (the truth has {facts['true_rank']})"
    return alt.hconcat(
        lines(error, "squared error (mean client)", x, log=True, points=True, dashed=["closed form"]),
        lines(missing, "distance: what is missed of the truth", x, log=True, points=True),
    ).resolve_scale(color="independent", strokeDash="independent")


def shared_figure(facts: dict[str, Any]) -> alt.HConcatChart:
    """The error by how far clients are apart from the shared subspace, for few samples and for many."""
    import altair as alt

    from manyheads.theory.figures import lines

    panels = []
    for samples in dict.fromkeys(row["samples"] for row in facts["rows"]):
        error = [
            {"line": line, "x": row["apart"], "y": row[key]}
            for line, key in (("FedRep", "error"), ("closed form", "expected"), ("each client alone", "error_local"))
            for row in facts["rows"]
            if row["samples"] == samples and row["apart"] > 0
        ]
        x = f"share of a client's weights outside ({samples} samples each, d = {facts['settings']['dim']})"
        panels.append(
            lines(error, "squared error (mean client)", x, log=True, log_x=True, points=True, dashed=["closed form"])
        )
    return alt.hconcat(*panels).resolve_scale(color="independent", strokeDash="independent")
