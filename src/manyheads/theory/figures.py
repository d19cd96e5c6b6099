"""Line charts for the papers' figures."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import altair as alt

__all__ = ["dashes", "lines", "order_of", "rows_of", "visible"]

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
            x=alt.X("x:Q", title=x),
            y=alt.Y("y:Q", title=y, scale=scale, axis=axis),
            color=alt.Color("line:N", title=None, scale=alt.Scale(domain=order), legend=legend),
            strokeDash=alt.StrokeDash("line:N", title=None, scale=dashes(order, dashed), legend=legend),
        )
        .properties(width=320, height=220)
    )
