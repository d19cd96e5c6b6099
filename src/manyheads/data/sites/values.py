"""The values of a column: numbers (NaN where missing) or text (None where missing)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from manyheads.core.words import printable
from manyheads.data.sites.notation import read_numbers
from manyheads.data.sites.problems import Unreadable

__all__ = [
    "Plain",
    "as_numbers",
    "as_text",
    "distinct",
    "is_missing",
    "is_text",
    "like_values",
    "ordered",
    "plain_column",
    "written",
]

MISSING = ["", "na", "n/a", "#n/a", "nan", "null", "?"]
"""what stands for a missing value in text, in lower case"""
MARKS = ["-", "."]
"""what does so, too, unless the column holds a +"""


class Plain(NamedTuple):
    """A column as numbers if all of its values are, else as text."""

    values: np.ndarray
    notation: str = ""
    """of the numbers, if it is not a program's"""
    codes: tuple[str, ...] = ()
    """texts that were read as missing values"""


def plain_column(column: Any, name: str, missing: Sequence[str] = (), comma: bool = False) -> Plain:
    """A column of any type; ``missing`` are more codes of missing values.

    With ``comma``, numbers that can be read in two ways have a decimal comma, as in other columns of the file.
    """
    import pyarrow as pa

    if isinstance(column, np.ndarray):
        column = pa.array(column)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        column = column.cast(pa.string())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not is_text(column) and not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or kind == pa.null()
    ):
        raise Unreadable(f"values of type {kind}", "convert them to numbers or text", column=name)
    if is_text(column):
        plain = _read_text(column, missing, comma)
    else:
        plain = Plain(np.array(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64))
    if plain.values.dtype == object or not missing:
        return plain
    return plain._replace(values=np.where(np.isin(plain.values, [*map(_number, missing)]), np.nan, plain.values))


def is_text(column: Any) -> bool:
    """Whether a column of a file holds text."""
    import pyarrow as pa

    kind = getattr(column, "type", None)
    return any(is_(kind) for is_ in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def _read_text(column: Any, missing: Sequence[str], comma: bool) -> Plain:
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(column.cast(pa.string()))
    signs = pc.any(pc.equal(trimmed, "+")).as_py()  # as a result of a test, + or -
    known = [*MISSING, *([] if signs else MARKS), *(code.lower() for code in missing)]
    gone = pc.is_in(pc.utf8_lower(trimmed), value_set=pa.array(known))
    codes = tuple(code for code in pc.unique(pc.filter(trimmed, gone)).to_pylist() if code)
    left = pc.if_else(gone, pa.scalar(None, pa.string()), trimmed)
    if not comma:
        try:
            numbers = left.cast(pa.float64()).to_numpy(zero_copy_only=False)
            return Plain(np.array(numbers, dtype=np.float64), codes=codes)
        except pa.ArrowInvalid:
            pass
    texts = np.array([v if v is None else printable(v) for v in left.to_pylist()], dtype=object)
    there = texts != None  # noqa: E711 (elementwise)
    read = read_numbers(texts[there].tolist(), comma)
    if read is None:
        return Plain(texts, codes=codes)
    values = np.full(len(texts), np.nan)
    values[there], notation = read
    return Plain(values, notation, codes)


def as_numbers(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of a column, NaN where there is none, and a mask of text that is not a number.

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
    """The values of a column as text, None where missing; a number is written the same way whatever the file.

    >>> as_text(np.array([1.0, 2.5, np.nan])).tolist(), as_text(np.array(["1.0", "a"], object)).tolist()
    (['1', '2.5', None], ['1', 'a'])
    """
    numbers, _ = as_numbers(column)
    return np.array([_text(n, v) for n, v in zip(numbers.tolist(), column.tolist(), strict=True)], dtype=object)


def _text(number: float, value: Any) -> str | None:
    if np.isnan(number):
        return value if isinstance(value, str) else None
    return written(number)


def written(number: float) -> str:
    """A number as text, the same whatever the file.

    >>> written(2.0), written(2.5)
    ('2', '2.5')
    """
    return str(int(number)) if np.isfinite(number) and number == int(number) else str(number)


def like_values(names: Sequence[str]) -> bool:
    """Whether column names look like values: at least half of them are numbers."""
    return 2 * sum(not np.isnan(_number(n)) for n in names) >= len(names)


def is_missing(values: np.ndarray) -> np.ndarray:
    """A mask of missing values."""
    return np.array([v is None for v in values], bool) if values.dtype == object else np.isnan(values)


def distinct(values: np.ndarray) -> set[Any]:
    """The different values, without missing ones."""
    return set(values[~is_missing(values)].tolist())


def ordered(names: Iterable[str]) -> tuple[str, ...]:
    """Sorted, as numbers if all are numbers."""
    names = list(names)
    numbers, wrong = as_numbers(np.array(names, object))
    if not wrong.any():
        return tuple(name for _, name in sorted(zip(numbers.tolist(), names, strict=True)))
    return tuple(sorted(names))
