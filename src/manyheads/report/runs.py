"""A smaller report, of one run directory or of several side by side: history.jsonl and config.toml."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt

from manyheads.core.checkpoint import rounds_on_disk
from manyheads.core.errors import Damaged, UserError
from manyheads.core.files import write_text
from manyheads.report.charts import MONITORS
from manyheads.report.drawing import LEGEND, Chart, chart_name, coloured, for_page, lines, some
from manyheads.report.names import display, looks
from manyheads.report.render import rendered
from manyheads.report.tables import Cell, Table, flat
from manyheads.report.words import NONE, Scale, megabytes, plural, seconds
from manyheads.run.config_file import RUN, read_run_config
from manyheads.run.directory import RunDirectory

__all__ = ["RunFacts", "curve", "progress", "read_run", "run_charts", "run_page", "site_rows", "write_run_report"]

SITES_DRAWN = 500


class RunFacts(NamedTuple):
    """One run: its folder, its configuration, its rounds so far."""

    folder: Path
    config: Mapping[str, Any]
    history: Sequence[Mapping[str, Any]]
    warnings: Sequence[str] = ()
    """what is doubtful about the data"""

    @property
    def method(self) -> str:
        return self.config["algorithm"]["name"]

    @property
    def evaluation(self) -> Mapping[str, Any]:
        """The last one; empty if there is none yet."""
        return next((r["evaluation"] for r in reversed(self.history) if "evaluation" in r), {})


def read_run(folder: Path) -> RunFacts:
    """A run directory, finished or not."""
    if not (folder / RUN).is_file():
        raise UserError(
            f"{folder} holds neither a comparison nor a run", fix=f"name a folder with compare.json or {RUN}"
        )
    config = read_run_config(folder).table
    directory = RunDirectory(folder)
    warnings = directory.warnings() if directory.encoding_path.is_file() else ()
    saved = next(iter(rounds_on_disk(directory.checkpoints)), 0)  # looked for first: a run that goes on adds rounds
    history = directory.history()
    if len(history) < saved:
        raise Damaged(f"{history.path} lacks rounds that the checkpoint has", fix="manyheads run --resume --out RUN")
    return RunFacts(folder, config, history, warnings)


def scale_of(evaluation: Mapping[str, Any]) -> Scale:
    return Scale("accuracy" if evaluation.get("accuracy") is not None else "loss")


def curve(records: Iterable[Mapping[str, Any]], label: str, sent: int = 0) -> list[dict[str, Any]]:
    """A row for each round that was evaluated; ``sent``: bytes of the rounds before."""
    rows = []
    for record in records:
        sent += record["bytes_up"] + record["bytes_down"]
        found = record.get("evaluation")
        if found:
            scale = scale_of(found)
            rows.append(
                {
                    "method": display(label),
                    "round": record["round"],
                    "mb": float(f"{sent / 1e6:.4g}"),
                    "score": scale.drawn(found[scale.score]),
                    "loss": Scale("loss").drawn(found["loss"]),
                    **{k: Scale("loss").drawn(v) for k, v in record.get("monitors", {}).items() if v is not None},
                }
            )
    return rows


def site_rows(evaluation: Mapping[str, Any], label: str) -> list[dict[str, Any]]:
    """The sites of an evaluation from best to worst; none if they are too many for the history to list."""
    each = evaluation.get("per_client")
    if not each:
        return []
    scale = scale_of(evaluation)
    pairs = [(c, v) for c, v in zip(each["client"], each[scale.score], strict=True) if v is not None]
    pairs.sort(key=lambda pair: pair[1], reverse=scale.score == "accuracy")
    drawn = enumerate(pairs[i] for i in some(len(pairs), SITES_DRAWN))
    return [
        {"method": display(label), "rank": r, "site": f"client {c}", "value": scale.drawn(v)} for r, (c, v) in drawn
    ]


def _labels(runs: Sequence[RunFacts]) -> list[str]:
    """What tells runs apart: their methods, or else their folders."""
    methods = [run.method for run in runs]
    return methods if max(Counter(methods).values()) == 1 else [str(run.folder) for run in runs]


def run_charts(runs: Sequence[RunFacts], legend: alt.Legend | None = LEGEND) -> dict[str, tuple[str, Chart]]:
    """The charts of runs, by the names their files get; none as long as nothing was evaluated."""
    if not runs[0].evaluation:
        return {}
    labels = _labels(runs)
    scale = scale_of(runs[0].evaluation)
    rows = [row for run, label in zip(runs, labels, strict=True) for row in curve(run.history, label)]
    made: dict[str, tuple[str, Chart]] = {
        "rounds": (f"{scale.score} over rounds", lines(rows, labels, "round", scale.title, scale, legend=legend)),
        "bytes": (f"{scale.score} over bytes", lines(rows, labels, "mb", scale.title, scale, legend=legend)),
    }
    if scale.score == "accuracy":
        loss = lines(rows, labels, "round", "loss", Scale("loss"), "loss", legend=legend)
        made["loss"] = ("loss over rounds", loss)
    for name in monitors_of(runs):
        title = MONITORS[name][0]
        chart = lines(rows, labels, "round", title, Scale("loss"), name, legend=legend)
        made[chart_name("monitor", name)] = (f"{title} over rounds", chart)
    sites = [r for run, label in zip(runs, labels, strict=True) for r in site_rows(run.evaluation, label)]
    if sites:
        made["sites"] = (f"{scale.score} of each site", _sites(sites, labels, scale))
    return made


def monitors_of(runs: Sequence[RunFacts]) -> list[str]:
    """The quantities that were found in the last round of any run."""
    last = (run.history[-1].get("monitors", {}) for run in runs if len(run.history))
    return list(dict.fromkeys(name for found in last for name, value in found.items() if value is not None))


def _sites(rows: Sequence[Mapping[str, Any]], labels: Sequence[str], scale: Scale) -> Chart:
    """Sites from best to worst, of the run that the parameter ``method`` names."""
    axis = alt.Axis(labels=False, ticks=False)
    tooltip = [
        alt.Tooltip("site:N", title="Site"),
        alt.Tooltip("value:Q", title=scale.title.capitalize(), format=scale.format),
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
    """The page of runs; a ``live`` one asks its server for what is new."""
    labels = _labels(runs)
    named = " and ".join(display(name) for name in labels) if len(runs) < 3 else plural(len(runs), "run", "runs")
    data = runs[0].config["data"]["name"]
    words = {label: progress(run) for run, label in zip(runs, labels, strict=True)}
    monitors = {chart_name("monitor", name): MONITORS[name] for name in monitors_of(runs)}
    return rendered(
        "run.html",
        charts={name: for_page(chart) for name, (_, chart) in run_charts(runs, legend=None).items()},
        datasets={},
        alternatives={
            "rounds": f"Score over rounds. {' '.join(words.values())}",
            "bytes": "The same over megabytes sent.",
            "loss": "Loss over rounds.",
            "sites": "The score of each site after the last evaluation, from best to worst.",
            **{name: f"{title}: {meaning}." for name, (title, meaning) in monitors.items()},
        },
        title=f"{named} on {data}",
        looks=looks(labels),
        words=words,
        protocol=runs[0].evaluation.get("protocol", ""),
        warnings=list(dict.fromkeys(w for run in runs for w in run.warnings)),
        monitors=monitors,
        known=len(runs[0].history),
        table=_numbers(runs, labels),
        curves=_curves(runs, labels),
        sites=_site_table(runs, labels),
        settings={label: _settings(run) for run, label in zip(runs, labels, strict=True)},
        live=live,
        connect="'self'" if live else "'none'",
    )


def progress(run: RunFacts) -> str:
    """How far a run has come, in a sentence."""
    done, found = len(run.history), run.evaluation
    text = f"{display(run.method)}: {done} of {plural(run.config['rounds'], 'round', 'rounds')}"
    if not found:
        return f"{text}."
    scale = scale_of(found)
    return f"{text}, {scale.score} {scale.value(found[scale.score])}{scale.unit}."


def _numbers(runs: Sequence[RunFacts], labels: Sequence[str]) -> Table:
    """What each run reached and cost."""
    rows = []
    for run, label in zip(runs, labels, strict=True):
        found = run.evaluation
        scale = scale_of(found)
        total = {k: sum(r[k] for r in run.history) for k in ("bytes_up", "bytes_down", "seconds")}
        rows.append(
            [
                Cell(display(label), display(label)),
                Cell(str(len(run.history)), len(run.history)),
                *(
                    Cell(shown.value(value := found.get(key)), value)
                    for key, shown in (
                        ("accuracy", Scale("accuracy")),
                        (f"{scale.score}_worst_decile", scale),
                        ("loss", Scale("loss")),
                    )
                ),
                Cell(megabytes(total["bytes_up"]), total["bytes_up"]),
                Cell(megabytes(total["bytes_down"]), total["bytes_down"]),
                Cell(seconds(total["seconds"]), total["seconds"]),
            ]
        )
    head = ["Run", "Rounds", "Accuracy (%)", "Worst tenth", "Loss", "MB up", "MB down", "Seconds"]
    return Table("At the last evaluation", head, rows, sortable=len(runs) > 1)


def _curves(runs: Sequence[RunFacts], labels: Sequence[str]) -> Table:
    found = [{row["round"]: row["score"] for row in curve(run.history, "")} for run in runs]
    rounds = sorted({r for each in found for r in each})
    rows = [[Cell(str(r)), *(_plain(each.get(r)) for each in found)] for r in rounds]
    title = scale_of(runs[0].evaluation).title
    return Table(f"{title.capitalize()} after each round shown", ["Round", *map(display, labels)], rows)


def _site_table(runs: Sequence[RunFacts], labels: Sequence[str]) -> Table:
    found = [{row["site"]: row["value"] for row in site_rows(run.evaluation, "")} for run in runs]
    sites = dict.fromkeys(site for each in found for site in each)
    rows = [[Cell(site), *(_plain(each.get(site)) for each in found)] for site in sites]
    title = scale_of(runs[0].evaluation).title
    return Table(f"{title.capitalize()} of each site", ["Site", *map(display, labels)], rows)


def _plain(value: float | None) -> Cell:
    return Cell(NONE if value is None else f"{value:.4g}")


def _settings(run: RunFacts) -> Table:
    return Table(f"Settings of {run.folder}", ["Setting", "Value"], [[Cell(k), Cell(v)] for k, v in flat(run.config)])


def write_run_report(folders: Sequence[Path], out: Path | None = None) -> Path:
    """Make the report of runs; of one, in its folder, unless ``out`` says otherwise."""
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
