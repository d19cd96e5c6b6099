"""The report of a comparison: one self-contained HTML page from ``compare.json``."""

from __future__ import annotations

import shlex
from pathlib import Path

import altair as alt

from manyheads.core.files import write_text
from manyheads.experiments.describe import DISTANCES
from manyheads.experiments.results import ALONE, ComparisonResult
from manyheads.report import charts
from manyheads.report.alternatives import alternatives
from manyheads.report.distribution import CLASSES_DRAWN, ROWS_DRAWN, distribution
from manyheads.report.drawing import LEGEND, SITES_DRAWN, Chart, chart_name, for_page, some
from manyheads.report.gains import against, gain_tables, gains
from manyheads.report.method_tables import method_tables
from manyheads.report.names import display, looks
from manyheads.report.quality import small_charts
from manyheads.report.render import rendered
from manyheads.report.searched import searched_chart
from manyheads.report.site_tables import advice_text, confusions, site_tables
from manyheads.report.summary import judged, summary, verdicts
from manyheads.report.words import Scale, explained, monitor_named
from manyheads.run.config_file import COMPARISON

__all__ = ["comparison_charts", "page", "write_report"]


def write_report(folder: Path, out: Path | None = None) -> Path:
    """Write the report of the comparison in a folder, ``report.html`` unless ``out`` is given; returns its path."""
    path = out or folder / "report.html"
    result, described = ComparisonResult.read(folder), folder / COMPARISON
    again = shlex.join(["manyheads", "compare", str(described.resolve())]) if described.is_file() else None
    text = page(result, again)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path


def comparison_charts(result: ComparisonResult, legend: alt.Legend | None = LEGEND) -> dict[str, tuple[str, Chart]]:
    """Return the title and the chart of every chart of a comparison, by the name of its file.

    ``legend`` is the legend of the learning curves; the page passes None, as it has buttons instead.
    """
    score, shown = Scale.of(result.score).name, judged(result)
    what = f"{result.data.data}: "
    made: dict[str, tuple[str, Chart]] = {"methods": (f"{what}{score} by method", charts.levels(result))}
    if shown:
        made["gains"] = (f"{what}gain of each site with {display(shown)}", gains(result, shown))
    if charts.curved(result):
        made["rounds"] = (f"{what}{score} over rounds, validation samples", charts.curves(result, "round", legend))
        made["bytes"] = (f"{what}{score} over bytes, validation samples", charts.curves(result, "mb", legend))
    if result.searched:
        drawn = searched_chart(result.searched, Scale.of(result.score), legend)
        made["search"] = (f"{what}{score} of all settings tried, validation samples", drawn)
    made["fairness"] = (f"{what}worst tenth of sites and mean", charts.fairness(result))
    made["spread"] = (f"{what}spread over sites", charts.spreads(result))
    if result.data.labels or result.data.targets:
        made["data"] = (f"{what}what the sites hold", distribution(result.data))
    for name in result.monitored:
        drawn = charts.monitored(result, name, legend)
        made[chart_name("monitor", name)] = (f"{what}{monitor_named(name).title}", drawn)
    if shown:
        for name in result.data.distances:
            title = f"{what}gain with {display(shown)} and {DISTANCES[name]}"
            made[chart_name("gain-by", name)] = (title, against(result, name, shown))
    return made


def page(result: ComparisonResult, again: str | None = None) -> str:
    """Return the report as one HTML page; ``again``: the command that repeats it, by default ``result.command``."""
    shown, names = judged(result), list(result.methods)
    drawn = {name: chart for name, (_, chart) in comparison_charts(result, legend=None).items()}
    small = small_charts(result)
    drawn |= {f"{kind}-{i}": chart for kind, found in small.items() for i, chart in enumerate(found.values())}
    return rendered(
        "compare.html",
        charts={name: for_page(chart) for name, chart in drawn.items()},
        datasets=gain_tables(result, list(result.others)) if shown else {},
        alternatives=alternatives(result),
        title=f"{result.data.data}: should these sites train together?",
        result=result,
        data=result.data,
        scale=Scale.of(result.score),
        summary=summary(result),
        shown=shown,
        looks=looks(names),
        curved=charts.curved(result),
        compared=[ALONE, shown],
        verdicts={display(n): verdicts(n, m.gain) for n, m in result.methods.items() if m.gain},
        monitors={chart_name("monitor", n): explained(monitor_named(n)) for n in result.monitored},
        metrics=[explained(quantity) for quantity in result.measured.values()],
        by_gain=[name for d in DISTANCES if (name := chart_name("gain-by", d)) in drawn],
        sites_drawn=len(some(max(len(m.gains) for m in result.methods.values()), SITES_DRAWN)),
        distances={name: found for name in DISTANCES if (found := result.data.distances.get(name))},
        limits={"rows": ROWS_DRAWN, "classes": CLASSES_DRAWN},
        small=small,
        tables=method_tables(result) | site_tables(result),
        advice_text=advice_text(result, shown) if shown else "",
        confusions=confusions(result),
        command=again or result.command or f"manyheads compare {COMPARISON}",
    )
