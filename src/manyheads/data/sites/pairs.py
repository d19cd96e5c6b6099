"""The label of survival, in two columns of a table: a time, and whether the event happened then."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from manyheads.core.words import quoted
from manyheads.data.sites.booleans import as_booleans
from manyheads.data.sites.problems import Problem
from manyheads.data.sites.values import as_numbers

if TYPE_CHECKING:
    from manyheads.data.sites.reading import Site

__all__ = ["label_pair", "paired", "stacked_pair"]

WRONG = ("a time that is no number from 0 on", "an event that is neither 0 nor 1, nor yes or no")
FIX = "correct it, or delete the row; the label is TIME,EVENT, with event 1 if it happened at that time, else 0"


def label_pair(label: str, columns: Container[str]) -> tuple[str, ...]:
    """The columns of a label ``TIME,EVENT``; none if they are not there, or if a column has that name."""
    names = tuple(name.strip() for name in label.split(","))
    return names if len(names) == 2 and label not in columns and all(n in columns for n in names) else ()


def stacked_pair(columns: Mapping[str, np.ndarray], pair: tuple[str, ...]) -> np.ndarray:
    """Both columns as numbers, [rows, 2]; NaN where there is none. An event may also be yes or no, true or false."""
    time, event = (as_numbers(columns[name])[0] for name in pair)
    said = as_booleans(columns[pair[1]])[0]
    return np.stack([time, np.where(np.isnan(event), said, event)], axis=1)


def paired(site: Site, label: str) -> tuple[Site, list[Problem]]:
    """A site with the two columns of its label as one, [rows, 2], and problems with them; any other site as it is."""
    pair = label_pair(label, site.columns)
    if not pair:
        return site, []
    values = stacked_pair(site.columns, pair)
    usable = np.stack([np.isfinite(values[:, 0]) & (values[:, 0] >= 0), np.isin(values[:, 1], (0, 1))])
    problems = [
        site.problem(f"{wrong}: {quoted(site.columns[name][at[0]])}", FIX, at, name)
        for name, wrong, at in zip(pair, WRONG, map(np.flatnonzero, ~usable), strict=True)
        if len(at)
    ]
    columns = {n: c for n, c in site.columns.items() if n not in pair} | {label: values}
    return replace(site, columns=columns), problems
