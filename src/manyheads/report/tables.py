"""The tables of a comparison's report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from manyheads.experiments.describe import DISTANCES
from manyheads.experiments.gains import Gain
from manyheads.experiments.results import ComparisonResult, MethodResult
from manyheads.report.drawing import SITES_DRAWN, some
from manyheads.report.names import display
from manyheads.report.summary import judged
from manyheads.report.words import NONE, Scale, first_upper, megabytes, monitor_named, seconds

__all__ = ["Cell", "Table", "all_tables", "flat"]


class Cell(NamedTuple):
    """A cell's text, and the key to sort its column by."""

    text: str
    key: float | str | None = None


class Table(NamedTuple):
    """A table; the first cell of a row is the row's heading."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    sortable: bool = False


def all_tables(result: ComparisonResult) -> dict[str, Table]:
    """Return the page's tables by name; those without any values are left out."""
    made = {
        "numbers": _numbers(result),
        "tuning": _tuning(result),
        "settings": _settings(result),
        "curves": _curves(result),
    }
    if result.further:
        made["metrics"] = _metrics(result)
    if judged(result):
        made["gains"] = _gains(result)
    made["data"] = _data(result)
    if result.monitored:
        made["monitors"] = _monitors(result)
    return made


def _numbers(result: ComparisonResult) -> Table:
    scale = Scale.of(result.score)
    head = (
        "Method", first_upper(scale.title), "Gain", "Sites gain", "Sites lose",
        "Sites unclear", "Worst tenth", "Spread", "MB up", "MB down", "Rounds to target", "MB to target",
        "Seconds", "Step size",
    )  # fmt: skip
    rows = [_row(name, result[name], scale) for name in result.ranked]
    return Table("All methods, best first, with 95 % intervals", head, rows, sortable=True)


def _row(name: str, m: MethodResult, scale: Scale) -> list[Cell]:
    gained = [Cell(NONE)] * 4
    if m.gain:
        counts = (m.gain.clients.gains, m.gain.clients.loses, m.gain.clients.unclear)
        gained = [_gain(m.gain, scale), *(Cell(str(n), n) for n in counts)]
    return [
        Cell(display(name), display(name)),
        Cell(f"{scale.value(m.score)} {scale.interval(m.interval)}", m.score),
        *gained,
        Cell(scale.value(m.worst_decile), m.worst_decile),
        Cell(scale.value(m.spread), m.spread),
        Cell(megabytes(m.bytes_up), m.bytes_up),
        Cell(megabytes(m.bytes_down), m.bytes_down),
        Cell(NONE if m.rounds_to_target is None else str(m.rounds_to_target), m.rounds_to_target),
        Cell(megabytes(m.bytes_to_target), m.bytes_to_target),
        Cell(seconds(m.seconds), m.seconds),
        Cell(NONE if m.rate is None else f"{m.rate:g}", m.rate),
    ]


def _metrics(result: ComparisonResult) -> Table:
    """Table of the further metrics: mean and range over seeds."""
    scales = {name: Scale(quantity) for name, quantity in result.further.items()}
    several = len(result.seeds) > 1
    rows = []
    for method in result.ranked:
        cells = [Cell(display(method), display(method))]
        for name, scale in scales.items():
            level = result[method].metrics[name]
            seeds = f" [{scale.value(level.low)}, {scale.value(level.high)}]" if several else ""
            cells.append(Cell(f"{scale.value(level.mean)}{seeds}", level.mean))
        rows.append(cells)
    what = "Further metrics on test samples: mean over sites" + (", and the range of the seeds" if several else "")
    return Table(what, ["Method", *(first_upper(scale.title) for scale in scales.values())], rows, sortable=True)


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
        cells = [Cell(row.name, row.name), Cell(str(row.samples), row.samples), Cell(scale.value(row.alone), row.alone)]
        rows.append([*cells, *(_gain(result[name].gains[i], scale) for name in names)])
    head = ["Site", "Test samples", "Alone", *map(display, names)]
    return Table("Gain of each site over training alone, with 95 % intervals", head, rows, sortable=True)


def _curves(result: ComparisonResult) -> Table:
    scale = Scale.of(result.score)
    points = {name: {p.round: p.score for p in method.curve} for name, method in result.methods.items()}
    rounds = sorted({r for found in points.values() for r in found})
    rows = [[Cell(str(r)), *(Cell(scale.value(found.get(r))) for found in points.values())] for r in rounds]
    return Table(f"Validation {scale.title} after each round shown", ["Round", *map(display, points)], rows)


def _data(result: ComparisonResult) -> Table:
    """Table of each drawn site's training data: label counts or target statistics, and distances from all sites."""
    data = result.data
    head = ["Site", "Training samples", "Labels"] if data.labels else ["Site", "Target mean", "Target deviation"]
    rows = []
    for i in some(data.clients, SITES_DRAWN):
        if data.labels:
            counts = data.labels[i]
            own = [Cell(str(sum(counts)), sum(counts)), Cell(str(n := sum(c > 0 for c in counts)), n)]
        else:
            own = [Cell(f"{v:.4g}", v) for t in (data.targets or ())[i : i + 1] for v in (t.mean, t.std)]
        distances = [Cell(f"{(d := found.per_client[i]):.3f}", d) for found in data.distances.values()]
        rows.append([Cell(data.names[i], data.names[i]), *own, *distances])
    head += [first_upper(DISTANCES[name]) for name in data.distances]
    return Table("The sites' training data", head, rows, sortable=True)


def _tuning(result: ComparisonResult) -> Table:
    """Table of the validation score of each step size tried, with a note if the best one is at the edge of the grid."""
    scale = Scale.of(result.score)
    rates = list(dict.fromkeys(r.rate for m in result.methods.values() for r in m.rates))
    rows = []
    for name in result.ranked:
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


def _settings(result: ComparisonResult) -> Table:
    """Table of all settings, and of each method's settings, by dotted path."""
    tree = {**result.settings, "methods": {n: m.algorithm for n, m in result.methods.items()}}
    return Table("Settings", ["Setting", "Value"], [[Cell(k), Cell(v)] for k, v in flat(tree)])


def _monitors(result: ComparisonResult) -> Table:
    """Table of the monitored quantities after the last round."""
    scales = {name: Scale(monitor_named(name)) for name in result.monitored}
    rows = []
    for method in result.ranked:
        found = result[method].monitors
        last = {name: found[name][-1].value if found.get(name) else None for name in scales}
        cells = (Cell(scales[name].value(value), value) for name, value in last.items())
        rows.append([Cell(display(method), display(method)), *cells])
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
