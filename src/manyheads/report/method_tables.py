"""The tables of a comparison's page that are about its methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from manyheads.experiments.method_result import MethodResult, MetricLevel
from manyheads.experiments.results import ALONE, ComparisonResult
from manyheads.report.names import display
from manyheads.report.searched import searched_table
from manyheads.report.table import Cell, Table, count_cell, flat, gain_cell, name_cell
from manyheads.report.words import NONE, Scale, first_upper, megabytes, monitor_named, seconds

__all__ = ["method_tables"]


def method_tables(result: ComparisonResult) -> dict[str, Table]:
    """Return the tables of methods by name; those without any values are left out."""
    made = {
        "scores": _scores(result),
        "costs": _costs(result),
        "means": _metrics(result, "Mean over sites", lambda level: level.mean),
        "worst": _metrics(result, "Mean over the worst tenth of sites", lambda level: level.worst_decile),
        "spreads": _metrics(result, "Standard deviation over sites", lambda level: level.spread),
        "tuning": _searched(result) if result.searched else _tuning(result),
        "choices": _choices(result),
        "settings": _settings(result),
        "curves": _curves(result),
        "monitors": _monitors(result),
    }
    return {name: table for name, table in made.items() if table.rows}


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
            gained = [gain_cell(m.gain, scale), *map(count_cell, counts)]
        rows.append(
            [
                name_cell(display(name)),
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
            name_cell(display(name)),
            count_cell(m.rounds or None),
            count_cell(m.passes or None, ",.3g"),
            Cell(megabytes(m.bytes_up), m.bytes_up),
            Cell(megabytes(m.bytes_down), m.bytes_down),
            count_cell(m.rounds_to_target),
            Cell(megabytes(m.bytes_to_target), m.bytes_to_target),
            Cell(seconds(m.seconds), m.seconds) if m.seconds else Cell(NONE),
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
            [
                name_cell(display(method)),
                *(Cell(scale.value(values[name]), values[name]) for name, scale in scales.items()),
            ]
        )
    return Table(what, ["Method", *(first_upper(scale.title) for scale in scales.values())], rows, sortable=True)


def _curves(result: ComparisonResult) -> Table:
    scale = Scale.of(result.score)
    points = {name: {p.round: p.score for p in method.curve} for name, method in result.methods.items() if method.curve}
    rounds = sorted({r for found in points.values() for r in found})
    rows = [[Cell(str(r)), *(Cell(scale.value(found.get(r))) for found in points.values())] for r in rounds]
    return Table(f"Validation {scale.title} after each round shown", ["Round", *map(display, points)], rows)


def _tuning(result: ComparisonResult) -> Table:
    """Table of the validation score of each step size tried, with a note if the best one is at the edge of the grid."""
    scale = Scale.of(result.score)
    tuned = [name for name in result.ranked if result[name].rates]
    rates = list(dict.fromkeys(r.rate for name in tuned for r in result[name].rates))
    rows, marked = [], any(r.stopped for name in tuned for r in result[name].rates)
    for name in tuned:
        method = result[name]
        tried = {r.rate: r.validation for r in method.rates}
        stopped = {r.rate for r in method.rates if r.stopped}
        cells = [Cell(display(name))]
        for rate in rates:
            if rate not in tried:
                cells.append(Cell(NONE))
            elif (score := tried[rate]) is None:
                cells.append(Cell("diverged"))
            else:
                mark = " *" if rate == method.rate else " †" if rate in stopped else ""
                cells.append(Cell(f"{scale.value(score)}{mark}"))
        rows.append([*cells, Cell(_edge(method.rate, [r for r in tried if r is not None]))])
    return Table(
        f"Validation {scale.title} by step size; * is the one used" + ("; † was stopped early" if marked else ""),
        ["Method", *(f"{r:g}" for r in rates), "Note"],
        rows,
    )


def _searched(result: ComparisonResult) -> Table:
    """Table of all settings that a search has tried."""
    chosen = {name: (method.rate, method.knobs) for name, method in result.methods.items()}
    return searched_table(result.searched, Scale.of(result.score), chosen)


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
        told = ", ".join(f"{name} {value}" for name, value in found.knobs.items())
        return f"{found.rounds} rounds" + ("" if found.rate is None else f" at {found.rate:g}") + (told and f", {told}")

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
            rows.append([name_cell(display(method)), *cells])
    head = ["Method", *(first_upper(scale.title) for scale in scales.values())]
    return Table("Representations and heads after the last round", head, rows, sortable=True)
