"""Tables of a page: cells of text, with keys to sort by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from manyheads.experiments.gains import Gain, SiteAdvice
from manyheads.report.words import NONE, Scale

__all__ = ["Cell", "Table", "count_cell", "flat", "gain_cell", "name_cell"]


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


def name_cell(name: str) -> Cell:
    return Cell(name, name)


def count_cell(value: float | None, digits: str = ",.0f") -> Cell:
    return Cell(NONE if value is None else f"{value:{digits}}", value)


def gain_cell(found: Gain | SiteAdvice, scale: Scale) -> Cell:
    return Cell(f"{scale.gain(found.gain)} {scale.gain_interval(found.interval)}", found.gain)


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
