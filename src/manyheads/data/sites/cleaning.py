"""Columns as read from files become clean columns: numbers, or text of categories and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from manyheads.core.words import quoted
from manyheads.data.sites.kinds import WRONG, Kind, values_of
from manyheads.data.sites.notation import looks_like_number
from manyheads.data.sites.problems import Problem
from manyheads.data.sites.reading import Reading, Site
from manyheads.data.sites.values import as_numbers, as_text, is_missing

__all__ = ["LabelEvidence", "check_task", "clean_feature", "clean_labels", "task_told", "unclear_numbers"]

FEW_LABELS = 30
"""a label column of whole numbers with more distinct values than this is a regression target"""


def unclear_numbers(reading: Reading, sites: Sequence[Site], columns: Sequence[str], otherwise: str) -> list[Problem]:
    """Errors for columns of text that look like numbers, but whose notation is ambiguous or mixed."""
    problems = []
    for column in columns:
        texts = [t for s in sites for t in s.columns[column][as_numbers(s.columns[column])[1]]]
        like = [t for t in texts if looks_like_number(t)]
        if 2 * len(like) > len(texts):
            message = f"numbers in a notation that is not clear, such as {quoted(like[0])}"
            fix = f"write them all as 1234.5, or, if they are not numbers, {otherwise}"
            problems.append(Problem("error", reading.path, message, fix, column=column))
    return problems


def clean_feature(site: Site, name: str, kind: Kind, missing: str, order: str = "") -> tuple[np.ndarray, list[Problem]]:
    """A feature as numbers, or as text if it is a category, and problems with it; ``order`` is that of its dates."""
    column = site.columns[name]
    if kind == "category":
        values, wrong = as_text(column), np.zeros(len(column), bool)
    else:
        values, wrong = values_of(column, kind, order)
    problems = []
    if wrong.any():
        at = np.flatnonzero(wrong)
        fix = "correct it, leave it empty, or name the column in --data.categories"
        problems.append(site.problem(f"{WRONG[kind]}: {quoted(column[at[0]])}", fix, at, name))
    if kind != "category" and np.isinf(values).any():
        fix = "correct it, or leave it empty"
        problems.append(site.problem("an infinite number", fix, np.flatnonzero(np.isinf(values)), name))
    gaps = is_missing(values) & ~wrong
    if gaps.any() and missing == "error":
        fix = "fill it in, or accept it: --data.missing mean"
        problems.append(site.problem("a missing value", fix, np.flatnonzero(gaps), name))
    return values, problems


def check_task(reading: Reading, label: np.ndarray) -> Problem | None:
    """An error if the task that was asked for needs another number of label columns."""
    if reading.task == "auto" or (reading.task == "survival") == (label.ndim == 2):
        return None
    message = f"{reading.task} with {label.ndim} label columns"
    return Problem("error", reading.path, message, "survival has two: --data.label TIME,EVENT; other tasks have one")


@dataclass(frozen=True)
class LabelEvidence:
    """What one site's label column tells about the task."""

    columns: int
    """2 for survival"""
    numbers: int
    texts: int
    fractions: bool
    """whether some numbers are not whole"""
    values: tuple[float, ...]
    """the distinct numbers, as far as that they are few can be told"""

    @classmethod
    def of(cls, y: np.ndarray, least: int = 1) -> LabelEvidence:
        """Of a label column; numbers that fewer than ``least`` rows have are not told."""
        if y.ndim == 2:
            return cls(2, len(y), 0, True, ())
        values, wrong = as_numbers(y)
        known = values[np.isfinite(values)]
        distinct, counts = np.unique(known, return_counts=True)
        told = distinct[counts >= least][: FEW_LABELS + 1]
        numbers, texts = (n if n >= least else 0 for n in (len(known), int(wrong.sum())))
        return cls(1, numbers, texts, bool((known != np.round(known)).any()), tuple(told.tolist()))


def task_told(reading: Reading, sites: Sequence[LabelEvidence]) -> str:
    """The task that was asked for, or the one that fits what all sites tell about their labels."""
    if any(site.columns == 2 for site in sites):
        return "survival"
    if reading.task != "auto":
        return reading.task
    texts, numbers = sum(site.texts for site in sites), sum(site.numbers for site in sites)
    distinct = {value for site in sites for value in site.values}
    quantity = any(site.fractions for site in sites) or (not texts and len(distinct) > FEW_LABELS)
    return "regression" if quantity and texts < numbers else "classification"


def clean_labels(sites: Sequence[Site], label: str, task: str) -> tuple[list[Site], list[Problem]]:
    """Labels as text (classes) or as numbers (targets), and problems with them; those of survival are clean already."""
    if task == "survival":
        return list(sites), []
    clean, problems = [], []
    for site in sites:
        column = site.columns[label]
        numbers, wrong = as_numbers(column)
        values = as_text(column) if task == "classification" else numbers
        gaps = np.flatnonzero(is_missing(values) & ~(wrong if task == "regression" else False))
        if len(gaps):
            problems.append(site.problem("a missing label", "fill it in, or delete the row", gaps, label))
        if task == "regression" and wrong.any():
            at = np.flatnonzero(wrong)
            fix = "correct it, or say that labels are classes: --data.task classification"
            problems.append(site.problem(f"a label that is not a number: {quoted(column[at[0]])}", fix, at, label))
        if np.isinf(numbers).any():
            at = np.flatnonzero(np.isinf(numbers))
            problems.append(site.problem("an infinite label", "correct it, or delete the row", at, label))
        clean.append(replace(site, columns=site.columns | {label: values}))
    return clean, problems
