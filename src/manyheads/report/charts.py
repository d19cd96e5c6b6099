"""The charts of a comparison's results; :mod:`manyheads.report.page` puts them on the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import altair as alt

from manyheads.experiments.results import ComparisonResult
from manyheads.report.drawing import Chart, chart_of, coloured, inline, lines
from manyheads.report.names import display
from manyheads.report.words import Scale, first_upper, monitor_named

__all__ = ["curved", "curves", "fairness", "levels", "monitored", "spreads"]

ROW = 22
"""height of a method's row, in pixels"""


def _rows(names: Sequence[str]) -> alt.Y:
    """Return the y axis with one row per method, in the order of ``names``."""
    return alt.Y("method:N", sort=[display(n) for n in names], title=None, axis=alt.Axis(labelLimit=190, ticks=False))


def levels(result: ComparisonResult) -> Chart:
    """Chart of each method's test score: the mean, its interval, and the score of each seed."""
    scale, names = Scale.of(result.score), result.ranked
    rows, seeds = [], []
    for name in names:
        method = result[name]
        low, high = method.interval or (None, None)
        rows.append(
            {
                "method": display(name),
                "value": scale.drawn(method.score),
                "low": scale.drawn(low),
                "high": scale.drawn(high),
                "interval": scale.interval(method.interval),
            }
        )
        runs = zip(result.seeds, method.per_seed, strict=False)
        seeds += [{"method": display(name), "number": seed, "seed": scale.drawn(v)} for seed, v in runs]
    axis = alt.X("value:Q", title=f"test {scale.title}", scale=alt.Scale(zero=False))
    base = chart_of(rows).encode(y=_rows(names), color=coloured(names))
    tooltip = [
        alt.Tooltip("method:N", title="Method"),
        alt.Tooltip("value:Q", title=first_upper(scale.title), format=scale.format),
        alt.Tooltip("interval:N", title="95 % interval"),
    ]
    seeds_tooltip = [
        alt.Tooltip("method:N", title="Method"),
        alt.Tooltip("number:N", title="Seed"),
        alt.Tooltip("seed:Q", title=first_upper(scale.title), format=scale.format),
    ]
    alone = chart_of([{"x": scale.drawn(result.alone.score)}])
    return alt.layer(
        alone.mark_rule(strokeDash=[3, 3], opacity=0.6).encode(x="x:Q"),
        base.transform_filter("datum.low != null").mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q"),
        chart_of(seeds)
        .mark_tick(thickness=1.5, size=9, opacity=0.75)
        .encode(y=_rows(names), x="seed:Q", color=coloured(names), tooltip=seeds_tooltip),
        base.mark_point(filled=True, size=85, opacity=1).encode(x=axis, tooltip=tooltip),
    ).properties(height=ROW * len(names))


def curved(result: ComparisonResult) -> list[str]:
    """Return the methods that have a learning curve."""
    return [name for name, method in result.methods.items() if method.curve]


def curves(result: ComparisonResult, over: Literal["round", "mb"], legend: alt.Legend | None = None) -> Chart:
    """Learning curves on validation samples: the mean and the range over seeds, with a line at the target score."""
    scale, names = Scale.of(result.score), curved(result)
    rows = [
        {
            "method": display(name),
            "round": point.round,
            "mb": float(f"{point.bytes / 1e6:.4g}"),
            "score": scale.drawn(point.score),
            "low": scale.drawn(point.low),
            "high": scale.drawn(point.high),
        }
        for name in names
        for point in result[name].curve
        if over == "round" or point.bytes
    ]
    drawn = lines(inline(rows), names, over, f"validation {scale.title}", scale, legend=legend, band=result.folds > 1)
    words = f"target {scale.value(result.target)}{scale.unit}"
    target = chart_of([{"target": scale.drawn(result.target), "words": words}]).encode(y="target:Q")
    label = target.mark_text(align="left", baseline="bottom", dx=3, dy=-2, opacity=0.8)
    return (
        drawn + target.mark_rule(strokeDash=[2, 3], opacity=0.7) + label.encode(x=alt.value(0), text="words:N")
    ).properties(height=280)


def monitored(result: ComparisonResult, monitor: str, legend: alt.Legend | None = None) -> Chart:
    """Chart of a monitored quantity over rounds, for the methods that have it."""
    scale = Scale(monitor_named(monitor))
    rows = [
        {"method": display(name), "round": point.round, "value": scale.drawn(point.value)}
        for name, method in result.methods.items()
        for point in method.monitors.get(monitor, ())
    ]
    return lines(inline(rows), curved(result), "round", scale.title, scale, "value", legend=legend)


def fairness(result: ComparisonResult) -> Chart:
    """Chart of each method's mean score over all sites (filled points) and over the worst tenth of sites (open)."""
    scale, names = Scale.of(result.score), result.ranked
    rows = [
        {
            "method": display(n),
            "mean": scale.drawn(result[n].score),
            "worst": scale.drawn(result[n].worst_decile),
        }
        for n in names
    ]
    tooltip = [
        alt.Tooltip("method:N", title="Method"),
        alt.Tooltip("mean:Q", title="Mean over sites", format=scale.format),
        alt.Tooltip("worst:Q", title="Worst tenth of sites", format=scale.format),
    ]
    base = chart_of(rows).encode(y=_rows(names), color=coloured(names), tooltip=tooltip)
    axis = alt.X(
        "worst:Q",
        title=f"test {scale.title}: worst tenth (open), mean (full)",
        scale=alt.Scale(zero=False, nice=False, padding=8),
    )
    return alt.layer(
        base.mark_rule(strokeWidth=1.5).encode(x=axis, x2="mean"),
        base.mark_point(filled=False, size=75, strokeWidth=2, opacity=1).encode(x=axis),
        base.mark_point(filled=True, size=85, opacity=1).encode(x="mean:Q"),
    ).properties(height=ROW * len(names))


def spreads(result: ComparisonResult) -> Chart:
    """Chart of the standard deviation over sites of each method's score."""
    scale, names = Scale.of(result.score), result.ranked
    rows = [{"method": display(n), "spread": scale.drawn(result[n].spread)} for n in names]
    tooltip = [alt.Tooltip("method:N", title="Method"), alt.Tooltip("spread:Q", title="Spread", format=scale.format)]
    return (
        chart_of(rows)
        .mark_bar(height={"band": 0.55})
        .encode(
            y=_rows(names),
            x=alt.X("spread:Q", title=f"standard deviation over sites{scale.spread_unit}"),
            color=coloured(names),
            tooltip=tooltip,
        )
        .properties(height=ROW * len(names))
    )
