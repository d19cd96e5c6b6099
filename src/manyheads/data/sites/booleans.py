"""Booleans as people write them, as 0 and 1."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

__all__ = ["WORDS", "are_booleans", "as_booleans"]

PAIRS = (("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"), ("nein", "ja"))
"""words for 0 and 1, in lower case"""
WORDS = frozenset(word for pair in PAIRS for word in pair)
NUMBER = {word: number for pair in PAIRS for number, word in enumerate(pair)}


def are_booleans(words: Collection[str]) -> bool:
    """Whether the words of a column are those of one pair, or of several pairs that are all complete.

    >>> are_booleans(["Yes", "no", "TRUE", "FALSE"]), are_booleans(["yes"]), are_booleans(["F", "N"])
    (True, True, False)
    """
    found = {w.lower() for w in words}
    touched = [set(pair) for pair in PAIRS if found & set(pair)]
    return bool(found) and found <= WORDS and (len(touched) == 1 or all(pair <= found for pair in touched))


def as_booleans(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A column's 0 and 1 in words or numbers, NaN where there is none, and a mask of other values.

    >>> as_booleans(np.array(["yes", "No", "1", None, "maybe"], object))
    (array([ 1.,  0.,  1., nan, nan]), array([False, False, False, False,  True]))
    """
    cells = column.tolist()
    known = NUMBER | {"0": 0, "1": 1, "0.0": 0, "1.0": 1}
    values = np.array([known.get(str(v).lower(), np.nan) for v in cells], dtype=np.float64)
    return values, np.isnan(values) & np.array([v is not None and v == v for v in cells], dtype=bool)
