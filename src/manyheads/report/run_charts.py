"""The charts of runs. They share named datasets, ``rows`` and ``sites``, which a live page replaces as the run goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt

from manyheads.report.drawing import LEGEND, SITES_NAMED, Chart, chart_name, coloured, lines
from manyheads.report.names import display
from manyheads.report.runs import LOSS, RunFacts, curve, site_rows
from manyheads.report.words import Scale, first_upper, monitor_named

__all__ = ["labels_of", "metrics_of", "monitors_of", "run_charts", "run_datasets"]


def labels_of(runs: Sequence[RunFacts]) -> list[str]:
    """Return unique labels of the runs: their methods, or their folders if methods repeat."""
    methods = [run.method for run in runs]
    return methods if max(Counter(methods).values()) == 1 else [str(run.folder) for run in runs]


def run_datasets(runs: Sequence[RunFacts]) -> dict[str, list[dict[str, Any]]]:
    """Return the datasets that the charts refer to by name."""
    labelled = list(zip(runs, labels_of(runs), strict=True))
    return {
        "rows": [row for run, label in labelled for row in curve(run, label)],
        "sites": [row for run, label in labelled for row in site_rows(run, label)],
    }


def run_charts(runs: Sequence[RunFacts], legend: alt.Legend | None = LEGEND) -> dict[str, tuple[str, Chart]]:
    """Return title and chart of all charts of the runs, by the name of the file; empty before the first round."""
    if not any(run.rounds for run in runs):
        return {}
    labels, loss = labels_of(runs), Scale.of("loss")

    def over(what: str, title: str, scale: Scale, x: Any = "round") -> tuple[str, Chart]:
        words = {"round": "rounds", "mb": "bytes"}[x]
        drawn = lines(alt.NamedData("rows"), labels, x, title, scale, what, legend=legend)
        return f"{title} over {words}", drawn

    made = {"training-loss": over(LOSS, f"training {loss.title}", loss)}
    for name, scale in metrics_of(runs).items():
        if name not in _from_the_start(runs):
            continue
        title = f"{runs[0].split} {scale.title}"
        if name == runs[0].score:
            made |= {"rounds": over(name, title, scale), "bytes": over(name, title, scale, "mb")}
        else:
            made[name.replace("_", "-")] = over(name, title, scale)
    for name in monitors_of(runs):
        scale = Scale(monitor_named(name))
        made[chart_name("monitor", name)] = over(name, scale.title, scale)
    sites = [site_rows(run, label) for run, label in zip(runs, labels, strict=True)]
    if any(sites):
        scale = runs[0].scale
        made["sites"] = (f"{scale.name} of each site", _sites(labels, scale, max(map(len, sites))))
    return made


def metrics_of(runs: Sequence[RunFacts]) -> dict[str, Scale]:
    """Return the scales of all metrics of the runs by name, the score first; empty before the first evaluation."""
    found = dict.fromkeys(name for run in runs if run.evaluation for name in run.evaluation.values)
    return {name: Scale.of(name) for name in sorted(found, key=lambda name: name != runs[0].score)}


def _from_the_start(runs: Sequence[RunFacts]) -> set[str]:
    """Return the names of the metrics of every evaluation; the others are measured after the last round alone."""
    firsts = [next((at.evaluation.values for at in run.rounds if at.evaluation), {}) for run in runs]
    return {name for values in firsts for name in values}


def monitors_of(runs: Sequence[RunFacts]) -> list[str]:
    """Return the names of the monitored quantities in the last round of any run."""
    return list(dict.fromkeys(name for run in runs if run.rounds for name in run.rounds[-1].monitors))


def _sites(labels: Sequence[str], scale: Scale, count: int) -> Chart:
    """Bar chart of the sites' scores, best first; the chart's parameter ``method`` selects the run."""
    named = count <= SITES_NAMED
    tooltip = [
        alt.Tooltip("site:N", title="Site"),
        alt.Tooltip("value:Q", title=first_upper(scale.title), format=scale.format),
    ]
    base = (
        alt.Chart(alt.NamedData("sites"))
        .transform_filter("datum.method === method")
        .mark_bar()
        .encode(color=coloured(labels), tooltip=tooltip)
    )
    best_first = alt.EncodingSortField("rank")
    if named:
        place = alt.Y("site:N", title=None, sort=best_first, axis=alt.Axis(ticks=False))
        drawn = base.encode(y=place, x=alt.X("value:Q", title=scale.title)).properties(height=18 * count)
    else:
        hidden = alt.X("rank:O", title="sites, from best to worst", axis=alt.Axis(labels=False, ticks=False))
        drawn = base.encode(x=hidden, y=alt.Y("value:Q", title=scale.title)).properties(height=240)
    return drawn.add_params(alt.param(name="method", value=display(labels[0])))
