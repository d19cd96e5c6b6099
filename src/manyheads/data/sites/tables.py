"""A user's table from a CSV, Excel, Parquet or NPZ file: columns of numbers or text.

Problems with a file are returned, not raised, so that a check can report those of all files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.words import printable
from manyheads.data.content import check_readable
from manyheads.data.sites.formats import Found, load_npz, read_csv, read_npz, read_parquet
from manyheads.data.sites.problems import Problem, Unreadable, noting
from manyheads.data.sites.values import Plain, is_text, plain_column
from manyheads.data.sites.workbook import read_workbook

__all__ = ["EXTENSIONS", "Table", "read_arrays", "read_table", "stem"]

EXTENSIONS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".xlsx", ".parquet", ".npz")


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name: float64 with NaN for missing values, or text (dtype object) with None for them."""

    columns: dict[str, np.ndarray]
    rows: int
    ignored: frozenset[str] = frozenset()
    """columns of the file that were left out"""
    notations: dict[str, str] = field(default_factory=dict)
    """columns whose numbers have a notation other than a program's, and its name"""
    codes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """columns in which texts were read as missing values, and these texts"""


def stem(path: Path) -> str:
    """The name of a table's file without its extension, which is the name of the site."""
    return printable(path.name.removesuffix(".gz").rpartition(".")[0])


def read_table(
    path: Path, ignore: Collection[str] = (), labelled: bool = True, sheet: str = "", missing: Sequence[str] = ()
) -> tuple[Table | None, list[Problem]]:
    """A table without the columns to ignore, and warnings; or None and the problem with its file.

    Unless ``labelled``, an NPZ file may have no labels ``y``. Of a workbook, ``sheet`` is read, or the first. Codes of
    ``missing`` values are CODE or, in one column, COLUMN=CODE.
    """
    readers: dict[str, Callable[[Path], Found]] = {
        ".csv": read_csv,
        ".tsv": read_csv,
        ".gz": read_csv,
        ".xlsx": partial(read_workbook, sheet=sheet, ignore=ignore),
        ".parquet": read_parquet,
        ".npz": partial(read_npz, labelled=labelled),
    }
    problems: list[Problem] = []
    found = Found({})
    plain: dict[str, Plain] = {}
    with noting(path, problems):
        if not path.name.endswith(EXTENSIONS):
            raise Unreadable("not a known kind of table", f"known are {', '.join(EXTENSIONS)}")
        check_readable(path)
        found = readers[path.suffix](path)
        plain = _plain({printable(n): c for n, c in found.columns.items() if printable(n) not in ignore}, missing)
    if problems:
        return None, problems
    rows = len(next(iter(plain.values())).values) if plain else 0
    if not rows:
        return None, [Problem("error", str(path), "has no rows", "add its samples, or remove the file")]
    table = Table(
        {name: column.values for name, column in plain.items()},
        rows,
        frozenset({printable(n) for n in found.columns} & set(ignore)),
        {name: column.notation for name, column in plain.items() if column.notation},
        {name: column.codes for name, column in plain.items() if column.codes},
    )
    return table, [Problem("warning", str(path), message, fix) for message, fix in found.assumed]


def _plain(columns: Mapping[str, Any], missing: Sequence[str]) -> dict[str, Plain]:
    """Plain columns; where some have a decimal comma, the others are read again with that in mind."""
    codes = {name: codes_of(missing, name) for name in columns}
    plain = {name: plain_column(column, name, codes[name]) for name, column in columns.items()}
    if any("a decimal comma" in p.notation for p in plain.values()):
        for name in (n for n, p in plain.items() if not p.notation and is_text(columns[n])):
            again = plain_column(columns[name], name, codes[name], comma=True)
            plain[name] = again if again.notation else plain[name]
    return plain


def codes_of(missing: Sequence[str], name: str) -> list[str]:
    """The codes of missing values that hold for a column.

    >>> codes_of(["-9", "chol=0"], "chol"), codes_of(["-9", "chol=0"], "sex")
    (['-9', '0'], ['-9'])
    """
    parts = [code.rpartition("=") for code in missing]
    return [code for column, _, code in parts if column in ("", name)]


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
        return (x, plain_column(y, "y").values if y is not None and y.ndim == 1 else y), []
    return None, problems
