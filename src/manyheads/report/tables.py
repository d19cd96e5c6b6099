"""The tables of a comparison's page, each value with the key that its column is sorted by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from manyheads.experiments.describe import DISTANCES
from manyheads.experiments.gains import Gain
from manyheads.experiments.method_result import MethodResult, MetricLevel
from manyheads.experiments.results import ALONE, ComparisonResult
from manyheads.report.drawing import SITES_DRAWN, some
from manyheads.report.names import display
from manyheads.report.summary import judged
from manyheads.report.words import NONE, Scale, first_upper, megabytes, monitor_named, seconds

__all__ = ["Cell", "Table", "all_tables", "flat"]


class Cell(NamedTuple):
    """A cell's text, the key to sort its column by, and how much of a colour it is filled with, from 0 to 1."""

    text: str
    key: float | str | None = None
    fill: float | None = None


class Table(NamedTuple):
    """A table; the first cell of a row is the row's heading."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    sortable: bool = False
    matrix: bool = False
    """whether rows and columns are of the same things, whose own cells are marked"""


def all_tables(result: ComparisonResult) -> dict[str, Table]:
    """Return the page's tables by name; those without any values are left out."""
    made = {
        "scores": _scores(result),
        "costs": _costs(result),
        "means": _metrics(result, "Mean over sites", lambda level: level.mean),
        "worst": _metrics(result, "Mean over the worst tenth of sites", lambda level: level.worst_decile),
        "spreads": _metrics(result, "Standard deviation over sites", lambda level: level.spread),
        "tuning": _tuning(result),
        "choices": _choices(result),
        "settings": _settings(result),
        "curves": _curves(result),
        "data": _data(result),
    }
    if shown := judged(result):
        made |= {"gains": _gains(result), "site_metrics": _site_metrics(result, shown)}
    if result.monitored:
        made["monitors"] = _monitors(result)
    return {name: table for name, table in made.items() if table.rows}


def _named(name: str) -> Cell:
    return Cell(display(name), display(name))


def _count(value: float | None, digits: str = ",.0f") -> Cell:
    return Cell(NONE if value is None else f"{value:{digits}}", value)


def _scores(result: ComparisonResult) -> Table:
    scale = Scale.of(result.score)
    head = (
        "Method", first_upper(scale.title), "Gain over the best alone", "Sites gain", "Sites lose", "Too few samples",
        "Worst tenth", "Spread",
    )  # fmt: skip
    rows = []
    for name in result.ranked:
        m = result[name]
        gained = [Cell(NONE)] * 4
        if m.gain:
            counts = (m.gain.clients.gains, m.gain.clients.loses, m.gain.clients.unclear)
            gained = [_gain(m.gain, scale), *map(_count, counts)]
        rows.append(
            [
                _named(name),
                Cell(f"{scale.value(m.score)} {scale.interval(m.interval)}", m.score),
                *gained,
                Cell(scale.value(m.worst_decile), m.worst_decile),
                Cell(scale.value(m.spread), m.spread),
            ]
        )
    return Table(
        f"{first_upper(scale.name)} of all methods, best first, with 95 % intervals", head, rows, sortable=True
    )


def _costs(result: ComparisonResult) -> Table:
    """Table of what one training costs: only of methods that train a network."""
    head = (
        "Method", "Rounds", "Passes over the data", "MB up", "MB down", "Rounds to target", "MB to target", "Seconds",
    )  # fmt: skip
    rows = [
        [
            _named(name),
            _count(m.rounds or None),
            _count(m.passes or None, ",.3g"),
            Cell(megabytes(m.bytes_up), m.bytes_up),
            Cell(megabytes(m.bytes_down), m.bytes_down),
            _count(m.rounds_to_target),
            Cell(megabytes(m.bytes_to_target), m.bytes_to_target),
            Cell(seconds(m.seconds), m.seconds),
        ]
        for name, m in result.methods.items()
        if name != ALONE
    ]
    return Table("What one training costs", head, rows, sortable=True)


def _metrics(result: ComparisonResult, what: str, of: Callable[[MetricLevel], float]) -> Table:
    """Table of one number of every metric, by method."""
    scales = {name: Scale(quantity) for name, quantity in result.measured.items()}
    rows = []
    for method in result.ranked:
        levels = result[method].metrics
        values = {name: of(levels[name]) if name in levels else None for name in scales}
        rows.append(
            [_named(method), *(Cell(scale.value(values[name]), values[name]) for name, scale in scales.items())]
        )
    return Table(what, ["Method", *(first_upper(scale.title) for scale in scales.values())], rows, sortable=True)


def _site_metrics(result: ComparisonResult, shown: str) -> Table:
    """Table of every metric at every drawn site: of the best alone, and of the method shown."""
    levels = {name: (result.alone.metrics.get(name), result[shown].metrics.get(name)) for name in result.measured}
    known = {name: pair for name, pair in levels.items() if all(level and level.sites for level in pair)}
    rows = []
    for i in some(result.data.clients, SITES_DRAWN) if known else ():
        cells = [Cell(result.data.names[i], result.data.names[i])]
        for name, pair in known.items():
            scale, (alone, other) = Scale.of(name), (level.sites[i] for level in pair if level)
            cells.append(Cell(f"{scale.value(alone)} \N{RIGHTWARDS ARROW} {scale.value(other)}", other - alone))
        rows.append(cells)
    head = ["Site", *(first_upper(Scale.of(name).title) for name in known)]
    return Table(f"Every metric at every site: best alone, and with {display(shown)}", head, rows, sortable=True)


def _gain(gain: Gain, scale: Scale) -> Cell:
    return Cell(f"{scale.gain(gain.gain)} {scale.gain_interval(gain.interval)}", gain.gain)


