"""The figure of Collins et al. 2022."""

from __future__ import annotations

from typing import Any

import altair as alt

from manyheads.theory.figures import lines, rows_of

__all__ = ["figure"]


def figure(facts: dict[str, Any]) -> alt.HConcatChart:
    """Distance, gradient norm, and what the proof controls, over rounds."""
    tau = facts["settings"]["tau"]
    series, d_gd, name = facts["series"], facts["d_gd"], f"FedAvg, {tau} local steps"
    dist = {name: series["dist"], "bound of Theorem 1": series["bound"], "D-GD": d_gd["dist"]}
    gradient = {name: series["gradient_norm"], "D-GD": d_gd["gradient_norm"]}
    proof = {
        "|I - alpha BᵀB|": series["delta"],
        "prior weight": series["prior_weight"],
        "diversity of the local heads / mu": [v / (facts["problem"]["mu"] or 1) for v in series["head_diversity"]],
    }
    return alt.hconcat(
        lines(rows_of(dist), "distance from the true representation", "round", log=True, dashed=["D-GD"]),
        lines(rows_of(gradient), "norm of the gradient of the global loss", "round", log=True, dashed=["D-GD"]),
        lines(rows_of(proof), "what the proof controls", "round"),
    ).resolve_scale(color="independent", strokeDash="independent")
