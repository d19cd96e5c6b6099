"""Charts of each site's gain over the best that it can do alone. They share named datasets instead of holding copies of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from manyheads.experiments.describe import DISTANCES
from manyheads.experiments.gains import SiteGain
from manyheads.experiments.results import ComparisonResult
from manyheads.report.drawing import SITES_DRAWN, SITES_NAMED, Chart, chart_of, coloured, some
from manyheads.report.names import display
from manyheads.report.words import NONE, Scale, first_upper

__all__ = ["against", "gain_tables", "gains"]

VERDICTS = {"gains": "gains", "loses": "loses", "unclear": "too few test samples to tell"}
DOTS_NAMED = 20
"""largest number of sites whose names stand beside their points"""


def gain_tables(result: ComparisonResult, names: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the datasets ``gains`` (a row per method and site, largest gain first) and ``sites`` (a row per site)."""
    scale, measures = Scale.of(result.score), result.data.distances
    gained, sites = [], []
    for name in names:
        drawn = sorted(_drawn(result, name), key=lambda r: -r.gain)
        for rank, row in enumerate(drawn):
            low, high = row.interval or (None, None)
            values = {"with": row.score, "gain": row.gain, "low": low, "high": high}
            start = {"method": display(name), "rank": rank, "client": row.client, "verdict": VERDICTS[row.verdict]}
            gained.append(start | {key: scale.drawn(value) for key, value in values.items()})
    for row in _drawn(result, names[0]):
        own = {"client": row.client, "site": row.name, "samples": row.samples, "alone": scale.drawn(row.alone)}
        sites.append(own | {d: float(f"{found.per_client[row.client]:.4g}") for d, found in measures.items()})
    return {"gains": gained, "sites": sites}


def _drawn(result: ComparisonResult, name: str) -> list[SiteGain]:
    found = result[name].gains
    return [found[i] for i in some(len(found), SITES_DRAWN)]


def _site_tooltip(scale: Scale) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("site:N", title="Site"),
        alt.Tooltip("samples:Q", title="Test samples"),
        alt.Tooltip("alone:Q", title=f"{first_upper(scale.title)}, best alone", format=scale.format),
        alt.Tooltip("with:Q", title=f"{first_upper(scale.title)}, with the method", format=scale.format),
        alt.Tooltip("gain:Q", title="Gain", format=f"+{scale.format}"),
        alt.Tooltip("interval:N", title="95 % interval"),
        alt.Tooltip("verdict:N", title="Verdict"),
    ]


def _of_method(result: ComparisonResult) -> alt.Chart:
    """Base chart of one method's gains; the chart's parameter ``method`` names the method."""
    scale, names = Scale.of(result.score), list(result.others)
    own = ["site", "samples", "alone", *result.data.distances]
    written = f"'[' + format(datum.low, '+{scale.format}') + ', ' + format(datum.high, '+{scale.format}') + ']'"
    return (
        alt.Chart(alt.NamedData("gains"))
        .transform_filter("datum.method === method")
        .transform_lookup("client", alt.LookupData(alt.NamedData("sites"), "client", own))
        .transform_calculate(interval=f"datum.low == null ? '{NONE}' : {written}")
        .encode(
            fill=coloured(names),
            stroke=coloured(names),
            fillOpacity=alt.condition(f"datum.verdict === '{VERDICTS['unclear']}'", alt.value(0.3), alt.value(1)),
            tooltip=_site_tooltip(scale),
        )
    )


def gains(result: ComparisonResult, shown: str) -> Chart:
    """Chart of the sites' gains over the best alone with one method (at first ``shown``), sorted, with intervals."""
    names = list(result.others)
    base = _of_method(result)
    drawn = min(SITES_DRAWN, len(result[shown].gains))
    params = [alt.param(name="method", value=display(shown))]
    value, low, high = "gain:Q", "low:Q", "high"
    title = Scale.of(result.score).gain_title
    zero = chart_of([{"gain": 0}])
    if drawn <= SITES_NAMED:
        ranked = {n: sorted(_drawn(result, n), key=lambda r: -r.gain) for n in names}
        labels = {display(n): [row.name for row in rows] for n, rows in ranked.items()}
        params.append(alt.param(name="labels", value=labels))
        place: Any = alt.Y("rank:O", title=None, axis=alt.Axis(labelExpr="labels[method][datum.value]", ticks=False))
        bars = base.mark_bar(height={"band": 0.7}).encode(x=alt.X(value, title=title), y=place)
        whiskers = base.mark_rule(strokeWidth=1.2).encode(x=alt.X(low), x2=high, y=place)
        line, height = zero.mark_rule(opacity=0.7).encode(x="gain:Q"), 18 * drawn
    else:
        place = alt.X(
            "rank:O", title="sites, from the largest gain to the smallest", axis=alt.Axis(labels=False, ticks=False)
        )
        bars = base.mark_bar(width={"band": 0.85}).encode(y=alt.Y(value, title=title), x=place)
        whiskers = base.mark_rule(strokeWidth=1).encode(y=alt.Y(low), y2=high, x=place)
        line, height = zero.mark_rule(opacity=0.7).encode(y="gain:Q"), 280
    whiskers = whiskers.transform_filter("datum.low != null").encode(stroke=alt.value("gray"))
    return alt.layer(bars, whiskers, line).add_params(*params).properties(height=height)


def against(result: ComparisonResult, measure: str, shown: str) -> Chart:
    """Scatter chart of each site's gain against the distance of its data from all sites' data (``measure``)."""
    points = (
        _of_method(result)
        .mark_point(filled=True, size=55)
        .encode(
            x=alt.X(f"{measure}:Q", title=DISTANCES[measure], scale=alt.Scale(zero=False)),
            y=alt.Y("gain:Q", title=Scale.of(result.score).gain_title),
        )
    )
    zero = chart_of([{"gain": 0}]).mark_rule(opacity=0.5).encode(y="gain:Q")
    layers = [zero, points]
    if len(result[shown].gains) <= DOTS_NAMED:
        written = points.mark_text(dy=-10, limit=130).encode(text="site:N", fillOpacity=alt.value(1))
        layers.append(written.encode(fill=alt.value("currentColor"), stroke=alt.value(None)))
    return alt.layer(*layers).add_params(alt.param(name="method", value=display(shown))).properties(height=220)