def _gains(result: ComparisonResult) -> Table:
    """Table of each drawn site's score when trained alone, and its gain with each method."""
    scale = Scale.of(result.score)
    names = [n for n in result.ranked if n in result.others]
    rows = []
    first = result[names[0]].gains
    for i in some(len(first), SITES_DRAWN):
        row = first[i]
        cells = [Cell(row.name, row.name), _count(row.samples), Cell(scale.value(row.alone), row.alone)]
        rows.append([*cells, *(_gain(result[name].gains[i], scale) for name in names)])
    head = ["Site", "Test samples", "Best alone", *map(display, names)]
    return Table("Gain of each site over the best alone, with 95 % intervals", head, rows, sortable=True)


def _curves(result: ComparisonResult) -> Table:
    scale = Scale.of(result.score)
    points = {name: {p.round: p.score for p in method.curve} for name, method in result.methods.items() if method.curve}
    rounds = sorted({r for found in points.values() for r in found})
    rows = [[Cell(str(r)), *(Cell(scale.value(found.get(r))) for found in points.values())] for r in rounds]
    return Table(f"Validation {scale.title} after each round shown", ["Round", *map(display, points)], rows)


def _data(result: ComparisonResult) -> Table:
    """Table of each drawn site's training data: label counts or target statistics, and distances from all sites."""
    data = result.data
    own = ["Training samples", "Labels"] if data.labels else ["Target mean", "Target deviation"] if data.targets else []
    rows = []
    for i in some(data.clients, SITES_DRAWN):
        cells = [Cell(data.names[i], data.names[i])]
        if data.labels:
            cells += [_count(sum(data.labels[i])), _count(sum(c > 0 for c in data.labels[i]))]
        elif data.targets:
            cells += [Cell(f"{v:.4g}", v) for v in (data.targets[i].mean, data.targets[i].std)]
        rows.append([*cells, *(_count(found.per_client[i], ".3f") for found in data.distances.values())])
    head = ["Site", *own, *(first_upper(DISTANCES[name]) for name in data.distances)]
    return Table("The sites' training data", head, rows, sortable=True)


def _tuning(result: ComparisonResult) -> Table:
    """Table of the validation score of each step size tried, with a note if the best one is at the edge of the grid."""
    scale = Scale.of(result.score)
    tuned = [name for name in result.ranked if result[name].rates]
    rates = list(dict.fromkeys(r.rate for name in tuned for r in result[name].rates))
    rows = []
    for name in tuned:
        method = result[name]
        tried = {r.rate: r.validation for r in method.rates}
        cells = [Cell(display(name))]
        for rate in rates:
            if rate not in tried:
                cells.append(Cell(NONE))
            elif (score := tried[rate]) is None:
                cells.append(Cell("diverged"))
            else:
                cells.append(Cell(f"{scale.value(score)}{' *' if rate == method.rate else ''}"))
        rows.append([*cells, Cell(_edge(method.rate, list(tried)))])
    return Table(
        f"Validation {scale.title} by step size; * is the one used",
        ["Method", *(f"{r:g}" for r in rates), "Note"],
        rows,
    )


def _edge(rate: float | None, tried: Sequence[float]) -> str:
    if rate is None:
        return "its own step sizes"
    if len(tried) < 2 or min(tried) < rate < max(tried):
        return ""
    return f"at the edge: a {'smaller' if rate == min(tried) else 'larger'} one may be better"


def _choices(result: ComparisonResult) -> Table:
    """Table of the step size and the number of rounds that were chosen in each fold."""

    def written(method: MethodResult, fold: int) -> str:
        found = next((c for c in method.choices if c.fold == fold), None)
        if found is None:
            return NONE
        return f"{found.rounds} rounds" + ("" if found.rate is None else f" at {found.rate:g}")

    folds = sorted({c.fold for method in result.methods.values() for c in method.choices})
    rows = [
        [Cell(display(name)), *(Cell(written(result[name], fold)) for fold in folds)]
        for name in result.ranked
        if result[name].choices
    ]
    return Table("Chosen in each fold by validation samples", ["Method", *(f"Fold {f + 1}" for f in folds)], rows)


def _settings(result: ComparisonResult) -> Table:
    """Table of all settings, and of each method's settings, by dotted path."""
    tree = {**result.settings, "methods": {n: m.algorithm for n, m in result.methods.items() if m.algorithm}}
    return Table("Settings", ["Setting", "Value"], [[Cell(k), Cell(v)] for k, v in flat(tree)])


def _monitors(result: ComparisonResult) -> Table:
    """Table of the monitored quantities after the last round."""
    scales = {name: Scale(monitor_named(name)) for name in result.monitored}
    rows = []
    for method in result.ranked:
        found = result[method].monitors
        last = {name: found[name][-1].value if found.get(name) else None for name in scales}
        cells = (Cell(scales[name].value(value), value) for name, value in last.items())
        if found:
            rows.append([_named(method), *cells])
    head = ["Method", *(first_upper(scale.title) for scale in scales.values())]
    return Table("Representations and heads after the last round", head, rows, sortable=True)


def flat(tree: Any, path: str = "") -> list[tuple[str, str]]:
    """Flatten nested settings into pairs of dotted path and value.

    >>> flat({"sgd": {"lr": 0.1}, "hidden": [64, 32]})
    [('sgd.lr', '0.1'), ('hidden', '64, 32')]
    """
    if isinstance(tree, Mapping) and tree:
        return [pair for k, v in tree.items() for pair in flat(v, f"{path}.{k}" if path else str(k))]
    if isinstance(tree, list | tuple):
        tree = ", ".join(map(str, tree))
    return [(path, NONE if tree is None or tree == {} else str(tree))]
