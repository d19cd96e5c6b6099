"""What one model for all clients can reach (Section 2.1), and what FedAvg learns on the samples that FedRep learns on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.theory.collins2021.tasks import Tasks, enough_for_a_sweep, train_fedavg, train_fedrep
from manyheads.theory.facts import condition
from manyheads.theory.paper import Say

if TYPE_CHECKING:
    import altair as alt

    from manyheads.theory.collins2021.paper import Collins2021

__all__ = ["fedavg_figure", "fedavg_sweep", "irreducible_error"]

STEPS = {1: 0.2, 2: 0.2, 10: 0.1}
"""step size of FedAvg for each number of local steps"""
SAMPLES, NOISE, ROUNDS = 10, 1e-3**0.5, 300
"""few samples a client (fewer than dimensions), noise of variance 1e-3; with twice the usual clients, as in Figure 1"""


def irreducible_error(heads: np.ndarray) -> float:
    """The least mean loss of a single model, ``1/(2n) sum |w_i - mean w|^2``, reached by ``B w = B_* mean w``.

    This is the global error of Section 2.1, ``1/(2n) sum_i |1/n B_* sum_i' (w_i' - w_i)|^2``, because B_* is orthonormal.

    >>> irreducible_error(np.array([[1.0, 0.0], [-1.0, 0.0]]))
    0.5
    """
    return float(np.square(heads - heads.mean(axis=0)).sum(axis=1).mean() / 2)


def fedavg_sweep(paper: Collins2021, say: Say) -> dict[str, Any]:
    """FedAvg with 1, 2 and 10 local steps and FedRep on the same samples, fewer than a client has dimensions."""
    enough_for_a_sweep(paper.clients, paper.dim, paper.rank)
    tasks = Tasks(2 * paper.clients, paper.dim, paper.rank, min(SAMPLES, paper.dim // 2), NOISE, paper.seed)
    floor = irreducible_error(tasks.truth.heads)
    rows, series = [], {}
    for tau, alpha in STEPS.items():
        say(f"FedAvg, tau {tau}: {ROUNDS} rounds")
        found = train_fedavg(tasks, tau, alpha, ROUNDS, watch=True)
        series[f"FedAvg, tau {tau}"] = list(found.distances)
        own = np.square(found.own_heads(tasks) - tasks.weights).sum(axis=1)
        rows.append(_row(f"FedAvg, tau {tau}", found.distances[-1], found.errors(tasks), own))
    say(f"FedRep: {ROUNDS} rounds")
    found = train_fedrep(tasks, ROUNDS, watch=True)
    series["FedRep"] = list(found.distances)
    rows.append(_row("FedRep", found.distances[-1], found.errors(tasks), found.errors(tasks)))
    one, two, ten, fedrep = rows
    least = min(row["loss"] for row in rows[:3])
    return {
        "samples_per_client": tasks.samples,
        "irreducible": floor,
        "rows": rows,
        "series": series,
        "outcome": [
            condition("tau 1 does not learn the representation: distance", one["dist"] > 0.8, one["dist"], "> 0.8"),
            condition("tau 2 does: distance", two["dist"] < 0.4, two["dist"], "< 0.4"),
            condition("tau 10 does: distance", ten["dist"] < 0.1, ten["dist"], "< 0.1"),
            condition("no single model is below the irreducible error", least >= floor, least, f">= {floor:.4g}"),
            condition(
                "with its own head a client of tau 10 is far below it: loss",
                ten["loss_own_head"] < 0.05 * floor,
                ten["loss_own_head"],
                f"< {0.05 * floor:.4g}",
            ),
            condition("FedRep is best: distance", fedrep["dist"] < ten["dist"], fedrep["dist"], f"< {ten['dist']:.3g}"),
        ],
    }


def _row(method: str, dist: float, errors: np.ndarray, own: np.ndarray) -> dict[str, Any]:
    """Population losses are half the squared distance of the weights: inputs have covariance I."""
    return {"method": method, "dist": dist, "loss": float(errors.mean() / 2), "loss_own_head": float(own.mean() / 2)}


def fedavg_figure(facts: dict[str, Any]) -> alt.HConcatChart:
    """Distance over rounds, and the clients' losses with the model as it is and with a head of their own."""
    import altair as alt

    from manyheads.theory.figures import dots, lines, rows_of

    losses = [
        {"group": row["method"], "kind": name, "y": row[key]}
        for row in facts["rows"]
        for name, key in (("the model as it is", "loss"), ("with the client's own head", "loss_own_head"))
    ]
    return alt.hconcat(
        lines(rows_of(facts["series"]), "distance from the true representation", "round", log=True),
        dots(
            losses, "population loss (mean client)", rule=facts["irreducible"], ruled="irreducible error of one model"
        ),
    ).resolve_scale(color="independent", strokeDash="independent")
