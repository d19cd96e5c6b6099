"""What all charts share: the theme, the methods' colours and strokes, line charts, and saving to a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import altair as alt
import vl_convert

from manyheads.core.files import replacing
from manyheads.core.plain import to_json
from manyheads.report.names import Look, display, looks
from manyheads.report.words import Scale, first_upper

__all__ = [
    "FORMATS",
    "LEGEND",
    "SITES_DRAWN",
    "SITES_NAMED",
    "Chart",
    "Figure",
    "chart_name",
    "chart_of",
    "coloured",
    "for_page",
    "inline",
    "lines",
    "save",
    "some",
    "stroked",
]

Chart = alt.Chart | alt.LayerChart | alt.FacetChart
Figure = Chart | alt.ConcatChart
FORMATS = ("svg", "png")
SITES_DRAWN = 500
"""largest number of sites in a chart or table of sites"""
SITES_NAMED = 40
"""largest number of sites whose names an axis shows"""
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
PAPER_INK, PAPER_WIDTH = "#22262b", 640
LEGEND = alt.Legend(orient="bottom", columns=4, symbolType="stroke", symbolSize=300)
"""legend of methods for figures; the page has buttons instead"""


def chart_name(kind: str, key: str) -> str:
    """
    >>> chart_name("monitor", "head_diversity")
    'monitor-head-diversity'
    """
    return f"{kind}-{key.replace('_', '-')}"


def inline(rows: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    return alt.InlineData(values=list(rows))


def chart_of(rows: Sequence[Mapping[str, Any]]) -> alt.Chart:
    return alt.Chart(inline(rows))


def coloured(names: Sequence[str], legend: alt.Legend | None = None) -> Any:
    """Colour encoding of the field ``method`` (display names): each method's own colour."""
    return alt.Color("method:N", title=None, legend=legend, scale=_by_method(names, [x.colour for x in _looks(names)]))


def stroked(names: Sequence[str], legend: alt.Legend | None = None) -> alt.StrokeDash:
    strokes = [list(x.stroke) or [1, 0] for x in _looks(names)]
    return alt.StrokeDash("method:N", title=None, legend=legend, scale=_by_method(names, strokes))


def lines(
    data: alt.InlineData | alt.NamedData,
    names: Sequence[str],
    x: Literal["round", "mb"],
    title: str,
    scale: Scale,
    y: str = "score",
    *,
    legend: alt.Legend | None = None,
    band: bool = False,
) -> alt.LayerChart:
    """Line chart over rounds or megabytes, from rows with ``method``, ``round``, ``mb`` and the field that ``y`` names.
    Rows without a value of it are left out.

    ``band`` shades the area from field ``low`` to ``high``. The chart's parameter ``shown`` lists the methods drawn.
    """
    what = {"round": "round", "mb": "MB sent by and to all sites"}[x]
    base = (
        alt.Chart(data)
        .transform_filter(f"indexof(shown, datum.method) >= 0 && isValid(datum['{y}'])")
        .encode(
            x=alt.X(f"{x}:Q", title=what, axis=alt.Axis(tickMinStep=1 if x == "round" else alt.Undefined)),
            color=coloured(names, legend),
        )
    )
    tooltip = [
        alt.Tooltip("method:N", title="Method"),
        alt.Tooltip("round:Q", title="Round"),
        *([alt.Tooltip("mb:Q", title="MB sent")] if x == "mb" else []),
        alt.Tooltip(f"{y}:Q", title=first_upper(title), format=scale.format),
    ]
    place = alt.Y(f"{y}:Q", title=title, scale=_between(scale))
    layers: list[Any] = [
        base.mark_line(strokeWidth=2).encode(y=place, strokeDash=stroked(names, legend)),
        base.mark_point(filled=True, size=22, opacity=1).encode(y=f"{y}:Q", tooltip=tooltip),
    ]
    if band:
        layers.insert(0, base.mark_area(opacity=0.12).encode(y=alt.Y("low:Q"), y2="high"))
    shown = alt.param(name="shown", value=[display(n) for n in names])
    return alt.LayerChart(layer=layers).add_params(shown).properties(height=280)


def _between(scale: Scale) -> alt.Scale:
    """Return the axis scale: the quantity's bounds where it has any, else the range of the values."""
    low, high = (alt.Undefined if end is None else scale.factor * end for end in scale.quantity.bounds)
    return alt.Scale(zero=False, domainMin=low, domainMax=high)


def _looks(names: Sequence[str]) -> list[Look]:
    return list(looks(names).values())


def _by_method(names: Sequence[str], values: list[Any]) -> alt.Scale:
    return alt.Scale(domain=[display(n) for n in names], range=values)


def some(count: int, most: int) -> list[int]:
    """Return the indices below ``count``: all of them, or ``most`` evenly spaced ones.

    >>> some(3, 5), some(10, 5)
    ([0, 1, 2], [0, 2, 4, 6, 8])
    """
    return list(range(count)) if count <= most else [i * count // most for i in range(most)]


def _theme(ink: str) -> dict[str, Any]:
    """Vega config with axes and text in one colour: on the page ``currentColor``, which suits dark mode and print."""
    text = {"labelColor": ink, "titleColor": ink, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    lines = {"domainColor": ink, "domainOpacity": 0.4, "tickColor": ink, "tickOpacity": 0.4}
    return {
        "background": "transparent",
        "font": FONT,
        "view": {"stroke": None},
        "axisQuantitative": {"labelOverlap": "greedy"},
        "axis": {**text, **lines, "gridColor": ink, "gridOpacity": 0.12, "labelLimit": 150, "labelSeparation": 8},
        "legend": {**text, "labelLimit": 220, "symbolOpacity": 1},
        "title": {"color": ink, "fontSize": 13, "fontWeight": "normal", "anchor": "start"},
        "rule": {"color": ink},
        "rect": {"fill": ink},
        "point": {"color": ink},
        "text": {"color": ink},
    }


def for_page(chart: Chart) -> dict[str, Any]:
    """Return a chart's Vega-Lite specification for the page, as wide as its container."""
    return chart.properties(width="container").to_dict() | {"config": _theme("currentColor")}


def save(chart: Figure, title: str, path: Path, datasets: Mapping[str, list[dict[str, Any]]] | None = None) -> Path:
    """Write a chart to a .svg or .png file on white; ``datasets``: the rows of the named data it refers to."""
    sized = chart if isinstance(chart, alt.ConcatChart) else chart.properties(width=PAPER_WIDTH)
    spec = sized.properties(title=title).to_dict()
    spec["config"] = _theme(PAPER_INK) | {"background": "white"}
    spec["datasets"] = spec.get("datasets", {}) | dict(datasets or {})
    with replacing(path) as temporary:
        if path.suffix == ".svg":
            temporary.write_text(vl_convert.vegalite_to_svg(to_json(spec)), encoding="utf-8")
        else:
            temporary.write_bytes(vl_convert.vegalite_to_png(to_json(spec), scale=2))
    return path
