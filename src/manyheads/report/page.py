"""The report of a comparison: ``compare.json`` -> one page that needs nothing but itself."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt

from manyheads.core.errors import Damaged, UserError
from manyheads.core.files import write_text
from manyheads.core.sealed import read_json
from manyheads.experiments.compare import description
from manyheads.report import charts, tables
from manyheads.report.distribution import CLASSES_DRAWN, ROWS_DRAWN, distribution
from manyheads.report.drawing import LEGEND, Chart, chart_name, for_page, some
from manyheads.report.gains import MEASURES, SITES_DRAWN, against, gain_tables, gains
from manyheads.report.names import ALONE, display, looks
from manyheads.report.render import rendered
from manyheads.report.summary import judged, summary, verdicts
from manyheads.report.words import Scale

__all__ = ["SCHEMA", "comparison_charts", "page", "read_facts", "write_report"]

SCHEMA = 1
Facts = Mapping[str, Any]


def read_facts(folder: Path) -> dict[str, Any]:
    """The results of the comparison in a folder."""
    path = folder / "compare.json"
    if not path.is_file():
        raise UserError(f"{folder} holds no compare.json", fix="make one: manyheads compare DATA --out FOLDER")
    try:
        facts = read_json(path, fix="make it again: manyheads compare --resume --out FOLDER")
        schema = facts["schema"]
        facts["methods"][ALONE], facts["recommendation"], facts["data"]["names"]
    except (KeyError, TypeError):
        raise UserError(f"{path} is not that of a comparison") from None
    described = description(folder)
    if described and facts.get("described", described) != described:
        raise Damaged(
            f"{path} is damaged, or of other settings than those beside it",
            fix="make it again: manyheads compare --resume --out FOLDER",
        )
    if schema != SCHEMA:
        raise UserError(f"{path} is of another version", given=schema, allowed=str(SCHEMA), fix="upgrade manyheads")
    return facts


def write_report(folder: Path, out: Path | None = None) -> Path:
    """Make ``report.html`` of the comparison in a folder."""
    path = out or folder / "report.html"
    facts, described = read_facts(folder), folder / "compare.toml"
    if described.is_file():
        facts.setdefault("command", ["manyheads", "compare", str(described.resolve())])
    text = page(facts)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path


def comparison_charts(facts: Facts, legend: alt.Legend | None = LEGEND) -> dict[str, tuple[str, Chart]]:
    """All charts of a comparison, by the names their files get: what each shows, and the chart.

    ``legend`` is that of the learning curves: the page has its own.
    """
    scale, shown = Scale(facts["score"]), judged(facts)
    what = f"{facts['data']['data']}: "
    made: dict[str, tuple[str, Chart]] = {"methods": (f"{what}{scale.score} by method", charts.levels(facts))}
    if shown:
        made["gains"] = (f"{what}gain of each site with {display(shown)}", gains(facts, shown))
    made |= {
        "rounds": (f"{what}{scale.score} over rounds, validation samples", charts.curves(facts, "round", legend)),
        "bytes": (f"{what}{scale.score} over bytes, validation samples", charts.curves(facts, "mb", legend)),
        "fairness": (f"{what}worst tenth of sites and mean", charts.fairness(facts)),
        "spread": (f"{what}spread over sites", charts.spreads(facts)),
        "data": (f"{what}what the sites hold", distribution(facts["data"])),
    }
    for name in tables.monitors_of(facts):
        title = charts.MONITORS.get(name, (name,))[0]
        made[chart_name("monitor", name)] = (f"{what}{title}", charts.monitored(facts, name, legend))
    for measure in MEASURES:
        if shown and facts["data"].get(measure):
            title = f"{what}gain with {display(shown)} and {MEASURES[measure]}"
            made[chart_name("gain-by", measure)] = (title, against(facts, measure, shown))
    return made


def page(facts: Facts) -> str:
    """The whole report as one HTML page."""
    names, shown, data = list(facts["methods"]), judged(facts), facts["data"]
    others = [n for n in names if n != ALONE]
    drawn = comparison_charts(facts, legend=None)
    return rendered(
        "compare.html",
        charts={name: for_page(chart) for name, (_, chart) in drawn.items()},
        datasets=gain_tables(facts, others) if shown else {},
        alternatives=tables.alternatives(facts),
        title=f"{data['data']}: a comparison of {len(names)} methods",
        facts=facts,
        data=data,
        scale=Scale(facts["score"]),
        summary=summary(facts),
        shown=shown,
        looks=looks(names),
        others=others,
        verdicts={display(n): verdicts(n, m) for n, m in facts["methods"].items() if n != ALONE},
        monitors={chart_name("monitor", n): charts.MONITORS.get(n, (n, n)) for n in tables.monitors_of(facts)},
        by_gain=[name for m in MEASURES if (name := chart_name("gain-by", m)) in drawn],
        sites_drawn=len(some(max(len(m.get("gains", ())) for m in facts["methods"].values()), SITES_DRAWN)),
        measures={m: words for m, words in MEASURES.items() if data.get(m)},
        limits={"rows": ROWS_DRAWN, "classes": CLASSES_DRAWN},
        tables=tables.all_tables(facts),
        command=_command(facts),
    )


def _command(facts: Facts) -> str:
    """How to do it again."""
    given = facts.get("command")
    if given:
        return given if isinstance(given, str) else shlex.join(given)
    if facts["settings"]["data"]["name"] != "custom":
        return "manyheads compare compare.toml"
    comparison, training = facts["settings"]["comparison"], facts["settings"]["training"]
    arguments = {
        "methods": list(comparison["methods"]),
        "rounds": training["rounds"],
        "seeds": comparison["seeds"],
        "rates": list(comparison["rates"]),
        "validation": comparison["validation"],
        "participation": training["participation"],
        "seed": training["seed"],
    }
    written = "".join(f"    {k}={v!r},\n" for k, v in arguments.items())
    return f"compare(\n    federation,\n    {facts['settings']['model']['name']!r},\n{written})"
