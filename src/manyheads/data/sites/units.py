"""Columns that sites may have measured in different units."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from manyheads.core.words import quoted
from manyheads.data.sites.problems import Problem
from manyheads.data.sites.reading import Site

__all__ = ["other_units"]

FACTOR = 30
"""between medians: cholesterol in mmol/l and mg/dl differs by 39, a length in m and cm by 100"""
FEWEST = 5
"""values that a site's median is computed of, at least"""


def other_units(path: str, sites: Sequence[Site], numbers: Sequence[str]) -> list[Problem]:
    """A warning for each column whose medians have one sign, and fall into two groups of sites far apart in size."""
    problems = []
    for feature in numbers:
        known = {s.name: s.columns[feature][np.isfinite(s.columns[feature])] for s in sites}
        medians = {name: float(np.median(values)) for name, values in known.items() if len(values) >= FEWEST}
        if min(medians.values(), default=0) <= 0 <= max(medians.values(), default=0):
            continue
        for small, large in pairwise(sorted(medians, key=lambda name: abs(medians[name]))):
            if abs(medians[large]) > FACTOR * abs(medians[small]):
                message = (
                    f"the median is {medians[small]:.3g} at {quoted(small)}, {medians[large]:.3g} at {quoted(large)}"
                )
                problems.append(Problem("warning", path, message, "have all sites use one unit", column=feature))
    return problems
