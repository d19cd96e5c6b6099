"""One table of a user's, from CSV, Parquet or NPZ: columns of numbers or of text, and what is wrong with the file.

A problem does not stop the reading at the first line: it is noted with its place, so that a check can tell them all.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

__all__ = ["EXTENSIONS", "Problem", "Table", "and_more", "as_numbers", "as_text", "read_arrays", "read_table", "stem"]

EXTENSIONS = (".csv", ".csv.gz", ".parquet", ".npz")
MISSING = ["", "na", "n/a", "nan", "null", "?"]
"""what stands for a missing value in text, in lower case"""
Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Problem:
    """Something wrong in a file, and what to do. Rows count from 1, below the header.

    >>> print(Problem("error", "a.csv", "no number: 'x'", "correct it", row=3, column="age"))
    a.csv, row 3, column 'age': no number: 'x'; correct it
    """

    severity: Severity
    file: str
    message: str
    fix: str
    row: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        row = f", row {self.row}" if self.row is not None else ""
        column = f", column {self.column!r}" if self.column is not None else ""
        return f"{self.file}{row}{column}: {self.message}; {self.fix}"


class _Unreadable(Exception):
    """The file as a whole cannot be used."""

    def __init__(self, message: str, fix: str, row: int | None = None, column: str | None = None) -> None:
        self.message, self.fix, self.row, self.column = message, fix, row, column


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name: float64 with NaN for missing values, or text (objects) with None for them."""

    columns: dict[str, np.ndarray]
    rows: int


def stem(path: Path) -> str:
    """The name of a table's file without its ending: the name of the site."""
    return path.name.removesuffix(".gz").rpartition(".")[0]


def read_table(path: Path, ignore: Collection[str] = (), labelled: bool = True) -> tuple[Table | None, list[Problem]]:
    """A table without the columns to ignore, unless its file is beyond use; and the problem that makes it so.

    An NPZ file may lack its labels ``y`` if it need not be ``labelled``.
    """
    readers: dict[str, Callable[[Path], dict[str, Any]]] = {
        ".csv": _read_csv,
        ".gz": _read_csv,
        ".parquet": _read_parquet,
        ".npz": partial(_read_npz, labelled=labelled),
    }
    problems: list[Problem] = []
    columns: dict[str, np.ndarray] = {}
    with _noting(path, problems):
        if not path.name.endswith(EXTENSIONS):
            raise _Unreadable("not a kind of table that is known", f"known are {', '.join(EXTENSIONS)}")
        columns = {n: _plain(c, n) for n, c in readers[path.suffix](path).items() if n not in ignore}
    if problems:
        return None, problems
    rows = len(next(iter(columns.values()))) if columns else 0
    if not rows:
        return None, [Problem("error", str(path), "has no rows", "add its samples, or take the file away")]
    return Table(columns, rows), []


def read_arrays(path: Path) -> tuple[tuple[np.ndarray, np.ndarray | None] | None, list[Problem]]:
    """The arrays x, of samples of any shape, and y (if it is there) of an NPZ file; or the problem with it."""
    problems: list[Problem] = []
    with _noting(path, problems):
        arrays = _load_npz(path, ("x",))
        x, y = arrays["x"], arrays.get("y")
        if not x.ndim or not len(x):
            raise _Unreadable("has no rows", "add its samples")
        if y is not None and (not y.ndim or len(y) != len(x)):
            raise _Unreadable(f"y has the shape {y.shape}", f"it needs one value for each of {len(x)} rows of x")
        return (x, _plain(y, "y") if y is not None and y.ndim == 1 else y), []
    return None, problems


@contextmanager
def _noting(path: Path, problems: list[Problem]) -> Iterator[None]:
    """Add what makes a file unreadable to ``problems``."""
    import pyarrow as pa

    try:
        yield
    except _Unreadable as error:
        problems.append(Problem("error", str(path), error.message, error.fix, error.row, error.column))
    except (pa.ArrowException, OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        problems.append(Problem("error", str(path), f"cannot be read: {reason}", "write the file anew"))


def and_more(found: Sized) -> str:
    """How many more there are than the first, which is told in full."""
    return f" (and {len(found) - 1} more rows)" if len(found) > 1 else ""


def _read_csv(path: Path) -> dict[str, Any]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    with pa.input_stream(str(path), compression="detect") as stream:
        content = stream.read()
    try:
        header = content.decode("utf-8-sig").partition("\n")[0].rstrip("\r")
    except UnicodeDecodeError as error:
        row = content.count(b"\n", 0, error.start)
        raise _Unreadable("is not text in UTF-8", "save it as CSV with the encoding UTF-8", row or None) from None
    if not header:
        return {}
    delimiter = max(",;\t", key=header.count)
    names = [n.strip() for n in next(csv.reader(io.StringIO(header), delimiter=delimiter), [])]
    _check_names(names)

    uneven: list[Any] = []

    def note(row: Any) -> str:
        uneven.append(row)
        return "skip"

    table = arrow_csv.read_csv(
        pa.BufferReader(content),
        # one thread: only then does the reader know the number of a row that does not fit
        arrow_csv.ReadOptions(column_names=names, skip_rows=1, use_threads=False),
        arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=note),
        arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )
    if uneven:
        raise _Unreadable(
            f"has {uneven[0].actual_columns} values where the header has {len(names)}{and_more(uneven)}",
            "complete the row, or put quotes around a value that holds the delimiter",
            uneven[0].number - 1,  # the reader counts the header
        )
    return {name: table[name] for name in names}


