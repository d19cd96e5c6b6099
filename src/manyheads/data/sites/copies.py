"""Copies in the sites' tables: of rows within a site and between sites, and of columns."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from manyheads.core.words import quoted
from manyheads.data.hashes import sample_hashes
from manyheads.data.sites.columns import Columns
from manyheads.data.sites.problems import Problem
from manyheads.data.sites.reading import Site

__all__ = ["copied_columns", "copied_rows"]

MORE = 10
"""copies of rows are told if there are so many times more of them than chance gives"""


def copied_rows(path: str, sites: Sequence[Site], numbers: Sequence[str], texts: Sequence[str]) -> list[Problem]:
    """Warnings for rows that a site has twice, or that several sites have; of these columns, the label among them."""
    how = Columns("", tuple(numbers), (0.0,) * len(numbers), (1.0,) * len(numbers), dict.fromkeys(texts, ()))
    hashes = [np.unique(sample_hashes(s.columns, np.zeros(len(s.rows)), how)) for s in sites]
    copies = [len(s.rows) - len(h) for s, h in zip(sites, hashes, strict=True)]
    rows, holders = np.unique(np.concatenate(hashes), return_counts=True)
    common = rows[holders > 1]
    if not any(copies) and not len(common):
        return []
    alike, sizes, problems = MORE * _alike(sites, [*numbers, *texts]), np.array([len(s.rows) for s in sites]), []
    fix = "keep one of each: a row of the test part may have been seen in training"
    for site, count, size in zip(sites, copies, sizes, strict=True):
        if count > alike * size * (size - 1) / 2:
            problems.append(site.warning(f"has rows that repeat others: {count} of {size}", fix))
    if len(common) > alike * (sizes.sum() ** 2 - (sizes**2).sum()) / 2:
        names = quoted(*(s.name for s, h in zip(sites, hashes, strict=True) if np.isin(h, common).any()), most=5)
        problems.append(Problem("warning", path, f"rows that several sites have: {len(common)}, at {names}", fix))
    return problems


def _alike(sites: Sequence[Site], columns: Sequence[str]) -> float:
    """The probability that two rows are the same by chance, as if the columns had nothing to do with each other."""
    found = 1.0
    for name in columns:
        values = np.concatenate([s.columns[name] for s in sites])
        if values.dtype == object:
            counts = np.array([*Counter(values.tolist()).values()])
        else:  # of the label of survival, the time alone
            counts = np.unique(values if values.ndim == 1 else values[:, 0], return_counts=True)[1]
        found *= float(((counts / len(values)) ** 2).sum())
    return found


def copied_columns(path: str, sites: Sequence[Site], features: Sequence[str]) -> list[Problem]:
    """A warning for each feature that is a copy of another at all sites."""
    first: dict[bytes, str] = {}
    problems = []
    for feature in features:
        digest = hashlib.blake2b()
        for site in sites:
            values = site.columns[feature]
            digest.update(repr(values.tolist()).encode() if values.dtype == object else (values + 0.0).tobytes())
        original = first.setdefault(digest.digest(), feature)
        if original != feature:
            fix = f"leave one of them out: --data.ignore {feature}"
            message = f"the same values as in column {quoted(original)}"
            problems.append(Problem("warning", path, message, fix, column=feature))
    return problems
