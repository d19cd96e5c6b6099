"""The tables of a comparison's page that are about its sites: advice, confusions, and whose model works where."""

from __future__ import annotations

import math

from manyheads.experiments.describe import DISTANCES
from manyheads.experiments.gains import SiteAdvice
from manyheads.experiments.quality import CrossSites
from manyheads.experiments.results import ComparisonResult
from manyheads.report.drawing import SITES_DRAWN, some
from manyheads.report.names import display, spoken
from manyheads.report.summary import judged
from manyheads.report.table import Cell, Table, count_cell, gain_cell, name_cell
from manyheads.report.words import Scale, first_upper

__all__ = ["advice_text", "confusions", "site_tables"]


def site_tables(result: ComparisonResult) -> dict[str, Table]:
    """Return the tables of sites by name; those without any values are left out."""
    made = {"data": _data(result), "distances": _distances(result), "cross": _cross_sites(result)}
    if shown := judged(result):
        made |= {
            "advice": _advice(result, shown),
            "needed": _undecided(result),
            "gains": _gains(result),
            "metrics": _metrics(result, shown),
        }
    return {name: table for name, table in made.items() if table.rows}


def _alone(site: SiteAdvice) -> str:
    return display(site.alone_model).removesuffix(" alone").lower()


def _advice(result: ComparisonResult, shown: str) -> Table:
    """Table of each drawn site's numbers, and what it should do."""
    scale = Scale.of(result.score)
    rows = []
    for site in (result.sites[i] for i in some(len(result.sites), SITES_DRAWN)):
        rows.append(
            [
                name_cell(site.name),
                count_cell(site.samples),
                Cell(f"{scale.value(site.alone)} ({_alone(site)})", site.alone),
                Cell(scale.value(site.federated), site.federated),
                gain_cell(site, scale),
                Cell(first_upper(spoken(site.text, result.others))),
            ]
        )
    head = ["Site", "Test samples", "Best alone", f"With {display(shown)}", "Gain [95 % interval]", "What to do"]
    return Table(f"Every site: {scale.title} on its own test samples, and what to do", head, rows, sortable=True)


def advice_text(result: ComparisonResult, shown: str) -> str:
    """Return the advice for all sites as tab-separated text with plain numbers, for a spreadsheet."""
    scale = Scale.of(result.score)
    scores = [f"{scale.title} of the best alone", f"{scale.title} with {display(shown)}"]
    interval = ["low end of 95 % interval", "high end"]
    lines = [["site", "test samples", "best alone", *scores, "gain", *interval, "what to do"]]
    for site in result.sites:
        low, high = site.interval or (math.nan, math.nan)
        values = (scale.drawn(value) for value in (site.alone, site.federated, site.gain, low, high))
        numbers = ["" if value is None else f"{value:g}" for value in values]
        words = spoken(site.text, result.others)
        lines.append([_text(site.name), str(site.samples), _alone(site), *numbers, _text(words)])
    return "\n".join("\t".join(line) for line in lines)


def _text(words: str) -> str:
    """Return words as one cell that no spreadsheet takes for a formula.

    >>> _text("=1+1"), _text("Basel\\tSouth")
    ("'=1+1", 'Basel South')
    """
    words = " ".join(words.split())
    return f"'{words}" if words.startswith(("=", "+", "-", "@")) else words


def _undecided(result: ComparisonResult) -> Table:
    """Table of what it would take to know more, for the drawn sites whose gain is unclear."""
    unclear = [site for site in result.sites if site.verdict == "unclear" and site.interval]
    rows = [
        [name_cell(site.name), count_cell(site.samples), _needed(site.samples_needed), _needed(site.seeds_needed)]
        for site in (unclear[i] for i in some(len(unclear), SITES_DRAWN))
    ]
    head = ["Site", "Test samples now", "Test samples needed", "or seeds needed"]
    return Table("To decide a gain as large as estimated, four times in five", head, rows, sortable=True)


def _needed(count: int | None) -> Cell:
    return Cell("would not decide it") if count is None else count_cell(count)


