"""The report of one or several run directories, from their history.jsonl and config.toml."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt

from manyheads.core.checkpoint import rounds_on_disk
from manyheads.core.errors import Damaged, UserError
from manyheads.core.files import write_text
from manyheads.core.tasks import TASKS, Task
from manyheads.report.drawing import LEGEND, Chart, chart_name, coloured, for_page, lines, some
from manyheads.report.names import display, looks
from manyheads.report.render import rendered
from manyheads.report.tables import Cell, Table, flat
from manyheads.report.words import NONE, Scale, explained, first_upper, megabytes, monitor_named, plural, seconds
from manyheads.run.config_file import RUN, RunConfig, read_run_config
from manyheads.run.directory import RunDirectory
from manyheads.run.rounds import Evaluated, RoundFacts

__all__ = ["RunFacts", "curve", "progress", "read_run", "run_charts", "run_page", "site_rows", "write_run_report"]

SITES_DRAWN = 500


@dataclass(frozen=True)
class RunFacts:
    """One run: its folder, its configuration, its rounds so far."""

    folder: Path
    config: RunConfig
    rounds: Sequence[RoundFacts]
    warnings: Sequence[str] = ()
    """warnings about the data"""

    @property
    def method(self) -> str:
        return str(self.config.settings["algorithm"]["name"])

    @property
    def data(self) -> str:
        return str(self.config.settings["data"]["name"])

    @property
    def planned(self) -> int:
        """Number of rounds that the run is configured for."""
        return int(self.config.settings["rounds"])

    @property
    def score(self) -> str:
        """Name of the task's first metric, which methods are compared by; an earlier version may lack it."""
        names = (TASKS.get(self.config.facts.task) or Task).metrics
        return next((name for name in names if self.evaluation and name in self.evaluation.values), names[0])

    @property
    def scale(self) -> Scale:
        """Scale of the score."""
        return Scale.of(self.score)

    @property
    def evaluation(self) -> Evaluated | None:
        """The last evaluation; None if there is none yet."""
        return next((r.evaluation for r in reversed(self.rounds) if r.evaluation), None)


def read_run(folder: Path) -> RunFacts:
    """Read a run directory; the run may be unfinished."""
    if not (folder / RUN).is_file():
        raise UserError(
            f"{folder} holds neither a comparison nor a run", fix=f"name a folder with compare.json or {RUN}"
        )
    config = read_run_config(folder)
    directory = RunDirectory(folder)
    warnings = directory.warnings() if directory.encoding_path.is_file() else ()
    saved = next(iter(rounds_on_disk(directory.checkpoints)), 0)  # before the history: a run in progress adds rounds
    history = directory.history()
    if len(history) < saved:
        raise Damaged(f"{history.path} lacks rounds that the checkpoint has", fix="manyheads run --resume --out RUN")
    return RunFacts(folder, config, [RoundFacts.of(record) for record in history], warnings)


def curve(run: RunFacts, label: str, start: int = 0) -> list[dict[str, Any]]:
    """Return a row for each evaluated round after ``start``, with the values of all metrics and monitors by name."""
    rows, sent = [], 0
    for at in run.rounds:
        sent += at.bytes
        if at.evaluation and at.round > start:
            found = {name: Scale.of(name).drawn(value) for name, value in at.evaluation.values.items()}
            found |= {name: Scale(monitor_named(name)).drawn(value) for name, value in at.monitors.items()}
            rows.append({**found, "method": display(label), "round": at.round, "mb": float(f"{sent / 1e6:.4g}")})
    return rows


def site_rows(run: RunFacts, label: str) -> list[dict[str, Any]]:
    """Return a row for each site of the last evaluation, best first; empty if the history has no values per client."""
    found, scale = run.evaluation, run.scale
    if found is None or run.score not in found.per_client:
        return []
    values = found.per_client[run.score]
    pairs = [(c, v) for c, v in zip(found.clients, values, strict=True) if v is not None]
    pairs.sort(key=lambda pair: scale.best_first * pair[1])
    drawn = enumerate(pairs[i] for i in some(len(pairs), SITES_DRAWN))
    return [
        {"method": display(label), "rank": r, "site": f"client {c}", "value": scale.drawn(v)} for r, (c, v) in drawn
    ]


