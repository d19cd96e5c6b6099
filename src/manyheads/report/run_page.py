"""The page of one or several run directories, and the live page of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from manyheads.core.errors import UserError
from manyheads.core.files import write_text
from manyheads.core.words import plural
from manyheads.report.drawing import chart_name, for_page
from manyheads.report.names import display, looks
from manyheads.report.render import rendered
from manyheads.report.run_charts import labels_of, metrics_of, monitors_of, run_charts, run_datasets
from manyheads.report.runs import RunFacts, curve, progress, read_run, site_rows
from manyheads.report.table import Cell, Table, flat
from manyheads.report.words import NONE, explained, first_upper, megabytes, monitor_named, seconds
from manyheads.run.about import About

__all__ = ["run_page", "write_run_report"]

SITES_LISTED = 20
"""largest number of sites that the heading names"""


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


def run_page(runs: Sequence[RunFacts], live: bool = False) -> str:
    """Return the HTML page of the runs; a ``live`` page polls its server for new rounds."""
    labels, scored = labels_of(runs), not live or runs[0].split == "validation"
    named = " and ".join(display(name) for name in labels) if len(runs) < 3 else plural(len(runs), "run", "runs")
    words = {label: progress(run, scored) for run, label in zip(runs, labels, strict=True)}
    monitors = {chart_name("monitor", name): explained(monitor_named(name)) for name in monitors_of(runs)}
    first = runs[0].evaluation
    drawn = run_charts(runs, legend=None)
    captions = _captions(runs) | {name: first_upper(meaning) for name, meaning in monitors.items()}
    return rendered(
        "run.html",
        charts={name: for_page(chart) for name, (_, chart) in drawn.items()},
        datasets=run_datasets(runs),
        alternatives={name: f"{captions[name]}. {' '.join(words.values())}" for name in drawn},
        title=f"{named} on {runs[0].data}",
        whose=[_whose(about) for about in dict.fromkeys(run.about for run in runs) if about.clients],
        looks=looks(labels),
        words=words,
        split=runs[0].split,
        scored=scored,
        training=[name for name in drawn if name == "training-loss" or name in monitors],
        scores=[name for name in drawn if name not in ("training-loss", "sites", *monitors)],
        captions=captions,
        protocol=first.protocol if first else "",
        warnings=list(dict.fromkeys(w for run in runs for w in run.about.warnings)),
        known=len(runs[0].rounds),
        table=_numbers(runs, labels),
        curves=_curves(runs, labels),
        sites=_site_table(runs, labels),
        settings={label: _settings(run) for run, label in zip(runs, labels, strict=True)},
        live=live,
        connect="'self'" if live else "'none'",
    )


def _captions(runs: Sequence[RunFacts]) -> dict[str, str]:
    split, score = first_upper(runs[0].split), runs[0].scale.name
    found = {
        "training-loss": "Mean training loss of the round's sites, over rounds",
        "rounds": f"{split} {score} over rounds",
        "bytes": f"{split} {score} over megabytes sent, both ways, all sites together",
        "sites": f"{split} {score} of each site at the last evaluation, from best to worst",
    }
    return found | {
        name.replace("_", "-"): f"{split} {scale.name} over rounds" for name, scale in metrics_of(runs).items()
    }


def _whose(about: About) -> str:
    """Return whose data it is, in words.

    >>> _whose(About(name="heart", clients=2, names=("Basel", "Zurich"), train=90, test=10))
    'heart: 2 sites (Basel, Zurich); 90 training and 10 test samples'
    """
    listed = f" ({', '.join(about.names)})" if 0 < len(about.names) <= SITES_LISTED else ""
    counts = {"training": about.train, "validation": about.validation, "test": about.test}
    *most, last = (f"{count:,} {split}" for split, count in counts.items() if count)
    samples = f"{', '.join(most)} and {last}" if most else last
    return f"{about.name}: {plural(about.clients, 'site', 'sites')}{listed}; {samples} samples"


def _numbers(runs: Sequence[RunFacts], labels: Sequence[str]) -> Table:
    """Table of each run's scores at its last evaluation, bytes and seconds."""
    scales = {runs[0].score: runs[0].scale} | metrics_of(runs)
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
    rounds = sorted({r for each in found for r, value in each.items() if value is not None})
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
