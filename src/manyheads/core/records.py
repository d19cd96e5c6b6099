"""Results as frozen dataclasses, and their form in a file: a table with a key for each field.

A field that has its default value is left out of the table, and unknown keys are ignored, so that files of other
versions can be read as long as the fields in common have the same meaning.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, PlainSerializer, TypeAdapter, ValidationError

from manyheads.core.errors import UserError

__all__ = ["Interval", "Number", "Real", "from_table", "to_table"]

T = TypeVar("T")


def _unknown(value: Any) -> Any:
    return float("nan") if value is None else value


def _both_or_none(value: Any) -> Any:
    return None if isinstance(value, list | tuple) and None in value else value


def _kept(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else str(value)


Real = Annotated[float, BeforeValidator(_unknown)]
"""a number; in a file, NaN and infinity are written as null, which is read as NaN"""
Number = Annotated[float, BeforeValidator(_unknown), PlainSerializer(_kept)]
"""a number that others compute with: null if it is NaN, and infinity is not lost but written as ``"inf"``"""
Interval = Annotated[tuple[float, float] | None, BeforeValidator(_both_or_none)]
"""the two ends of an interval, or None if they are not known"""


def to_table(value: Any) -> dict[str, Any]:
    """A dataclass of results, and those inside it, as plain values that JSON can hold."""
    return dict(TypeAdapter(type(value)).dump_python(value, mode="json", exclude_defaults=True))


def from_table(cls: type[T], table: Any, where: object) -> T:
    """The dataclass from a table made by :func:`to_table`; ``where`` names the file in an error.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Level:
    ...     mean: Real
    ...     seeds: tuple[int, ...] = ()
    >>> to_table(Level(0.5)), from_table(Level, {"mean": 1, "seeds": [3], "other": 0}, "file")
    ({'mean': 0.5}, Level(mean=1.0, seeds=(3,)))
    """
    try:
        return TypeAdapter(cls).validate_python(table)
    except ValidationError as error:
        first = error.errors()[0]
        spot = ".".join(map(str, first["loc"]))
        raise UserError(f"{where} does not hold what it should: {spot}: {first['msg']}") from None
