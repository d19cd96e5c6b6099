"""The values of a column: numbers (NaN where missing) or text (None where missing)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from manyheads.core.words import printable
from manyheads.data.sites.notation import read_numbers
from manyheads.data.sites.problems import Unreadable

__all__ = ["as_numbers", "as_text", "is_missing", "like_values", "ordered", "plain_column"]

MISSING = ["", "na", "n/a", "nan", "null", "?"]
"""what stands for a missing value in text, in lower case"""


def plain_column(column: Any, name: str) -> tuple[np.ndarray, str]:
    """A column as numbers if all of its values are, else as text; and the notation of its numbers, if it is not plain."""
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
        raise Unreadable(f"values of type {kind}", "convert them to numbers or text", column=name)
    try:
        return np.array(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64), ""
    except pa.ArrowInvalid:
        texts = np.array([v if v is None else printable(v) for v in column.to_pylist()], dtype=object)
    known = texts != None  # noqa: E711 (elementwise)
    numbers = read_numbers(texts[known].tolist())
    if numbers is None:
        return texts, ""
    values = np.full(len(texts), np.nan)
    values[known], way = numbers
    return values, way


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
    return np.array([_written(n, v) for n, v in zip(numbers.tolist(), column.tolist(), strict=True)], dtype=object)


def _written(number: float, value: Any) -> str | None:
    if np.isnan(number):
        return value if isinstance(value, str) else None
    return str(int(number)) if np.isfinite(number) and number == int(number) else str(number)


def like_values(names: Sequence[str]) -> bool:
    """Whether column names look like values: at least half of them are numbers."""
    return 2 * sum(not np.isnan(_number(n)) for n in names) >= len(names)


def is_missing(values: np.ndarray) -> np.ndarray:
    """A mask of missing values."""
    return np.array([v is None for v in values], bool) if values.dtype == object else np.isnan(values)


def ordered(names: Iterable[str]) -> tuple[str, ...]:
    """Sorted, as numbers if all are numbers."""
    names = list(names)
    numbers, wrong = as_numbers(np.array(names, object))
    if not wrong.any():
        return tuple(name for _, name in sorted(zip(numbers.tolist(), names, strict=True)))
    return tuple(sorted(names))
