"""Doubts about clean tables: what can be used, but may be a mistake."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from manyheads.core.words import quoted
from manyheads.data.sites.identifiers import identifiers
from manyheads.data.sites.kinds import kinds_told
from manyheads.data.sites.problems import Problem
from manyheads.data.sites.suspicions import suspicions
from manyheads.data.sites.values import distinct

if TYPE_CHECKING:
    from manyheads.data.sites.reading import Site
    from manyheads.data.sites.survey import Survey

__all__ = ["doubts"]

FEW_CODES = 10
"""a column of whole numbers with at most so many distinct values may hold codes"""
CODE_NAME = re.compile(r"(^|[\W_])(id|code|zip|postcode)s?$", re.IGNORECASE)
"""names of columns that hold codes, however many values they have"""
MANY_CATEGORIES = 50
"""a column with more categories looks like an identifier"""


def doubts(survey: Survey, coded: bool) -> list[Problem]:
    """Warnings: what can be used, but may be a mistake; ``coded`` if the user named the columns that hold codes."""
    found = []
    owners: dict[str, list[Site]] = {label: [] for label in survey.labels}
    for site in survey.sites:
        if len(site.rows) == 1:
            found.append(site.warning("has one row: nothing is left to test it with", "add samples"))
        if survey.task == "classification":
            seen = distinct(site.columns[survey.label])
            for label in seen:
                owners[label].append(site)
            if len(seen) == 1 and len(site.rows) > 1:
                found.append(site.warning(f"has only the label {quoted(*seen)}", "check its label column"))
    if survey.task == "classification" and len(survey.labels) == 1:
        message = f"all sites have only the label {quoted(*survey.labels)}: nothing to learn"
        found.append(Problem("error", survey.path, message, "name another label column: --data.label NAME"))
    elif len(survey.sites) > 1:
        for label, having in owners.items():
            if len(having) == 1:
                fix = "check its spelling; the other sites cannot help to learn it"
                found.append(having[0].warning(f"alone has the label {quoted(label)}", fix, survey.label))
    identifying = identifiers(survey.sites, survey.features)
    for feature in survey.categories:
        count = len({v for s in survey.sites for v in distinct(s.columns[feature])})
        if count > MANY_CATEGORIES or feature in identifying:
            message = f"{count} categories, each an input of the model: an identifier?"
            fix = f"if it is not a feature: --data.ignore {feature}"
            found.append(Problem("warning", survey.path, message, fix, column=feature))
    found += _notations(survey) + kinds_told(survey.path, survey.kinds, survey.orders)
    if not coded:
        found += _codes(survey, [f for f in survey.numbers if survey.kinds[f] == "number" and f not in identifying])
    constant = survey.constant
    found += [
        Problem("warning", survey.path, "one value in all sites: dropped", "nothing to fix", column=f) for f in constant
    ]
    if survey.features and len(constant) == len(survey.features):
        found.append(Problem("error", survey.path, "every feature has one value only", "add features that differ"))
    return found if survey.errors else found + suspicions(survey, identifying)


def _notations(survey: Survey) -> list[Problem]:
    """Warnings for numbers in a notation other than a program's, and how they were read."""
    ways: dict[str, dict[str, list[str]]] = {}
    for site in survey.sites:
        for column, way in site.notations.items():
            ways.setdefault(column, {}).setdefault(way, []).append(site.name)
    of_all = len(survey.sites)
    return [
        Problem(
            "warning",
            survey.path,
            f"numbers with {way}{f' in {quoted(*names, most=5)}' if len(names) < of_all else ''}, read as such"
            + (" (23 % is 0.23)" if "percent" in way else ""),
            "nothing to fix, if that is what they are",
            column=column,
        )
        for column, found in ways.items()
        for way, names in found.items()
    ]


def _codes(survey: Survey, quantities: Sequence[str]) -> list[Problem]:
    """A warning for columns of numbers that look like codes."""
    like, rows = [], sum(len(s.rows) for s in survey.sites)
    for feature in quantities:
        values = np.array(sorted(set().union(*(distinct(s.columns[feature]) for s in survey.sites))))
        whole = len(values) > 2 and (values == np.round(values)).all()
        few = len(values) <= min(FEW_CODES, rows // 5)  # five rows per value, on average
        if whole and (few or CODE_NAME.search(feature)):
            like.append(feature)
    if not like:
        return []
    message = f"whole numbers, taken for quantities, that may be codes: {quoted(*like)}"
    fix = f"name those that are codes: --data.categories {','.join(like[:9])}"
    return [Problem("warning", survey.path, message, fix)]
