"""The figure of Fallah et al. 2020."""

from __future__ import annotations

from typing import Any

import altair as alt

from manyheads.theory.figures import lines, rows_of

__all__ = ["figure"]


def figure(facts: dict[str, Any]) -> alt.HConcatChart | alt.ConcatChart:
    """The theorem's average against its bound, the drift within a round, and every lemma's measurement and bound."""
    series = facts["series"]
    mean = {
        "bound of Theorem 4.5": series["bound"],
        "the same with 96 for 192": series["bound_corrected"],
        "its first term": series["bound_first_term"],
        "measured": series["mean_gradient_square"],
    }
    left = lines(rows_of(mean), "mean of |grad F|² over the rounds", "round", log=True)
    steps = {
        "bound (59a)": "bound_mean",
        "recursion (67), of its proof": "bound_recursion_mean",
        "measured, largest of some rounds": "drift",
    }
    apart = [
        {"line": line, "x": row["step"], "y": row[key]} for line, key in steps.items() for row in facts["local_steps"]
    ]
    middle = lines(apart, "mean distance of local iterates from their mean", "local step t", log=True, points=True)
    every = left | middle | _spans([*facts["lemmas"], *facts["similarity"]])
    return every.resolve_scale(color="independent", strokeDash="independent")


def _spans(rows: list[dict[str, Any]]) -> alt.LayerChart:
    """From every measured number to its bound, where a logarithmic axis can show both."""
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
    return chart.properties(width=300, height=320)
