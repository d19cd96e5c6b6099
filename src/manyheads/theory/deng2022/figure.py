"""The figure of Deng et al. 2022."""

from __future__ import annotations

from typing import Any

import altair as alt

from manyheads.theory.figures import lines, rows_of

__all__ = ["figure"]


def figure(facts: dict[str, Any]) -> alt.VConcatChart | alt.ConcatChart:
    """The loss at several widths and numbers of local steps, and what has to stay in a band as the width grows."""
    by_width, by_tau = facts["losses"]["width"], facts["losses"]["tau"]
    ratios = {
        "|grad|² / (m loss / d), largest": "gradient_upper",
        "|grad|² / (m φ loss / (d n²)), smallest": "gradient_lower",
        "deviation² / (η² τ² m n loss / d), largest": "deviation",
        "change of outputs² / (L³ |ΔW|²), largest": "outputs",
        "the same with m/d": "outputs_m_d",
    }
    more = {
        "Lemma 1: rest of the linear part": "semi_smoothness",
        "Lemma 3: features, way from the start": "features_moved",
        "Lemma 3: features, change": "features_apart",
        "Lemma 3: backward products, change": "backward_moved",
        "Lemma 3: backward products": "backward",
        "Lemma 7, corrected: E|mean gradient|²": "stochastic_mean",
    }
    title, width = "measured / expression in O(.) or Ω(.)", "width m"
    charts = (
        lines(rows_of({f"width {m}": loss for m, loss in by_width.items()}), "loss", "round", log=True),
        lines(rows_of({f"local steps: {tau}": loss for tau, loss in by_tau.items()}), "loss", "round", log=True),
        lines(_bands(facts, ratios), title, width, log=True, points=True),
        lines(_bands(facts, more), title, width, log=True, points=True),
    )
    above, below = (
        (left | right).resolve_scale(color="independent", strokeDash="independent")
        for left, right in (charts[:2], charts[2:])
    )
    return (above & below).resolve_scale(color="independent", strokeDash="independent")


def _bands(facts: dict[str, Any], ratios: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"line": line, "x": row["width"], "y": row[key]} for line, key in ratios.items() for row in facts["by_width"]
    ]
