"""Charts of experiments: lines with the spread over seeds, bars, matrices; and the title that says what was run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from textwrap import wrap
from types import MappingProxyType
from typing import Any, Literal

import altair as alt

from manyheads.theory.figures import dashes, order_of, visible

__all__ = ["PALETTE", "banded", "matrix", "row", "titled"]

CHARACTERS = 110
"""in a line below a title"""
PALETTE = ("#4c78a8", "#f58518", "#e45756", "#72b7b2", "#54a24b", "#b279a2", "#ff9da6", "#9d755d", "#eeca3b", "#bab0ac")


def row(line: str, seed: int, x: float, y: float | None) -> dict[str, Any]:
    """One point of a line."""
    return {"line": line, "seed": seed, "x": x, "y": y}


def banded(
    rows: Sequence[Mapping[str, Any]],
    y: str,
    x: str,
    *,
    title: str = "",
    log: bool = False,
    log_x: bool = False,
    points: bool = False,
    dashed: Collection[str] = (),
    like: Mapping[str, str] = MappingProxyType({}),
    domain: tuple[float, float] | None = None,
    spread: Literal["range", "deviation"] = "range",
    width: int = 300,
    height: int = 210,
) -> alt.LayerChart | alt.FacetChart:
    """The mean over seeds of each line of ``rows``; ``log`` is about y.

    Lines named by ``like`` are dashed, in the colour of another. ``spread`` shows the seeds: a band from the least to the
    greatest, or bars of a standard deviation to both sides. Without rows it is a panel that says so, without scales,
    since those of a panel without lines would leave the panels beside it without them too.
    """
    if not rows:
        nothing = alt.Chart(alt.Data(values=[{"words": "not measured"}]))  # type: ignore[no-untyped-call]
        return alt.layer(nothing.mark_text(color="gray").encode(text="words:N")).properties(
            width=width, height=height, title=title
        )
    order = order_of(rows)
    if log:
        scale, axis = alt.Scale(type="log"), alt.Axis(format=".0e", tickCount=6)
    else:
        scale, axis = alt.Scale(zero=False, domain=list(domain) if domain else alt.Undefined), alt.Axis()
    across = alt.Scale(type="log", nice=False) if log_x else alt.Scale(zero=False, nice=False)
    legend = alt.Legend(
        orient="bottom", columns=2, labelLimit=260, symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2
    )
    own = list(dict.fromkeys(like.get(line, line) for line in order))
    colours = [PALETTE[own.index(like.get(line, line)) % len(PALETTE)] for line in order]
    base = alt.Chart(alt.Data(values=visible(rows, log))).encode(  # type: ignore[no-untyped-call]
        x=alt.X("x:Q", title=x, scale=across),
        color=alt.Color("line:N", title=None, scale=alt.Scale(domain=order, range=colours), legend=legend),
    )
    if spread == "range":
        seeds = base.mark_area(opacity=0.15).encode(y=alt.Y("min(y):Q", title=y, scale=scale, axis=axis), y2="max(y):Q")
    else:
        seeds = base.mark_errorbar(extent="stdev", ticks=True).encode(y=alt.Y("y:Q", title=y, scale=scale, axis=axis))
    line = base.mark_line(point=points).encode(
        y=alt.Y("mean(y):Q", title=y, scale=scale, axis=axis),
        strokeDash=alt.StrokeDash("line:N", title=None, scale=dashes(order, {*dashed, *like}), legend=legend),
    )
    return alt.layer(seeds, line).properties(width=width, height=height, title=title)


def matrix(
    values: Sequence[Sequence[float]],
    title: str,
    *,
    x: str,
    y: str,
    size: int = 170,
    domain: tuple[float, float] = (0, 1),
) -> alt.Chart:
    """A matrix of numbers as coloured squares, its first row on top."""
    rows = [{"x": j, "y": i, "v": v} for i, line in enumerate(values) for j, v in enumerate(line)]
    return (
        alt.Chart(alt.Data(values=rows))  # type: ignore[no-untyped-call]
        .mark_rect()
        .encode(
            x=alt.X("x:O", title=x, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("y:O", title=y),
            color=alt.Color("v:Q", title=None, scale=alt.Scale(scheme="viridis", domain=list(domain))),
        )
        .properties(width=size, height=size, title=title)
    )


def titled(chart: Any, title: str, lines: Sequence[str]) -> Any:
    """The chart under a title and some smaller lines."""
    below = [part for line in lines for part in wrap(line, CHARACTERS)]
    return chart.properties(
        title=alt.TitleParams(title, subtitle=below, anchor="start", fontSize=14, subtitleFontSize=11, offset=12)
    ).configure_view(stroke=None)
