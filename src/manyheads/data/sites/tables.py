"""One table of a user's, from CSV, Parquet or NPZ: columns of numbers or of text, and what is wrong with the file.

A problem does not stop the reading at the first line: it is noted with its place, so that a check can tell them all.
"""

from __future__ import annotations

import csv
import io
import math
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from manyheads.core.words import printable, quoted
from manyheads.data.content import check_readable, check_size, unpacked
from manyheads.data.sites.notation import read_numbers

__all__ = [
    "EXTENSIONS",
    "Problem",
    "Table",
    "and_more",
    "as_numbers",
    "as_text",
    "like_values",
    "read_arrays",
    "read_table",
    "stem",
]

EXTENSIONS = (".csv", ".csv.gz", ".parquet", ".npz")
MISSING = ["", "na", "n/a", "nan", "null", "?"]
"""what stands for a missing value in text, in lower case"""
MOST_COLUMNS = 100_000
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
        column = f", column {quoted(self.column)}" if self.column is not None else ""
        return printable(f"{self.file}{row}{column}: {self.message}; {self.fix}")


class _Unreadable(Exception):
    """The file as a whole cannot be used."""

    def __init__(self, message: str, fix: str, row: int | None = None, column: str | None = None) -> None:
        self.message, self.fix, self.row, self.column = message, fix, row, column


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name: float64 with NaN for missing values, or text (objects) with None for them."""

    columns: dict[str, np.ndarray]
    rows: int
    ignored: frozenset[str] = frozenset()
    """columns that it has besides"""
    notations: dict[str, str] = field(default_factory=dict)
    """how the numbers of a column are written, if not as programs do"""


def stem(path: Path) -> str:
    """The name of a table's file without its ending: the name of the site."""
    return printable(path.name.removesuffix(".gz").rpartition(".")[0])


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
    found: dict[str, Any] = {}
    columns: dict[str, np.ndarray] = {}
    notations: dict[str, str] = {}
    with _noting(path, problems):
        if not path.name.endswith(EXTENSIONS):
            raise _Unreadable("not a kind of table that is known", f"known are {', '.join(EXTENSIONS)}")
        check_readable(path)
        found = _named(readers[path.suffix](path))
        for name, column in found.items():
            if name not in ignore:
                columns[name], notations[name] = _plain(column, name)
    if problems:
        return None, problems
    rows = len(next(iter(columns.values()))) if columns else 0
    if not rows:
        return None, [Problem("error", str(path), "has no rows", "add its samples, or take the file away")]
    written = {name: way for name, way in notations.items() if way}
    return Table(columns, rows, frozenset(found.keys() & set(ignore)), written), []


def read_arrays(path: Path) -> tuple[tuple[np.ndarray, np.ndarray | None] | None, list[Problem]]:
    """The arrays x, of samples of any shape, and y (if it is there) of an NPZ file; or the problem with it."""
    problems: list[Problem] = []
    with _noting(path, problems):
        check_readable(path)
        arrays = _load_npz(path, ("x",))
        x, y = arrays["x"], arrays.get("y")
        if not x.ndim or not len(x):
            raise _Unreadable("has no rows", "add its samples")
        if y is not None and (not y.ndim or len(y) != len(x)):
            raise _Unreadable(f"y has the shape {y.shape}", f"it needs one value for each of {len(x)} rows of x")
        return (x, _plain(y, "y")[0] if y is not None and y.ndim == 1 else y), []
    return None, problems


@contextmanager
def _noting(path: Path, problems: list[Problem]) -> Iterator[None]:
    """Add what makes a file unreadable to ``problems``."""
    import pyarrow as pa

    try:
        yield
    except _Unreadable as error:
        problems.append(Problem("error", str(path), error.message, error.fix, error.row, error.column))
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__
        problems.append(Problem("error", str(path), f"cannot be read: {reason}", "write the file anew"))


def and_more(found: Sized) -> str:
    """How many more there are than the first, which is told in full."""
    return f" (and {len(found) - 1} more rows)" if len(found) > 1 else ""


def _read_csv(path: Path) -> dict[str, Any]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    content = unpacked(path)
    if not content.endswith((b"\n", b"\r")):
        content += b"\n"
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = content.count(b"\n", 0, error.start)
        raise _Unreadable("is not text in UTF-8", "save it as CSV with the encoding UTF-8", row or None) from None
    names, delimiter, lines = _header(text)
    if not names:
        return {}
    check_size(8 * sum(text.count(end) for end in (delimiter, "\n", "\r")))

    uneven: list[Any] = []

    def note(row: Any) -> str:
        uneven.append(row)
        return "skip"

    places = [str(i) for i in range(len(names))]
    table = arrow_csv.read_csv(
        pa.BufferReader(content),
        # one thread: only then does the reader know the number of a row that does not fit; one block: a row fits into it
        arrow_csv.ReadOptions(
            column_names=places, skip_rows=lines, use_threads=False, block_size=min(len(content) + 1, 2**31 - 1)
        ),
        arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=note),
        arrow_csv.ConvertOptions(column_types=dict.fromkeys(places, pa.string())),
    )
    if uneven:
        raise _Unreadable(
            f"has {uneven[0].actual_columns} values where the header has {len(names)}{and_more(uneven)}",
            "complete the row, or put quotes around a value that holds the delimiter",
            uneven[0].number - lines,  # the reader counts the header
        )
    return dict(zip(names, table.columns, strict=True))


