"""Chart of how labels or targets are distributed over the sites."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from manyheads.experiments.describe import FederationFacts, Targets
from manyheads.report.drawing import SITES_NAMED, Chart, chart_of, some

__all__ = ["CLASSES_DRAWN", "ROWS_DRAWN", "distribution"]

ROWS_DRAWN, CLASSES_DRAWN = 200, 40
"""largest numbers of sites and of labels in the chart"""


def distribution(data: FederationFacts) -> Chart:
    """Chart of each site's training data: the share of each label, or mean and standard deviation of the targets."""
    drawn = some(data.clients, ROWS_DRAWN)
    named = len(drawn) <= SITES_NAMED
    step = 18 if named else max(3, 600 // len(drawn))
    axis = (
        alt.Axis(labelExpr="names[datum.value]", ticks=False, grid=False)
        if named
        else alt.Axis(labels=False, ticks=False)
    )
    place = alt.Y("row:O", title=None if named else "sites", axis=axis, scale=alt.Scale(domain=list(range(len(drawn)))))
    names = alt.param(name="names", value=[data.names[i] for i in drawn])
    chart = (
        _shares(data, data.labels, drawn, place) if data.labels else _targets(data, data.targets or (), drawn, place)
    )
    return chart.add_params(names).properties(height=step * len(drawn))


def _shares(data: FederationFacts, labels: Sequence[Sequence[int]], drawn: Sequence[int], place: alt.Y) -> Chart:
    classes = len(labels[0])
    called = data.label_names or [str(i) for i in range(classes)]
    total = [sum(column) for column in zip(*labels, strict=True)]
    kept = sorted(sorted(range(classes), key=lambda i: -total[i])[:CLASSES_DRAWN])
    rows = []
    for row, client in enumerate(drawn):
        counts = labels[client]
        whole = sum(counts) or 1
        cells = [(called[i], counts[i]) for i in kept]
        if classes > CLASSES_DRAWN:
            cells.append(("other", whole - sum(counts[i] for i in kept)))
        rows += [{"row": row, "label": label, "samples": n, "share": round(n / whole, 4)} for label, n in cells if n]
    columns = [called[i] for i in kept] + (["other"] if classes > CLASSES_DRAWN else [])
    tooltip = [
        alt.Tooltip("site:N", title="Site"),
        alt.Tooltip("label:N", title="Label"),
        alt.Tooltip("samples:Q", title="Training samples"),
        alt.Tooltip("share:Q", title="Share", format=".1%"),
    ]
    legend = alt.Legend(orient="top", title="share of the site's samples", format=".0%", values=[0.25, 0.5, 0.75, 1])
    return (
        chart_of(rows)
        .transform_calculate(site="names[datum.row]")
        .mark_rect()
        .encode(
            y=place,
            x=alt.X(
                "label:N", title="label", scale=alt.Scale(domain=columns), axis=alt.Axis(labelAngle=0, labelLimit=60)
            ),
            opacity=alt.Opacity("share:Q", scale=alt.Scale(domain=[0, 1], range=[0.05, 1]), legend=legend),
            tooltip=tooltip,
        )
    )


def _targets(data: FederationFacts, targets: Sequence[Targets], drawn: Sequence[int], place: alt.Y) -> Chart:
    rows = []
    for row, client in enumerate(drawn):
        mean, std = targets[client].mean, targets[client].std
        ends = {"mean": mean, "std": std, "low": mean - std, "high": mean + std}
        rows.append({"row": row, "site": data.names[client], **{k: float(f"{v:.4g}") for k, v in ends.items()}})
    tooltip = [
        alt.Tooltip("site:N", title="Site"),
        alt.Tooltip("mean:Q", title="Mean"),
        alt.Tooltip("std:Q", title="Deviation"),
    ]
    base = chart_of(rows).encode(y=place, tooltip=tooltip)
    axis = alt.X("low:Q", title="target: mean and standard deviation", scale=alt.Scale(zero=False))
    return alt.layer(
        base.mark_rule(strokeWidth=1.5, opacity=0.5).encode(x=axis, x2="high"),
        base.mark_point(filled=True, size=60, opacity=1).encode(x="mean:Q"),
    )
