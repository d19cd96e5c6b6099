"""Read the columns of a sheet of an Excel workbook (.xlsx)."""

from __future__ import annotations

import datetime
import warnings
import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.errors import did_you_mean
from manyheads.core.words import printable, quoted
from manyheads.data.content import check_size
from manyheads.data.sites.formats import Found, check_names
from manyheads.data.sites.problems import Unreadable
from manyheads.data.sites.values import written

__all__ = ["read_workbook"]

MOST_ROWS = 1_048_576
"""of a sheet, by Excel's own limit"""
OLD = b"\xd0\xcf\x11\xe0"
"""how workbooks of Excel before 2007 begin, and those with a password"""


def read_workbook(path: Path, sheet: str = "", ignore: Collection[str] = ()) -> Found:
    """The columns of a sheet: the named one, or the first that holds values. Those to ignore are given as blank."""
    with path.open("rb") as file:
        if file.read(len(OLD)) == OLD:
            raise Unreadable("is an old workbook, or has a password", "save it as .xlsx, without a password")
    with _opened(path, values=True) as book:
        sheets = {printable(s.title): s for s in book.worksheets}
        if sheet and sheet not in sheets:
            near = did_you_mean(sheet, sheets) or f"there are {quoted(*sheets)}"
            raise Unreadable(f"has no sheet {quoted(sheet)}", f"{near}; --data.sheet names one for all files")
        full = [name for name, s in sheets.items() if next(_rows(s), None)]
        name = sheet or next(iter(full), "")
        rows: list[list[Any]] = []
        blank: set[tuple[int, int]] = set()
        for row in _rows(sheets[name]) if name in full else ():
            rows.append([cell.value for cell in row])
            blank |= {(c.row, c.column) for c in _there(row) if c.value is None and c.data_type == "n"}
        columns = _columns(rows, ignore)
    if blank:
        _check_computed(path, name, blank, list(columns), ignore)
    if len(full) < 2 or sheet:
        return Found(columns)
    message = f"{len(full)} sheets hold values, {quoted(*full, most=5)}: {quoted(name)} is read"
    return Found(columns, ((message, "name the one to read: --data.sheet NAME"),))


@contextmanager
def _opened(path: Path, values: bool) -> Iterator[Any]:
    """The workbook with the values of its formulas, or with the formulas themselves."""
    from openpyxl import load_workbook

    try:
        with zipfile.ZipFile(path) as archive:
            check_size(sum(member.file_size for member in archive.infolist()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles, pictures and the like, which are not read
            book = load_workbook(path, read_only=True, data_only=values, keep_links=False)
            try:
                yield book
            finally:
                book.close()
    except (OSError, Unreadable):
        raise
    except Exception:  # a broken archive, or broken XML in it, may fail in any way
        raise Unreadable("is not a workbook of Excel, or is damaged", "save it as .xlsx again") from None


def _rows(sheet: Any) -> Iterator[tuple[Any, ...]]:
    """The cells of the rows that are not blank. What the file says of its size is not relied on."""
    sheet.reset_dimensions()
    cells = 0
    for number, row in enumerate(sheet.rows, 1):
        if number > MOST_ROWS:
            raise Unreadable(f"has more than {MOST_ROWS} rows", "save it as .xlsx again, or as CSV")
        if any(cell.value not in (None, "") for cell in row):
            check_size(32 * (cells := cells + len(row)))
            yield row


def _columns(rows: Sequence[list[Any]], ignore: Collection[str]) -> dict[str, Any]:
    """The columns below the header, without those that are blank altogether."""
    if not rows:
        return {}
    width = max(i for row in rows for i, value in enumerate(row, 1) if value not in (None, ""))
    header, *body = ([*row[:width], *[None] * (width - len(row))] for row in rows)
    names = [printable(str(name).strip()) if name is not None else "" for name in header]
    check_names(names, "the first row of the sheet")
    return {n: _column([None if n in ignore else row[i] for row in body], n) for i, n in enumerate(names)}


def _column(cells: Sequence[Any], name: str) -> Any:
    """As numbers or booleans if all values are, else as text; dates are text as in ISO 8601."""
    import pyarrow as pa

    kinds = {type(v) for v in cells if v is not None}
    if kinds <= {int, float}:
        return np.array([np.nan if v is None else v for v in cells], np.float64)
    return pa.array(cells if kinds == {bool} else [_text(v, i, name) for i, v in enumerate(cells, 1)])


def _text(value: Any, row: int, column: str) -> str | None:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return written(float(value))
        case datetime.datetime():
            return str(value).removesuffix(" 00:00:00")
        case datetime.time() | datetime.timedelta():
            raise Unreadable("a time without a date", "write it as a number", row, column)
        case str() if value.startswith("#") and value.endswith(("!", "?")):
            raise Unreadable(f"an error of Excel: {quoted(value)}", "correct it, or leave it empty", row, column)
    return None if value is None else str(value)


def _there(row: Sequence[Any]) -> list[Any]:
    """The cells that the file holds: others have no place."""
    return [cell for cell in row if hasattr(cell, "row")]


def _check_computed(
    path: Path, sheet: str, blank: set[tuple[int, int]], names: Sequence[str], ignore: Collection[str]
) -> None:
    """Refuse a formula among the ``blank`` cells: the program that wrote it did not compute its value."""
    with _opened(path, values=False) as book:
        rows = [_there(row) for row in _rows(next(s for s in book.worksheets if printable(s.title) == sheet))]
    for cell in (cell for row in rows for cell in row if cell.data_type == "f"):
        column = dict(enumerate(names, 1)).get(cell.column)
        if (cell.row, cell.column) in blank and column not in ignore:
            raise Unreadable(
                f"the formula in {cell.coordinate} has no value",
                "open the file in Excel or LibreOffice, which computes it, and save it",
                cell.row - rows[0][0].row,
                column,
            )