def _read_parquet(path: Path) -> dict[str, Any]:
    from pyarrow import parquet

    table = parquet.read_table(str(path), partitioning=None)
    _check_names(table.column_names)
    return dict(zip(table.column_names, table.columns, strict=True))


def _load_npz(path: Path, needed: Sequence[str]) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, AttributeError):  # numpy's own words here advise to load the file unsafely
        fix = "save plain arrays of numbers or text: np.savez(file, x=x, y=y)"
        raise _Unreadable("is no NPZ file, or holds Python objects", fix) from None
    if not arrays.keys() >= set(needed):
        raise _Unreadable(
            f"holds the arrays {', '.join(arrays) or 'none'}", "save x (a row a sample) and y: np.savez(file, x=x, y=y)"
        )
    return arrays


def _read_npz(path: Path, labelled: bool) -> dict[str, Any]:
    arrays = _load_npz(path, ("x", "y") if labelled else ("x",))
    x = arrays.pop("x")
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2:
        raise _Unreadable(f"x has {x.ndim} dimensions", "x needs 2, a row a sample: x.reshape(len(x), -1)")
    for name, array in arrays.items():
        if array.shape != (len(x),):
            raise _Unreadable(
                f"{name} has the shape {array.shape}", f"it needs one value for each of {len(x)} rows of x"
            )
    columns = {f"x{i}": x[:, i] for i in range(x.shape[1])} | arrays
    _check_names(list(columns))
    return columns


def _check_names(names: list[str]) -> None:
    for place, name in enumerate(names, 1):
        if not name:
            fix = "name it; pandas writes such a column unless told to_csv(..., index=False)"
            raise _Unreadable(f"column {place} has no name", fix)
    double = [n for n, count in Counter(names).items() if count > 1]
    if double:
        raise _Unreadable("two columns have this name", "rename one of them", column=double[0])


def _plain(column: Any, name: str) -> np.ndarray:
    """A column as numbers, if all of it is that, or as text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, np.ndarray):
        column = pa.array(column)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        trimmed = pc.utf8_trim_whitespace(column.cast(pa.string()))
        missing = pc.is_in(pc.utf8_lower(trimmed), value_set=pa.array(MISSING))
        column = pc.if_else(missing, pa.scalar(None, pa.string()), trimmed)
    elif not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or kind == pa.null()
    ):
        raise _Unreadable(f"values of type {kind}", "turn them into numbers or text", column=name)
    try:
        return np.array(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
    except pa.ArrowInvalid:
        return np.array(column.to_pylist(), dtype=object)


def as_numbers(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of a column, NaN where there is none, and where there is text that is no number.

    >>> values, wrong = as_numbers(np.array(["1.5", None, "tall"], object))
    >>> values.tolist(), wrong.tolist()
    ([1.5, nan, nan], [False, False, True])
    """
    if column.dtype != object:
        return column, np.zeros(len(column), bool)
    values = np.array([_number(v) for v in column], dtype=np.float64)
    return values, np.isnan(values) & np.array([v is not None for v in column], dtype=bool)


def _number(value: str | None) -> float:
    try:
        return float(value) if value and "_" not in value else np.nan
    except ValueError:
        return np.nan


def as_text(column: np.ndarray) -> np.ndarray:
    """The values of a column as text, a number written in one way whatever the file; None where missing.

    >>> as_text(np.array([1.0, 2.5, np.nan])).tolist(), as_text(np.array(["1.0", "a"], object)).tolist()
    (['1', '2.5', None], ['1', 'a'])
    """
    numbers, _ = as_numbers(column)
    return np.array([_written(n, v) for n, v in zip(numbers.tolist(), column.tolist(), strict=True)], dtype=object)


def _written(number: float, value: Any) -> str | None:
    if np.isnan(number):
        return value if isinstance(value, str) else None
    return str(int(number)) if np.isfinite(number) and number == int(number) else str(number)
