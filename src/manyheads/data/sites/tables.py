"""A user's table from a CSV, Parquet or NPZ file: columns of numbers or text.

Problems with a file are returned, not raised, so that a check can report those of all files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.words import printable
from manyheads.data.content import check_readable
from manyheads.data.sites.formats import load_npz, read_csv, read_npz, read_parquet
from manyheads.data.sites.problems import Problem, Unreadable, noting
from manyheads.data.sites.values import plain_column

__all__ = ["EXTENSIONS", "Table", "read_arrays", "read_table", "stem"]

EXTENSIONS = (".csv", ".csv.gz", ".parquet", ".npz")


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name: float64 with NaN for missing values, or text (dtype object) with None for them."""

    columns: dict[str, np.ndarray]
    rows: int
    ignored: frozenset[str] = frozenset()
    """columns of the file that were left out"""
    notations: dict[str, str] = field(default_factory=dict)
    """columns whose numbers have a notation other than a program's, and its name"""


def stem(path: Path) -> str:
    """The name of a table's file without its extension, which is the name of the site."""
    return printable(path.name.removesuffix(".gz").rpartition(".")[0])


def read_table(path: Path, ignore: Collection[str] = (), labelled: bool = True) -> tuple[Table | None, list[Problem]]:
    """A table without the columns to ignore, or None and the problem with its file.

    Unless ``labelled``, an NPZ file may have no labels ``y``.
    """
    readers: dict[str, Callable[[Path], dict[str, Any]]] = {
        ".csv": read_csv,
        ".gz": read_csv,
        ".parquet": read_parquet,
        ".npz": partial(read_npz, labelled=labelled),
    }
    problems: list[Problem] = []
    found: dict[str, Any] = {}
    columns: dict[str, np.ndarray] = {}
    notations: dict[str, str] = {}
    with noting(path, problems):
        if not path.name.endswith(EXTENSIONS):
            raise Unreadable("not a known kind of table", f"known are {', '.join(EXTENSIONS)}")
        check_readable(path)
        found = _named(readers[path.suffix](path))
        for name, column in found.items():
            if name not in ignore:
                columns[name], notations[name] = plain_column(column, name)
    if problems:
        return None, problems
    rows = len(next(iter(columns.values()))) if columns else 0
    if not rows:
        return None, [Problem("error", str(path), "has no rows", "add its samples, or remove the file")]
    written = {name: way for name, way in notations.items() if way}
    return Table(columns, rows, frozenset(found.keys() & set(ignore)), written), []


def read_arrays(path: Path) -> tuple[tuple[np.ndarray, np.ndarray | None] | None, list[Problem]]:
    """The arrays x (samples of any shape) and y (if present) of an NPZ file, or None and the problem with it."""
    problems: list[Problem] = []
    with noting(path, problems):
        check_readable(path)
        arrays = load_npz(path, ("x",))
        x, y = arrays["x"], arrays.get("y")
        if not x.ndim or not len(x):
            raise Unreadable("has no rows", "add its samples")
        if y is not None and (not y.ndim or len(y) != len(x)):
            raise Unreadable(f"y has the shape {y.shape}", f"it needs one value for each of {len(x)} rows of x")
        return (x, plain_column(y, "y")[0] if y is not None and y.ndim == 1 else y), []
    return None, problems


def _named(columns: Mapping[str, Any]) -> dict[str, Any]:
    """With names that are safe to print."""
    return {printable(name): column for name, column in columns.items()}
