"""What the columns of the sites hold, decided over all sites: numbers, booleans, dates or categories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from manyheads.core.words import quoted
from manyheads.data.sites.booleans import WORDS, are_booleans, as_booleans
from manyheads.data.sites.dates import as_days, date_order, like_date
from manyheads.data.sites.problems import Problem
from manyheads.data.sites.reading import Site
from manyheads.data.sites.values import as_numbers

__all__ = ["WRONG", "Evidence", "Kind", "date_orders", "kind_of", "kind_told", "kinds_told", "values_of"]

Kind = Literal["number", "boolean", "date", "category"]
WRONG = {"number": "text in a column of numbers", "boolean": "neither true nor false", "date": "not a date"}
"""what a value is that does not fit the kind of its column"""


@dataclass(frozen=True)
class Evidence:
    """What one site's column tells about its kind, in counts."""

    numbers: int
    texts: int
    dates: int
    """texts that have the form of a date"""
    words: tuple[str, ...]
    """words for booleans among the texts, in lower case"""
    others: int
    """texts that are no such words"""
    zero_or_one: bool
    """whether all numbers are 0 or 1"""

    @classmethod
    def of(cls, column: np.ndarray) -> Evidence:
        values, wrong = as_numbers(column)
        known = values[~np.isnan(values)]
        texts = Counter[str](column[wrong].tolist())
        words = sorted({w for t in texts if (w := t.lower()) in WORDS})
        others = sum(count for text, count in texts.items() if text.lower() not in WORDS)
        dates = sum(count for text, count in texts.items() if like_date(text))
        zero_or_one = bool(np.isin(known, (0, 1)).all())
        return cls(len(known), texts.total(), dates, tuple(words), others, zero_or_one)


def kind_told(sites: Sequence[Evidence]) -> Kind:
    """The kind of a column, from what all sites tell: that of most of its values, since a few others are mistakes."""
    numbers, texts, dates, others = (
        sum(getattr(site, name) for site in sites) for name in ("numbers", "texts", "dates", "others")
    )
    words = {word for site in sites for word in site.words}
    if not others and are_booleans(words) and all(site.zero_or_one for site in sites):
        return "boolean"
    if 2 * dates > numbers + texts:
        return "date"
    return "category" if texts > numbers else "number"


def kind_of(columns: Sequence[np.ndarray]) -> Kind:
    """The kind of a column, from all sites' values.

    >>> [kind_of([np.array(v, object)]) for v in (["1", "x", "2"], ["a", "1", "b"], ["no", "yes"], ["2021-04-03", None])]
    ['number', 'category', 'boolean', 'date']
    """
    return kind_told([Evidence.of(column) for column in columns])


def values_of(column: np.ndarray, kind: Kind, order: str = "") -> tuple[np.ndarray, np.ndarray]:
    """A column as numbers, NaN where there is none, and a mask of the values that do not fit its kind.

    Booleans are 0 and 1, dates days since 1970-01-01; ``order`` is that of day and month.
    """
    if kind == "boolean":
        return as_booleans(column)
    return as_days(column, order) if kind == "date" else as_numbers(column)


def date_orders(sites: Sequence[Site], columns: Sequence[str]) -> tuple[dict[str, dict[str, str]], list[Problem]]:
    """The order of day and month in the dates of each column and file, and an error where it cannot be told."""
    orders: dict[str, dict[str, str]] = {}
    problems = []
    for column in columns:
        texts: dict[str, list[str]] = {}
        for site in sites:
            texts.setdefault(site.file, []).extend(v for v in site.columns[column].tolist() if isinstance(v, str))
        found = {file: date_order(dates) for file, dates in texts.items()}
        for file in (file for file, order in found.items() if order is None):
            message = f"dates whose day and month cannot be told apart, such as {quoted(texts[file][0])}"
            fix = "write them as 2021-04-03, or, if they are not dates, name the column in --data.categories"
            problems.append(Problem("error", file, message, fix, column=column))
        orders[column] = {file: order or "" for file, order in found.items()}
    return orders, problems


def kinds_told(path: str, kinds: Mapping[str, Kind], orders: Mapping[str, Mapping[str, str]]) -> list[Problem]:
    """Warnings that columns were read as booleans or as dates."""
    booleans = [name for name, kind in kinds.items() if kind == "boolean"]
    found = [f"booleans, read as 0 and 1: {quoted(*booleans)}"] if booleans else []
    if orders:
        ways = {
            name: " and ".join(sorted({order for order in by_file.values() if order}))
            for name, by_file in orders.items()
        }
        dates = (f"{quoted(name)}{f' ({way})' if way else ''}" for name, way in ways.items())
        found.append(f"dates, read as days since 1970-01-01: {', '.join(dates)}")
    return [Problem("warning", path, message, "nothing to fix, if that is what they are") for message in found]
