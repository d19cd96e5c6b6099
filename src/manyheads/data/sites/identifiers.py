"""Columns that look like identifiers: a number or name for each row."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from manyheads.data.sites.reading import Site
from manyheads.data.sites.values import is_missing

__all__ = ["identifiers"]

NAME = re.compile(r"(^|[\W_])(id|pid|mrn|nr|no|key|index)$", re.IGNORECASE)
"""of columns that hold identifiers, if nearly all values are different"""
NEARLY = 0.95
"""the share of different values from which on nearly all are different"""
FEWEST = 20
"""values of a site that are needed to tell"""
PAIRS = 10
"""so many equal pairs must be expected if their absence is to tell something"""


def identifiers(sites: Sequence[Site], features: Sequence[str]) -> list[str]:
    """Features that look like identifiers at every site that has enough values to tell."""
    verdicts = {f: {_like_identifier(s.columns[f], f) for s in sites} - {None} for f in features}
    return [f for f, verdict in verdicts.items() if verdict == {True}]


def _like_identifier(column: np.ndarray, name: str) -> bool | None:
    """Whether nearly all values are different, as an identifier's are; None if there are too few to tell.

    Numbers must also be whole, and be named so, rise from row to row, or lie so close that a quantity would repeat.

    >>> _like_identifier(np.arange(50.0), "n"), _like_identifier(np.arange(50.0) % 40, "age")
    (True, False)
    """
    values = column[~is_missing(column)]
    n, text = len(values), column.dtype == object
    if n < FEWEST:
        return None
    if not text and (values != np.round(values)).any():
        return False
    different = len(set(values.tolist()))
    if text or different < NEARLY * n:
        return different >= NEARLY * n
    expected = n * (n - 1) / 2 / (np.ptp(values) + 1)  # equal pairs among whole numbers spread over the range
    dense = expected >= PAIRS and n - different < expected / 4
    return bool(NAME.search(name) or (np.diff(values) > 0).all() or dense)