def _labels(runs: Sequence[RunFacts]) -> list[str]:
    """Return unique labels of the runs: their methods, or their folders if methods repeat."""
    methods = [run.method for run in runs]
    return methods if max(Counter(methods).values()) == 1 else [str(run.folder) for run in runs]


def run_charts(runs: Sequence[RunFacts], legend: alt.Legend | None = LEGEND) -> dict[str, tuple[str, Chart]]:
    """Return title and chart of all charts of the runs, by the name of the file; empty if nothing was evaluated yet."""
    first = runs[0].evaluation
    if first is None:
        return {}
    labels, scale, score = _labels(runs), runs[0].scale, runs[0].score
    rows = [row for run, label in zip(runs, labels, strict=True) for row in curve(run, label)]
    made: dict[str, tuple[str, Chart]] = {
        "rounds": (f"{scale.name} over rounds", lines(rows, labels, "round", scale.title, scale, score, legend=legend)),
        "bytes": (f"{scale.name} over bytes", lines(rows, labels, "mb", scale.title, scale, score, legend=legend)),
    }
    for name, each in _drawn(runs).items():
        chart = lines(rows, labels, "round", each.title, each, name, legend=legend)
        made[name.replace("_", "-")] = (f"{each.name} over rounds", chart)
    for name in monitors_of(runs):
        each = Scale(monitor_named(name))
        chart = lines(rows, labels, "round", each.title, each, name, legend=legend)
        made[chart_name("monitor", name)] = (f"{each.name} over rounds", chart)
    sites = [r for run, label in zip(runs, labels, strict=True) for r in site_rows(run, label)]
    if sites:
        made["sites"] = (f"{scale.name} of each site", _sites(sites, labels, scale))
    return made


def _others(runs: Sequence[RunFacts]) -> dict[str, Scale]:
    """Return the scales of all metrics of the runs except the score, by name."""
    found = (name for run in runs if run.evaluation for name in run.evaluation.values)
    return {name: Scale.of(name) for name in dict.fromkeys(found) if name != runs[0].score}


def _drawn(runs: Sequence[RunFacts]) -> dict[str, Scale]:
    """Return those of them that are drawn over rounds: the others were measured after the last alone."""
    first = [next((at.evaluation.values for at in run.rounds if at.evaluation), {}) for run in runs]
    return {name: scale for name, scale in _others(runs).items() if any(name in values for values in first)}


def monitors_of(runs: Sequence[RunFacts]) -> list[str]:
    """Return the names of the monitored quantities in the last round of any run."""
    return list(dict.fromkeys(name for run in runs if run.rounds for name in run.rounds[-1].monitors))


def _sites(rows: Sequence[Mapping[str, Any]], labels: Sequence[str], scale: Scale) -> Chart:
    """Bar chart of the sites' scores, best first; the chart's parameter ``method`` selects the run."""
    axis = alt.Axis(labels=False, ticks=False)
    tooltip = [
        alt.Tooltip("site:N", title="Site"),
        alt.Tooltip("value:Q", title=first_upper(scale.title), format=scale.format),
    ]
    return (
        alt.Chart(alt.InlineData(values=list(rows), name="sites"))
        .transform_filter("datum.method === method")
        .mark_bar()
        .encode(
            x=alt.X("rank:O", title="sites, from best to worst", axis=axis),
            y=alt.Y("value:Q", title=scale.title),
            color=coloured(labels),
            tooltip=tooltip,
        )
        .add_params(alt.param(name="method", value=display(labels[0])))
        .properties(height=240)
    )


def run_page(runs: Sequence[RunFacts], live: bool = False) -> str:
    """Return the HTML page of the runs; a ``live`` page polls its server for new rounds."""
    labels = _labels(runs)
    named = " and ".join(display(name) for name in labels) if len(runs) < 3 else plural(len(runs), "run", "runs")
    words = {label: progress(run) for run, label in zip(runs, labels, strict=True)}
    monitors = {chart_name("monitor", name): explained(monitor_named(name)) for name in monitors_of(runs)}
    others = {name.replace("_", "-"): scale.name for name, scale in _drawn(runs).items()}
    first = runs[0].evaluation
    return rendered(
        "run.html",
        charts={name: for_page(chart) for name, (_, chart) in run_charts(runs, legend=None).items()},
        datasets={},
        alternatives={
            "rounds": f"Score over rounds. {' '.join(words.values())}",
            "bytes": "The same over megabytes sent.",
            "sites": "The score of each site after the last evaluation, from best to worst.",
            **{name: f"{first_upper(title)} over rounds." for name, title in others.items()},
            **{name: f"{first_upper(meaning)}." for name, meaning in monitors.items()},
        },
        title=f"{named} on {runs[0].data}",
        looks=looks(labels),
        words=words,
        protocol=first.protocol if first else "",
        warnings=list(dict.fromkeys(w for run in runs for w in run.warnings)),
        others=others,
        monitors=monitors,
        known=len(runs[0].rounds),
        table=_numbers(runs, labels),
        curves=_curves(runs, labels),
        sites=_site_table(runs, labels),
        settings={label: _settings(run) for run, label in zip(runs, labels, strict=True)},
        live=live,
        connect="'self'" if live else "'none'",
    )


