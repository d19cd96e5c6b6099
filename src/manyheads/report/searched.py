"""The table and the picture of settings that were tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from manyheads.experiments.method_result import Tried
from manyheads.report.drawing import Chart, chart_of, coloured
from manyheads.report.names import display
from manyheads.report.table import Cell, Table
from manyheads.report.words import NONE, Scale, first_upper

__all__ = ["searched_chart", "searched_table", "settings_chart"]


def written(knobs: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in knobs.items())


def searched_table(tried: Mapping[str, Sequence[Tried]], scale: Scale, chosen: Mapping[str, Any]) -> Table:
    """Table of all that was tried for each method; ``chosen`` has the step size and the settings of each."""
    rows = [
        [
            Cell(display(name), display(name)),
            Cell(NONE if each.rate is None else f"{each.rate:g}", each.rate),
            Cell(written(each.knobs) or NONE),
            Cell("diverged" if each.validation is None else scale.value(each.validation), each.validation),
            Cell(str(each.folds), each.folds),
            Cell(str(each.rounds), each.rounds),
            Cell(_note(each, chosen[name])),
        ]
        for name, own in tried.items()
        for each in own
    ]
    head = ["Method", "Step size", "Settings", f"Validation {scale.title}", "Folds", "Rounds trained", "Note"]
    return Table("All settings tried", head, rows, sortable=True)


def _note(tried: Tried, chosen: Any) -> str:
    stopped = f"stopped early in {tried.stopped}" if tried.folds > 1 else "stopped early"
    return "used" if (tried.rate, tried.knobs) == chosen else stopped if tried.stopped else ""


def _rows(name: str, tried: Sequence[Tried], scale: Scale) -> list[dict[str, Any]]:
    return [
        {
            "method": display(name),
            "rate": each.rate,
            "score": scale.drawn(each.validation),
            "settings": written(each.knobs) or NONE,
            "rounds": each.rounds,
            "end": "stopped early" if each.stopped else "trained on",
        }
        for each in tried
        if each.rate is not None and each.validation is not None
    ]


def _points(rows: Sequence[Mapping[str, Any]], scale: Scale, colour: Any) -> Chart:
    tooltip = [
        alt.Tooltip("method:N", title="Method"),
        alt.Tooltip("rate:Q", title="Step size"),
        alt.Tooltip("settings:N", title="Settings"),
        alt.Tooltip("score:Q", title=first_upper(scale.title), format=scale.format),
        alt.Tooltip("rounds:Q", title="Rounds trained"),
    ]
    made: Chart = (
        chart_of(rows)
        .mark_point(size=60, filled=True, opacity=0.85)
        .encode(
            x=alt.X("rate:Q", title="step size", scale=alt.Scale(type="log")),
            y=alt.Y("score:Q", title=f"validation {scale.title}", scale=alt.Scale(zero=False)),
            color=colour,
            shape=alt.Shape(
                "end:N", title=None, scale=alt.Scale(domain=["trained on", "stopped early"], range=["circle", "cross"])
            ),
            tooltip=tooltip,
        )
        .properties(height=280)
    )
    return made


def searched_chart(tried: Mapping[str, Sequence[Tried]], scale: Scale, legend: alt.Legend | None = None) -> Chart:
    """Chart of the validation score of all that was tried, over the step size, by method."""
    rows = [row for name, own in tried.items() for row in _rows(name, own, scale)]
    return _points(rows, scale, coloured(list(tried), legend))


def settings_chart(name: str, tried: Sequence[Tried], scale: Scale) -> Chart:
    """The same of one method, coloured by its further settings."""
    order = dict.fromkeys(
        written(each.knobs) or NONE for each in sorted(tried, key=lambda each: [*each.knobs.values()])
    )
    colour = alt.Color("settings:N", title=None, sort=list(order), scale=alt.Scale(scheme="viridis"))
    return _points(_rows(name, tried, scale), scale, colour)
