"""Text alternatives of the charts, for screen readers."""

from __future__ import annotations

from manyheads.experiments.describe import DISTANCES
from manyheads.experiments.results import ComparisonResult
from manyheads.report.drawing import chart_name
from manyheads.report.names import display
from manyheads.report.quality import SMALL_TITLES, small_charts
from manyheads.report.summary import judged
from manyheads.report.words import Scale, explained, first_upper, monitor_named

__all__ = ["alternatives"]


def alternatives(result: ComparisonResult) -> dict[str, str]:
    """Return a one-sentence description of each chart of a comparison, by the chart's name."""
    scale, names, data = Scale.of(result.score), result.ranked, result.data
    methods, unit = result.methods, scale.unit
    fair = min(names, key=lambda n: scale.best_first * methods[n].worst_decile)
    even = min(names, key=lambda n: methods[n].spread)
    final = {n: methods[n].curve[-1].score for n in names if methods[n].curve}
    ends = ", ".join(f"{display(n)} {scale.value(v)}{unit}" for n, v in final.items())
    best, last = (f"{display(n)} with {scale.value(methods[n].score)}{unit}" for n in (names[0], names[-1]))
    holds = "share of each label" if data.labels else "mean and deviation of the target"
    said = {
        "methods": f"Test {scale.name} by method, with intervals: from {best} to {last}.",
        "rounds": f"Learning curves over rounds on validation samples. After the last round: {ends}.",
        "bytes": f"Learning curves over megabytes sent, on validation samples. At the end: {ends}.",
        "fairness": f"Mean and worst tenth of sites by method. {display(fair)} serves the worst tenth best, "
        f"with {scale.value(methods[fair].worst_decile)}{unit}.",
        "spread": f"Standard deviation over sites by method. It is smallest for {display(even)}, "
        f"{scale.value(methods[even].spread)}.",
        "data": f"What the {data.clients} sites hold: {holds} at each site.",
    }
    if result.searched:
        count = sum(len(own) for own in result.searched.values())
        said["search"] = (
            f"Validation {scale.name} of the {count} settings that were tried, over the step size by method."
        )
    for name in result.monitored:
        said[chart_name("monitor", name)] = f"{first_upper(explained(monitor_named(name)))}, over rounds by method."
    shown = judged(result)
    if shown:
        found = [row.gain for row in methods[shown].gains]
        said["gains"] = (
            f"Gain of each site with {display(shown)}, sorted: from {scale.gain(max(found))} to {scale.gain(min(found))} "
            f"{scale.gain_unit}; intervals as whiskers."
        )
        for name in data.distances:
            said[chart_name("gain-by", name)] = f"Gain of each site against its {DISTANCES[name]}, one point a site."
    models = " and of ".join(display(name) for name in dict.fromkeys(found.method for found in result.quality))
    for kind, charts in small_charts(result).items():
        whose = "all samples and of those with low and high predicted risk" if kind == "survival" else models
        what = first_upper(SMALL_TITLES[kind])
        said |= {f"{kind}-{i}": f"{what} at {site}: of {whose}." for i, site in enumerate(charts)}
    return said
