"""The tables of a comparison's page that are about its sites: advice, confusions, and whose model works where."""

from __future__ import annotations

import math

from manyheads.experiments.gains import SiteAdvice
from manyheads.experiments.results import ComparisonResult
from manyheads.report.drawing import SITES_DRAWN, some
from manyheads.report.names import display, spoken
from manyheads.report.quality import small_sites
from manyheads.report.tables import Cell, Table
from manyheads.report.words import Scale, first_upper

__all__ = ["MATRIX_DRAWN", "advice", "advice_text", "confusions", "cross_sites", "needed"]

MATRIX_DRAWN = 40
"""largest number of sites in the matrix of models and sites"""


def _alone(site: SiteAdvice) -> str:
    return display(site.alone_model).removesuffix(" alone").lower()


def advice(result: ComparisonResult, shown: str) -> Table:
    """Table of each drawn site's numbers, and what it should do."""
    scale = Scale.of(result.score)
    rows = []
    for site in (result.sites[i] for i in some(len(result.sites), SITES_DRAWN)):
        rows.append(
            [
                Cell(site.name, site.name),
                Cell(f"{site.samples:,}", site.samples),
                Cell(f"{scale.value(site.alone)} ({_alone(site)})", site.alone),
                Cell(scale.value(site.federated), site.federated),
                Cell(f"{scale.gain(site.gain)} {scale.gain_interval(site.interval)}", site.gain),
                Cell(first_upper(spoken(site.text, result.others))),
            ]
        )
    head = ["Site", "Test samples", "Best alone", f"With {display(shown)}", "Gain [95 % interval]", "What to do"]
    return Table(f"Every site: {scale.title} on its own test samples, and what to do", head, rows, sortable=True)


def advice_text(result: ComparisonResult, shown: str) -> str:
    """Return the advice for all sites as tab-separated text with plain numbers, for a spreadsheet."""
    scale = Scale.of(result.score)
    head = [
        "site",
        "test samples",
        "best alone",
        f"{scale.title} of the best alone",
        f"{scale.title} with {display(shown)}",
    ]
    lines = [[*head, "gain", "low end of 95 % interval", "high end", "what to do"]]
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


def needed(result: ComparisonResult) -> Table:
    """Table of what it would take to know more, for the drawn sites whose gain is unclear."""
    unclear = [site for site in result.sites if site.verdict == "unclear"]
    rows = [
        [
            Cell(site.name, site.name),
            Cell(f"{site.samples:,}", site.samples),
            _needed(site.samples_needed),
            _needed(site.seeds_needed),
        ]
        for site in (unclear[i] for i in some(len(unclear), SITES_DRAWN))
    ]
    head = ["Site", "Test samples now", "Test samples needed", "or seeds needed"]
    return Table("To decide a gain as large as estimated, four times in five", head, rows, sortable=True)


def _needed(count: int | None) -> Cell:
    return Cell("would not decide it" if count is None else f"{count:,}", math.inf if count is None else count)


def cross_sites(result: ComparisonResult) -> Table | None:
    """Table of the score of each site's model at each site; the better, the stronger the colour."""
    cross, scale = result.cross, Scale.of(result.score)
    if cross is None:
        return None
    drawn = some(len(cross.sites), MATRIX_DRAWN)
    models = [i for i in range(len(cross.models)) if i in drawn or i >= len(cross.sites)]
    known = [v for i in models for v in cross.scores[i] if math.isfinite(v)]
    worst, best = sorted((min(known, default=0), max(known, default=0)), key=lambda v: -scale.best_first * v)
    rows = []
    for i in models:
        name = cross.models[i]
        cells = [Cell(display(name) if i >= len(cross.sites) else name)]
        for value in (cross.scores[i][j] for j in drawn):
            share = (value - worst) / (best - worst) if best != worst else 0.0
            cells.append(Cell(scale.value(value), fill=share if math.isfinite(share) else None))
        rows.append(cells)
    head = ["Model of", *(cross.sites[j] for j in drawn)]
    return Table(f"{first_upper(scale.title)} of each row's model at each column's site", head, rows, matrix=True)


def confusions(result: ComparisonResult) -> dict[str, list[Table]]:
    """Return, for each drawn site, the tables of true and predicted labels of its models."""
    names = result.data.label_names or tuple(str(i) for i in range(result.data.outputs))
    made: dict[str, list[Table]] = {}
    for found in result.quality:
        if found.confusion and found.site in small_sites(result):
            rows = [
                [Cell(name), *(Cell(str(n), fill=n / (sum(counts) or 1)) for n in counts)]
                for name, counts in zip(names, found.confusion, strict=True)
            ]
            table = Table(f"{found.site}, {display(found.method)}", ["True label", *names], rows, matrix=True)
            made.setdefault(found.site, []).append(table)
    return made
