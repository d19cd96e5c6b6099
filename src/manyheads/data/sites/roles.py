"""Columns that say how rows may be divided: which belong together, when they were taken, which are for the test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manyheads.core.errors import did_you_mean
from manyheads.core.words import quoted
from manyheads.data.sites.problems import Problem
from manyheads.data.sites.reading import Reading, Site
from manyheads.data.sites.values import as_text, is_missing

__all__ = ["check_roles", "clean_roles"]


def check_roles(reading: Reading, sites: Sequence[Site], label: str) -> list[Problem]:
    """Errors in the choice of these columns."""
    known = list(sites[0].columns)
    problems = [
        Problem(
            "error",
            reading.path,
            "no such column to divide rows by",
            did_you_mean(name, known) or f"there are {quoted(*known)}",
            column=name,
        )
        for name in reading.roles
        if name not in known
    ]
    chosen = [label, *reading.roles]
    problems += [
        Problem("error", reading.path, "is chosen for two things", "choose another column for one", column=name)
        for name in dict.fromkeys(chosen)
        if chosen.count(name) > 1
    ]
    if reading.group and reading.time:
        message = "rows are divided by group or by time, not by both"
        problems.append(Problem("error", reading.path, message, "leave out --data.group or --data.time"))
    return problems


def clean_roles(
    reading: Reading, site: Site, columns: dict[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], list[Problem]]:
    """The number of each row's group, its time, whether it is for the test; and problems with them.

    ``columns`` are clean already: times are in them.
    """
    found: dict[str, np.ndarray] = {}
    problems: list[Problem] = []
    for name in reading.roles:
        found[name] = columns[name] if name == reading.time else as_text(site.columns[name])
        gaps = np.flatnonzero(is_missing(found[name]))
        if len(gaps):
            problems.append(site.problem("a missing value", "fill it in, or delete the row", gaps, name))
    if problems:
        return found, problems
    if reading.time and found[reading.time].dtype == object:
        first = found[reading.time][0]
        problems.append(site.problem(f"no time: {quoted(first)}", "write numbers or dates", np.arange(1), reading.time))
    if reading.group:
        _, found[reading.group] = np.unique(found[reading.group].astype(str), return_inverse=True)
    if reading.split:
        found[reading.split], more = _tested(site, reading.split, found[reading.split])
        problems += more
    if reading.group and reading.split:
        problems += _in_both(site, reading.group, found[reading.group], found[reading.split])
    return found, problems


def _tested(site: Site, name: str, values: np.ndarray) -> tuple[np.ndarray, list[Problem]]:
    words = np.array([v.lower() for v in values.tolist()])
    wrong = np.flatnonzero(~np.isin(words, ("train", "test")))
    test = words == "test"
    if len(wrong):
        message = f"neither 'train' nor 'test': {quoted(values[wrong[0]])}"
        return test, [site.problem(message, "write one of them in every row", wrong, name)]
    if test.all():
        message = f"site {quoted(site.name)} has no row for training"
        return test, [Problem("error", site.file, message, "write train in some of its rows", column=name)]
    return test, []


def _in_both(site: Site, name: str, groups: np.ndarray, test: np.ndarray) -> list[Problem]:
    both = np.intersect1d(groups[test], groups[~test])
    if not len(both):
        return []
    return [
        site.warning(f"has {len(both)} groups with rows both for training and for the test", "split by group", name)
    ]
