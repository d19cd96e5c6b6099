"""Charts for the papers' figures: lines, dots, maps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import altair as alt

__all__ = ["dashes", "dots", "heat", "lines", "order_of", "rows_of", "visible"]

SMALLEST = 1e-16
"""a logarithmic axis shows nothing below"""


def rows_of(series: Mapping[str, Sequence[float | None]]) -> list[dict[str, Any]]:
    """Series by name as rows for a chart; x is the index in the series."""
    return [{"line": name, "x": x, "y": y} for name, values in series.items() for x, y in enumerate(values)]


def order_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of rows, in the order in which they first appear."""
    return list(dict.fromkeys(row["line"] for row in rows))


def visible(rows: Sequence[Mapping[str, Any]], log: bool) -> list[Mapping[str, Any]]:
    """The rows that an axis can show."""
    return [row for row in rows if row["y"] is not None and (not log or row["y"] > SMALLEST)]


def dashes(order: Sequence[str], dashed: Collection[str]) -> alt.Scale:
    """Which of the lines are dashed."""
    return alt.Scale(domain=list(order), range=[[6, 4] if line in dashed else [1, 0] for line in order])


def lines(
    rows: Sequence[Mapping[str, Any]],
    y: str,
    x: str,
    *,
    log: bool = False,
    log_x: bool = False,
    points: bool = False,
    dashed: Collection[str] = (),
) -> alt.Chart:
    """Lines from rows of ``line``, ``x`` and ``y``, in the order in which they first appear; ``log`` is about y."""
    order = order_of(rows)
    scale = alt.Scale(type="log") if log else alt.Scale(zero=True)
    axis = alt.Axis(format="~g") if not log else alt.Axis(format=".0e", tickCount=8)
    legend = alt.Legend(orient="bottom", columns=1, labelLimit=300, symbolType="stroke")
    return (
        alt.Chart(alt.Data(values=visible(rows, log)))  # type: ignore[no-untyped-call]
        .mark_line(point=points)
        .encode(
            x=alt.X("x:Q", title=x, scale=alt.Scale(type="log"), axis=alt.Axis(tickCount=5))
            if log_x
            else alt.X("x:Q", title=x),
            y=alt.Y("y:Q", title=y, scale=scale, axis=axis),
            color=alt.Color("line:N", title=None, scale=alt.Scale(domain=order), legend=legend),
            strokeDash=alt.StrokeDash("line:N", title=None, scale=dashes(order, dashed), legend=legend),
        )
        .properties(width=320, height=220)
    )


def dots(rows: Sequence[Mapping[str, Any]], y: str, *, rule: float, ruled: str) -> alt.LayerChart:
    """Dots from rows of ``group``, ``kind`` and ``y`` on a logarithmic axis, and a dashed line, named, at ``rule``."""
    groups, kinds = (list(dict.fromkeys(row[key] for row in rows)) for key in ("group", "kind"))
    scale = alt.Scale(domain=kinds, range=["#4c78a8", "#f58518"])
    legend = alt.Legend(orient="bottom", columns=1, labelLimit=300)
    drawn = (
        alt.Chart(alt.Data(values=list(rows)))  # type: ignore[no-untyped-call]
        .mark_point(size=90, filled=True)
        .encode(
            x=alt.X("group:N", sort=groups, title=None, axis=alt.Axis(labelAngle=-30)),
            y=alt.Y("y:Q", title=y, scale=alt.Scale(type="log"), axis=alt.Axis(format=".0e", tickCount=8)),
            color=alt.Color("kind:N", title=None, scale=scale, legend=legend),
        )
    )
    line = alt.Chart(alt.Data(values=[{"y": rule, "name": ruled}]))  # type: ignore[no-untyped-call]
    named = line.mark_text(align="left", baseline="top", dy=4, x=4).encode(y="y:Q", text="name:N")
    return (drawn + line.mark_rule(strokeDash=[6, 4]).encode(y="y:Q") + named).properties(width=280, height=220)


def heat(cells: Sequence[Mapping[str, Any]], x: str, y: str, value: str, most: float) -> alt.LayerChart:
    """A map from cells of ``x``, ``y``, ``value`` and ``text``: blue below 0, red above, up to ``most`` either way."""
    base = alt.Chart(alt.Data(values=list(cells))).encode(  # type: ignore[no-untyped-call]
        x=alt.X("x:O", title=x, axis=alt.Axis(labelAngle=0)), y=alt.Y("y:O", title=y, sort="descending")
    )
    scale = alt.Scale(scheme="redblue", reverse=True, domain=[-most, most])
    legend = alt.Legend(orient="bottom", gradientLength=300, titleLimit=400)
    dark = f"abs(datum.value) > {0.6 * most}"
    ink = alt.condition(dark, alt.value("white"), alt.value("black"))
    coloured = base.mark_rect().encode(color=alt.Color("value:Q", title=value, scale=scale, legend=legend))
    return (coloured + base.mark_text(fontSize=10).encode(text="text:N", color=ink)).properties(width=300, height=180)
