"""Small charts, one for each site: ROC curves, calibration, and survival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from manyheads.experiments.quality import ClassQuality, SurvivalCurve
from manyheads.experiments.results import ComparisonResult
from manyheads.report.drawing import Chart, chart_of, coloured, stroked
from manyheads.report.names import display

__all__ = ["SMALL_TITLES", "side_by_side", "small_charts"]

SMALL_TITLES = {"roc": "ROC curve", "calibration": "calibration", "survival": "Kaplan-Meier curve"}
HEIGHT = 190
GROUPS = ("all", "low risk", "high risk")
GROUP_COLOURS = ("#7d828a", "#0072b2", "#d55e00")


def small_charts(result: ComparisonResult) -> dict[str, dict[str, Chart]]:
    """Return the charts of each kind that has any (``roc``, ``calibration``, ``survival``), by the name of the site."""
    names = list(dict.fromkeys(found.method for found in result.quality))
    predicted: dict[str, list[ClassQuality]] = {}
    for found in result.quality:
        predicted.setdefault(found.site, []).append(found)
    followed: dict[str, list[SurvivalCurve]] = {}
    for curve in result.survival:
        followed.setdefault(curve.site, []).append(curve)
    made = {
        "roc": {site: _roc(own, names) for site, own in predicted.items() if any(found.roc for found in own)},
        "calibration": {site: _calibration(own, names) for site, own in predicted.items()},
        "survival": {site: _survival(own) for site, own in followed.items()},
    }
    return {kind: charts for kind, charts in made.items() if charts}


def side_by_side(charts: Mapping[str, Chart]) -> alt.ConcatChart:
    """Return the charts of all sites as one figure."""
    sized = (chart.properties(width=HEIGHT, title=site) for site, chart in charts.items())
    return alt.concat(*sized, columns=3)


def _diagonal() -> alt.Chart:
    return chart_of([{"x": 0, "y": 0}, {"x": 1, "y": 1}]).mark_line(strokeWidth=1, opacity=0.35, color="gray")


def _share(field: str, title: str) -> dict[str, Any]:
    axis = alt.Axis(values=[0, 0.5, 1], format=".0%", grid=True)
    return {"shorthand": f"{field}:Q", "title": title, "scale": alt.Scale(domain=[0, 1]), "axis": axis}


def _roc(found: Sequence[ClassQuality], names: Sequence[str]) -> Chart:
    """Chart of the share of the class that is found against the share of the others that is mistaken for it."""
    rows = [
        {"method": display(f.method), "i": i, "x": round(false, 4), "y": round(true, 4)}
        for f in found
        for i, (false, true) in enumerate(f.roc)
    ]
    x, y = alt.X(**_share("x", "false positives")), alt.Y(**_share("y", "true positives"))
    tooltip = [
        alt.Tooltip("method:N", title="Model"),
        alt.Tooltip("x:Q", title="False positives", format=".0%"),
        alt.Tooltip("y:Q", title="True positives", format=".0%"),
    ]
    curve = (
        chart_of(rows)
        .mark_line(strokeWidth=2, interpolate="linear")
        .encode(x=x, y=y, order="i:Q", color=coloured(names), strokeDash=stroked(names), tooltip=tooltip)
    )
    return alt.layer(_diagonal().encode(x=x, y=y), curve).properties(height=HEIGHT)


def _calibration(found: Sequence[ClassQuality], names: Sequence[str]) -> Chart:
    """Chart of the share of samples that have the class against its predicted probability, with intervals."""
    rows = [
        {
            "method": display(f.method),
            "samples": b.samples,
            **{k: round(v, 4) for k, v in {"x": b.predicted, "y": b.observed, "low": b.low, "high": b.high}.items()},
        }
        for f in found
        for b in f.calibration
    ]
    x, y = alt.X(**_share("x", "predicted")), alt.Y(**_share("y", "observed"))
    tooltip = [
        alt.Tooltip("method:N", title="Model"),
        alt.Tooltip("samples:Q", title="Samples"),
        alt.Tooltip("x:Q", title="Predicted", format=".0%"),
        alt.Tooltip("y:Q", title="Observed", format=".0%"),
    ]
    base = chart_of(rows).encode(x=x, color=coloured(names))
    return alt.layer(
        _diagonal().encode(x=x, y=y),
        base.mark_rule(strokeWidth=1.2, opacity=0.6).encode(y=alt.Y(**_share("low", "observed")), y2="high"),
        base.mark_line(strokeWidth=1.5).encode(y=y, strokeDash=stroked(names)),
        base.mark_point(filled=True, size=36, opacity=1).encode(y=y, tooltip=tooltip),
    ).properties(height=HEIGHT)


def _survival(found: Sequence[SurvivalCurve]) -> Chart:
    """Chart of the Kaplan-Meier estimates: the share without event over time, with intervals."""
    rows = [
        {
            "group": c.group,
            "time": float(f"{t:.5g}"),
            "share": round(s, 4),
            "low": round(low, 4),
            "high": round(high, 4),
        }
        for c in found
        for t, s, low, high in zip(c.times, c.survival, c.low, c.high, strict=True)
    ]
    colour = alt.Color("group:N", legend=None, scale=alt.Scale(domain=list(GROUPS), range=list(GROUP_COLOURS)))
    base = chart_of(rows).encode(x=alt.X("time:Q", title="time"), color=colour)
    tooltip = [
        alt.Tooltip("group:N", title="Group"),
        alt.Tooltip("time:Q", title="Time"),
        alt.Tooltip("share:Q", title="Without event", format=".0%"),
    ]
    return alt.layer(
        base.mark_area(opacity=0.12, interpolate="step-after").encode(
            y=alt.Y(**_share("low", "without event")), y2="high"
        ),
        base.mark_line(strokeWidth=2, interpolate="step-after").encode(
            y=alt.Y(**_share("share", "without event")), tooltip=tooltip
        ),
    ).properties(height=HEIGHT)