def _cross_sites(result: ComparisonResult) -> Table:
    """Table of the score of each site's model at each site; the better, the stronger the colour."""
    cross, scale = result.cross or CrossSites((), (), ()), Scale.of(result.score)
    known = [value for row in cross.scores for value in row if math.isfinite(value)]
    worst, best = sorted((min(known, default=0), max(known, default=0)), key=lambda v: -scale.best_first * v)
    rows = []
    for i, (name, values) in enumerate(zip(cross.models, cross.scores, strict=True)):
        cells = [Cell(display(name) if i >= len(cross.sites) else name)]
        for value in values:
            share = (value - worst) / (best - worst) if best != worst else 0.0
            cells.append(Cell(scale.value(value), fill=share if math.isfinite(share) else None))
        rows.append(cells)
    head = ["Model of", *cross.sites]
    return Table(f"{first_upper(scale.title)} of each row's model at each column's site", head, rows, matrix=True)


def confusions(result: ComparisonResult) -> dict[str, list[Table]]:
    """Return, for each site, the tables of true and predicted labels of its models."""
    names = result.data.label_names or tuple(str(i) for i in range(result.data.outputs))
    made: dict[str, list[Table]] = {}
    for found in result.quality:
        if found.confusion:
            rows = [
                [Cell(name), *(Cell(str(n), fill=n / (sum(counts) or 1)) for n in counts)]
                for name, counts in zip(names, found.confusion, strict=True)
            ]
            table = Table(f"{found.site}, {display(found.method)}", ["True label", *names], rows, matrix=True)
            made.setdefault(found.site, []).append(table)
    return made


def _gains(result: ComparisonResult) -> Table:
    """Table of each drawn site's score when trained alone, and its gain with each method."""
    scale = Scale.of(result.score)
    names = [n for n in result.ranked if n in result.others]
    rows = []
    first = result[names[0]].gains
    for i in some(len(first), SITES_DRAWN):
        row = first[i]
        cells = [name_cell(row.name), count_cell(row.samples), Cell(scale.value(row.alone), row.alone)]
        rows.append([*cells, *(gain_cell(result[name].gains[i], scale) for name in names)])
    head = ["Site", "Test samples", "Best alone", *map(display, names)]
    return Table("Gain of each site over the best alone, with 95 % intervals", head, rows, sortable=True)


def _metrics(result: ComparisonResult, shown: str) -> Table:
    """Table of every metric at every drawn site: of the best alone, and of the method shown."""
    levels = {name: (result.alone.metrics.get(name), result[shown].metrics.get(name)) for name in result.measured}
    known = {name: pair for name, pair in levels.items() if all(level and level.sites for level in pair)}
    rows = []
    for i in some(result.data.clients, SITES_DRAWN) if known else ():
        cells = [name_cell(result.data.names[i])]
        for name, pair in known.items():
            scale, (alone, other) = Scale.of(name), (level.sites[i] for level in pair if level)
            cells.append(Cell(f"{scale.value(alone)} \N{RIGHTWARDS ARROW} {scale.value(other)}", other - alone))
        rows.append(cells)
    head = ["Site", *(first_upper(Scale.of(name).title) for name in known)]
    return Table(f"Every metric at every site: best alone, and with {display(shown)}", head, rows, sortable=True)


def _data(result: ComparisonResult) -> Table:
    """Table of each drawn site's training data: labels, or events, or statistics of the targets."""
    data = result.data
    cells: list[list[Cell]] = []
    head: list[str] = []
    if data.labels:
        head = ["Training samples", "Labels"]
        cells = [[count_cell(sum(own)), count_cell(sum(count > 0 for count in own))] for own in data.labels]
    elif data.followed:
        head = ["Training samples", "Events", "Median time of observation"]
        cells = [[*map(count_cell, (own.samples, own.events)), count_cell(own.median, ".4g")] for own in data.followed]
    elif data.targets:
        head = ["Target mean", "Target deviation"]
        cells = [[count_cell(own.mean, ".4g"), count_cell(own.std, ".4g")] for own in data.targets]
    rows = [[name_cell(data.names[i]), *cells[i]] for i in some(len(cells), SITES_DRAWN)]
    return Table("The sites' training data", ["Site", *head], rows, sortable=True)


def _distances(result: ComparisonResult) -> Table:
    """Table of the distance of each drawn site's training data from those of all sites."""
    names, found = result.data.names, result.data.distances
    rows = [
        [name_cell(names[i]), *(count_cell(each.per_client[i], ".3f") for each in found.values())]
        for i in some(result.data.clients, SITES_DRAWN)
    ]
    head = ["Site", *(first_upper(DISTANCES[name]) for name in found)]
    return Table(
        "Distance of each site's training data from those of all sites", head, rows if found else (), sortable=True
    )