def _header(text: str) -> tuple[list[str], str, int]:
    """The names of the columns, the delimiter, and the lines they take up, empty ones before them included."""
    first = next((line for line in io.StringIO(text, newline="") if line.strip()), "")
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        names = next((row for row in reader if "".join(row).strip()), [])
    except csv.Error as error:
        raise _Unreadable(
            f"the header cannot be read: {error}", "write the columns' names into the first line"
        ) from None
    names = [name.strip() for name in names]
    _check_names(names, "the first line")
    return names, delimiter, reader.line_num


def _read_parquet(path: Path) -> dict[str, Any]:
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(str(path)) as file:
        names = file.schema_arrow.names
        _check_names(names)
        check_size(8 * file.metadata.num_rows * len(names))
        batches, size = [], 0
        for batch in file.iter_batches(batch_size=4096):
            batches.append(batch)
            check_size(size := size + batch.nbytes)
        table = pa.Table.from_batches(batches, file.schema_arrow)
    return dict(zip(names, table.columns, strict=True))


def _load_npz(path: Path, needed: Sequence[str]) -> dict[str, np.ndarray]:
    fix = "save plain arrays of numbers or text: np.savez(file, x=x, y=y)"
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
            check_size(sum(m.file_size for m in members))
            for member in members:
                with archive.open(member) as file:
                    arrays[member.filename.removesuffix(".npy")] = _read_npy(file, member.file_size)
    except OSError:
        raise
    except (
        Exception
    ):  # a broken archive or header may fail in any way, and numpy's own words advise to load it unsafely
        raise _Unreadable("is no NPZ file, or holds Python objects", fix) from None
    if not arrays.keys() >= set(needed):
        raise _Unreadable(
            f"holds the arrays {quoted(*arrays) or 'none'}", "save x (a row a sample) and y: np.savez(file, x=x, y=y)"
        )
    return arrays


def _read_npy(file: IO[bytes], size: int) -> np.ndarray:
    """An array of as many bytes as its header says, which is asked first: it could claim any number of them."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, columns_first, dtype = read(file)
    if dtype.hasobject or file.tell() + math.prod(shape) * dtype.itemsize != size:
        raise ValueError("objects, or another size than its header says")
    flat = np.frombuffer(file.read(), dtype)
    array = flat.reshape(shape, order="F" if columns_first else "C")
    return array.astype(dtype.newbyteorder("="))


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
    if x.shape[1] > MOST_COLUMNS:
        raise _Unreadable(f"x has {x.shape[1]} columns", f"at most {MOST_COLUMNS} are read")
    _check_names([*(f"x{i}" for i in range(x.shape[1])), *arrays])
    return {f"x{i}": x[:, i] for i in range(x.shape[1])} | arrays


def _check_names(names: Sequence[str], place: str = "") -> None:
    """Of a table whose names stand in the first line, which may hold values instead, that line is the ``place``."""
    if len(names) > MOST_COLUMNS:
        raise _Unreadable(f"has {len(names)} columns", f"at most {MOST_COLUMNS} are read")
    values = f"; {place} seems to hold values, not names" if place and like_values(names) else ""
    for number, name in enumerate(names, 1):
        if not name:
            fix = "name it; pandas writes such a column unless told to_csv(..., index=False)"
            raise _Unreadable(f"column {number} has no name{values}", fix)
    double = [n for n, count in Counter(names).items() if count > 1]
    if double:
        raise _Unreadable(f"two columns have this name{values}", "rename one of them", column=double[0])


def like_values(names: Sequence[str]) -> bool:
    """Whether what should be the names of columns may be their values: half of them are numbers."""
    return 2 * sum(not np.isnan(_number(n)) for n in names) >= len(names)


def _named(columns: Mapping[str, Any]) -> dict[str, Any]:
    """By names that can be shown anywhere."""
    return {printable(name): column for name, column in columns.items()}


def _plain(column: Any, name: str) -> tuple[np.ndarray, str]:
    """A column as numbers, if all of it is that, or as text; and how numbers are written, if not plainly."""
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
        return np.array(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64), ""
    except pa.ArrowInvalid:
        texts = np.array([v if v is None else printable(v) for v in column.to_pylist()], dtype=object)
    known = texts != None  # noqa: E711 (of each)
    numbers = read_numbers(texts[known].tolist())
    if numbers is None:
        return texts, ""
    values = np.full(len(texts), np.nan)
    values[known], way = numbers
    return values, way


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
