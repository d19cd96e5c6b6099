"""What is missing in the sites' tables, and numbers that may stand for a missing value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from manyheads.core.words import quoted
from manyheads.data.sites.columns import OFTEN, often_missing
from manyheads.data.sites.problems import Problem
from manyheads.data.sites.reading import Site
from manyheads.data.sites.values import is_missing, written

__all__ = ["codes_told", "gaps_told", "hinted_codes"]

SENTINELS = (-1, -9, -99, -999, -9999, 9, 99, 999, 9999, 99999)
"""numbers that often stand for a missing value"""
FAR = 0.2
"""zeros are doubtful if nearly all other values are above this part of their median"""
MANY = 10
"""and if there are more than so many other values"""


def codes_told(path: str, tables: Sequence[Mapping[str, Sequence[str]]]) -> list[Problem]:
    """A warning that texts were read as missing values, from those of each table by column."""
    columns = dict.fromkeys(column for table in tables for column in table)
    texts = dict.fromkeys(code for table in tables for codes in table.values() for code in codes)
    if not texts:
        return []
    message = f"{quoted(*texts)} read as missing, in {quoted(*columns)}"
    return [Problem("warning", path, message, "nothing to fix, if that is what is meant")]


def gaps_told(path: str, sites: Sequence[Site], features: Sequence[str]) -> list[Problem]:
    """Warnings for columns without any value at a site, and for columns with many missing values."""
    missing = {f: np.array([is_missing(s.columns[f]).sum() for s in sites]) for f in features}
    rows = np.array([len(s.rows) for s in sites])
    problems = []
    for i, site in enumerate(sites):
        empty = [f for f, count in missing.items() if count[i] == rows[i] and (count < rows).any()]
        if empty:
            fix = "check that they were never measured there"
            problems.append(site.warning(f"has no value of {quoted(*empty)}: filled in from the other sites", fix))
    often = [f for f, count in missing.items() if often_missing(count, rows).any()]
    if often:
        message = f"missing in more than {100 * OFTEN:.0f} % of the rows of some site: {quoted(*often)}"
        fix = "fill them in if you can; --data.indicators says which of them have an input that tells of the gaps"
        problems.append(Problem("warning", path, message, fix))
    return problems


def hinted_codes(path: str, sites: Sequence[Site], numbers: Sequence[str]) -> list[Problem]:
    """A warning for numbers that may stand for a missing value: they are only taken for one when named."""
    hints, codes = [], []
    for feature in numbers:
        values = np.concatenate([s.columns[feature] for s in sites])
        for code in _doubtful(values[np.isfinite(values)]):
            rest = values[np.isfinite(values) & ~np.isin(values, [code, *SENTINELS])]
            low, high = written(rest.min()), written(rest.max())
            count = f"{(values == code).sum()} of {len(values)} rows"
            hints.append(f"{quoted(feature)} is {written(code)} in {count}, else {low} to {high}")
            codes.append(f"{feature}={written(code)}")
    if not hints:
        return []
    fix = f"if so: --data.missing-codes {','.join(codes[:9])}"
    return [Problem("warning", path, f"numbers that may mean a missing value: {'; '.join(hints[:9])}", fix)]


def _doubtful(values: np.ndarray) -> Iterator[float]:
    """Numbers far from all others: usual codes such as -9 and 999, and zeros among large values.

    >>> list(_doubtful(np.array([0.0, 0, 999, *range(80, 200)]))), list(_doubtful(np.arange(100.0)))
    ([999.0, 0.0], [])
    """
    rest = values[~np.isin(values, SENTINELS)]
    if len(rest) and len(rest) < len(values):
        low, high = rest.min(), rest.max()
        for code in SENTINELS:
            far = code > high + (high - low) if code > 0 else low >= 0
            if far and high > low and (values == code).any():
                yield float(code)
    above = rest[rest > 0]
    zeros = len(above) < len(rest) and rest.min() == 0
    if zeros and len(np.unique(above)) > MANY and np.quantile(above, 0.01) > FAR * np.median(above):
        yield 0.0