def progress(run: RunFacts) -> str:
    """Return a sentence with the rounds done so far and the last score."""
    text = f"{display(run.method)}: {len(run.rounds)} of {plural(run.planned, 'round', 'rounds')}"
    found, scale = run.evaluation, run.scale
    if found is None:
        return f"{text}."
    return f"{text}, {scale.name} {scale.value(found.values.get(run.score))}{scale.unit}."


def _numbers(runs: Sequence[RunFacts], labels: Sequence[str]) -> Table:
    """Table of each run's scores at its last evaluation, bytes and seconds."""
    scales = {runs[0].score: runs[0].scale} | _others(runs)
    rows = []
    for run, label in zip(runs, labels, strict=True):
        values, worst = (run.evaluation.values, run.evaluation.worst_decile) if run.evaluation else ({}, {})
        score, *others = (Cell(scale.value(value := values.get(name)), value) for name, scale in scales.items())
        up, down = sum(r.bytes_up for r in run.rounds), sum(r.bytes_down for r in run.rounds)
        taken = sum(r.seconds for r in run.rounds)
        rows.append(
            [
                Cell(display(label), display(label)),
                Cell(str(len(run.rounds)), len(run.rounds)),
                score,
                Cell(runs[0].scale.value(least := worst.get(runs[0].score)), least),
                *others,
                Cell(megabytes(up), up),
                Cell(megabytes(down), down),
                Cell(seconds(taken), taken),
            ]
        )
    first, *rest = (first_upper(scale.title) for scale in scales.values())
    head = ["Run", "Rounds", first, "Worst tenth", *rest, "MB up", "MB down", "Seconds"]
    return Table("At the last evaluation", head, rows, sortable=len(runs) > 1)


def _curves(runs: Sequence[RunFacts], labels: Sequence[str]) -> Table:
    found = [{row["round"]: row.get(run.score) for row in curve(run, "")} for run in runs]
    rounds = sorted({r for each in found for r in each})
    rows = [[Cell(str(r)), *(_plain(each.get(r)) for each in found)] for r in rounds]
    return Table(f"{first_upper(runs[0].scale.title)} after each round shown", ["Round", *map(display, labels)], rows)


def _site_table(runs: Sequence[RunFacts], labels: Sequence[str]) -> Table:
    found = [{row["site"]: row["value"] for row in site_rows(run, "")} for run in runs]
    sites = dict.fromkeys(site for each in found for site in each)
    rows = [[Cell(site), *(_plain(each.get(site)) for each in found)] for site in sites]
    return Table(f"{first_upper(runs[0].scale.title)} of each site", ["Site", *map(display, labels)], rows)


def _plain(value: float | None) -> Cell:
    return Cell(NONE if value is None else f"{value:.4g}")


def _settings(run: RunFacts) -> Table:
    return Table(
        f"Settings of {run.folder}", ["Setting", "Value"], [[Cell(k), Cell(v)] for k, v in flat(run.config.table)]
    )


def write_run_report(folders: Sequence[Path], out: Path | None = None) -> Path:
    """Write the report of runs and return its path; for a single run, ``out`` defaults to report.html in its folder."""
    runs = [read_run(folder) for folder in folders]
    if out is None:
        if len(folders) > 1:
            raise UserError("a report of several runs needs a file to go to", where="out", fix="--out report.html")
        out = folders[0] / "report.html"
    for run in runs:
        if not run.evaluation:
            raise UserError(f"{run.folder} has no evaluation yet", fix="wait for one, or watch: manyheads live FOLDER")
    text = run_page(runs)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, text)
    return out
