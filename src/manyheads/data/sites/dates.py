"""Dates as people write them, as days since 1970-01-01."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone

import numpy as np

__all__ = ["as_days", "date_order", "like_date"]

TIME = r"([T ]+(?P<hour>\d{1,2}):(?P<minute>\d\d)(:(?P<second>\d\d)(?P<part>\.\d+)?)?(?P<zone>Z|[+-]\d\d:?\d\d)?)?"
YEAR_FIRST = re.compile(
    rf"(?P<year>\d{{4}})(?P<mark>[-/.])(?P<month>\d{{1,2}})(?P=mark)(?P<day>\d{{1,2}}){TIME}", re.ASCII
)
YEAR_LAST = re.compile(
    rf"(?P<one>\d{{1,2}})(?P<mark>[-/.])(?P<two>\d{{1,2}})(?P=mark)(?P<year>\d{{4}}|\d\d){TIME}", re.ASCII
)
START = datetime(1970, 1, 1, tzinfo=UTC)


def like_date(text: str) -> bool:
    """Whether a text has the form of a date, be it clear or not.

    >>> [like_date(t) for t in ("2021-04-03", "3.4.2021 12:30", "03/04/21", "12.5", "April")]
    [True, True, True, False, False]
    """
    return bool(YEAR_FIRST.fullmatch(text) or YEAR_LAST.fullmatch(text))


def date_order(texts: Iterable[str]) -> str | None:
    """Whether day or month is first in the dates of a column; empty if in none of them, None if it cannot be told.

    >>> date_order(["3/4/2021", "13/4/2021"]), date_order(["3/4/2021", "4/13/2021"]), date_order(["2021-04-03"])
    ('day first', 'month first', '')
    >>> date_order(["3/4/2021"]), date_order(["3.4.2021"])
    (None, 'day first')
    """
    found = [m for m in map(YEAR_LAST.fullmatch, texts) if m]
    day_first = all(int(m["two"]) <= 12 for m in found)
    month_first = all(int(m["one"]) <= 12 and m["mark"] != "." for m in found)  # before a point there is a day
    if not found or day_first == month_first:
        return None if found else ""
    return "day first" if day_first else "month first"


def as_days(column: np.ndarray, order: str) -> tuple[np.ndarray, np.ndarray]:
    """The days of a column of dates, NaN where there is none, and a mask of values that are not dates.

    ``order`` is that of dates with the year last, which needs four digits. The time of the day is a fraction of it.

    >>> as_days(np.array(["1970-01-02", "3.1.1970 12:00", "31.2.1970", None], object), "day first")
    (array([1. , 2.5, nan, nan]), array([False, False,  True, False]))
    """
    cells = column.tolist()
    days = {v: _days(v, order) for v in set(cells) if isinstance(v, str)}
    values = np.array([days.get(v, np.nan) for v in cells], dtype=np.float64)
    return values, np.isnan(values) & np.array([v is not None and v == v for v in cells], dtype=bool)


def _days(text: str, order: str) -> float:
    if found := YEAR_FIRST.fullmatch(text):
        month, day = int(found["month"]), int(found["day"])
    elif (found := YEAR_LAST.fullmatch(text)) and len(found["year"]) == 4:
        day, month = int(found["one"]), int(found["two"])
        if order == "month first":
            day, month = month, day
    else:
        return np.nan
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    try:
        moment = datetime(int(found["year"]), month, day, hour, minute, second, tzinfo=_zone(found["zone"]))
    except ValueError:  # no such day, or no such hour
        return np.nan
    return ((moment - START).total_seconds() + float(found["part"] or 0)) / 86400


def _zone(text: str | None) -> timezone:
    if not text or text == "Z":
        return UTC
    hours, minutes = int(text[:3]), int(text[0] + text[-2:])
    return timezone(timedelta(hours=hours, minutes=minutes))
