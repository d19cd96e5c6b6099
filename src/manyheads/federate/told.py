"""What a site tells about its table, in counts and moments of at least ``min_count`` rows, as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from manyheads.core.settings import settings
from manyheads.data.sites.cleaning import LabelEvidence
from manyheads.data.sites.columns import Statistics
from manyheads.data.sites.dates import date_order
from manyheads.data.sites.kinds import Evidence
from manyheads.data.sites.moments import Moments
from manyheads.data.sites.reading import Reading, Site
from manyheads.data.sites.survey import feature_names
from manyheads.data.sites.values import as_numbers, as_text, is_missing

__all__ = ["ColumnTold", "LabelTold", "TableTold", "read_statistics", "told_of", "written_statistics"]


@settings
class ColumnTold:
    """One column of a site, before it is known what the column is at other sites."""

    evidence: Evidence
    missing: int | None = None
    """rows without a value; None: fewer than min_count, but some"""
    count: int = 0
    """known numbers; 0 if they are fewer than min_count"""
    mean: float | None = None
    deviation: float | None = None
    categories: tuple[str, ...] = ()
    """texts that at least min_count rows have"""
    rare: int = 0
    """number of texts that fewer rows have"""
    order: str = ""
    """of day and month, if its texts are dates that tell"""


@settings
class LabelTold:
    """The label column of a site."""

    evidence: LabelEvidence
    counts: dict[str, int]
    """rows of each class that at least min_count rows have; 0: the site's policy does not tell; empty unless classes"""
    mean: float | None = None
    deviation: float | None = None
    events: int | None = None
    """of survival"""


@settings
class TableTold:
    """All that a site tells before anything is agreed on."""

    rows: int
    label: str
    columns: dict[str, ColumnTold]
    target: LabelTold
    problems: tuple[str, ...] = ()


def told_of(
    reading: Reading, site: Site, label: str, problems: Sequence[str], least: int, label_counts: bool
) -> TableTold:
    """What a site tells of its table."""
    names = [*feature_names(reading, site, label)]
    columns = {name: _column(site.columns[name], name in reading.categories, least) for name in names}
    target = _label(site.columns[label], least, label_counts)
    return TableTold(rows=len(site.rows), label=label, columns=columns, target=target, problems=tuple(problems))


def _column(values: np.ndarray, category: bool, least: int) -> ColumnTold:
    numbers, _ = as_numbers(values)
    missing = int(is_missing(as_text(values)).sum())
    evidence, moments = _of_enough(Evidence.of(values), least), Moments.of(numbers[:, None]).of_at_least(least)
    few: dict[str, int] = {}
    often: list[str] = []
    if category or evidence.texts > evidence.numbers:
        counts = Counter(v for v in as_text(values).tolist() if v is not None)
        often, few = sorted(v for v, n in counts.items() if n >= least), {v: n for v, n in counts.items() if n < least}
    known = int(moments.count[0])
    return ColumnTold(
        evidence=evidence,
        missing=_count(missing, least) if _count(len(values) - missing, least) is not None else None,
        count=known,
        mean=float(moments.mean[0]) if known else None,
        deviation=float(moments.deviation[0]) if known else None,
        categories=tuple(often),
        rare=len(few),
        order=(date_order([v for v in values.tolist() if isinstance(v, str)]) or "") if evidence.dates else "",
    )


def _of_enough(told: Evidence, least: int) -> Evidence:
    """The same, as if what fewer than ``least`` rows have were not there."""
    numbers, texts, dates, others = (
        n if n >= least else 0 for n in (told.numbers, told.texts, told.dates, told.others)
    )
    return Evidence(numbers, texts, dates, told.words if texts else (), others, told.zero_or_one or not numbers)


def _label(values: np.ndarray, least: int, counted: bool) -> LabelTold:
    evidence = LabelEvidence.of(values, least)
    if values.ndim == 2:
        events = int((values[:, 1] == 1).sum())
        return LabelTold(evidence=evidence, counts={}, events=_count(events, least))
    texts = Counter(v for v in as_text(values).tolist() if v is not None)
    numbers = as_numbers(values)[0]
    known = numbers[np.isfinite(numbers)]
    quantity = evidence.fractions and evidence.texts < evidence.numbers and len(known) >= least
    counts = {} if evidence.fractions else {v: n * counted for v, n in texts.items() if n >= least}
    return LabelTold(
        evidence=evidence,
        counts=counts,
        mean=float(known.mean()) if quantity else None,
        deviation=float(known.std()) if quantity else None,
    )


def _count(count: int, least: int) -> int | None:
    return count if count == 0 or count >= least else None


def written_statistics(of: Statistics) -> dict[str, Any]:
    """Statistics as plain values, without the smallest and largest values of columns."""
    return {
        "rows": of.rows,
        "moments": _written(of.moments),
        "categories": {name: sorted(values, key=str) for name, values in of.categories.items()},
        "target": _written(of.target) if of.target else None,
    }


def read_statistics(facts: Mapping[str, Any], numbers: int) -> Statistics:
    """The statistics that a site has written, of so many columns of numbers; an error if they cannot be."""
    target = facts["target"]
    return Statistics(
        int(facts["rows"]),
        _read(facts["moments"], numbers),
        {name: {v if v is None else str(v) for v in values} for name, values in facts["categories"].items()},
        _read(target, 1) if target else None,
    )


def _written(moments: Moments) -> dict[str, list[Any]]:
    ends = zip(moments.low.tolist(), moments.high.tolist(), strict=True)
    return {
        "count": moments.count.tolist(),
        "mean": moments.mean.tolist(),
        "squares": moments.squares.tolist(),
        "constant": [low if low == high else None for low, high in ends],
    }


def _read(facts: Mapping[str, list[Any]], columns: int) -> Moments:
    count, mean, squares = np.array(facts["count"], int), *(np.array(facts[n], float) for n in ("mean", "squares"))
    if {len(count), len(mean), len(squares), len(facts["constant"])} != {columns}:
        raise ValueError("moments of another number of columns")
    if (count < 0).any() or not np.isfinite(mean).all() or not np.isfinite(squares).all() or (squares < 0).any():
        raise ValueError("moments that cannot be")
    each = list(zip(facts["count"], facts["constant"], strict=True))
    low, high = (
        np.array([none if not n else far if value is None else value for n, value in each], float)
        for none, far in ((np.inf, -np.inf), (-np.inf, np.inf))
    )
    return Moments(count, mean, squares, low, high)
