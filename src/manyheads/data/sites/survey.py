"""A survey of a user's sites: which columns and labels they have, and every problem with them.

Sites share only what a federation may know: names and types of columns, counts, medians, names of labels, hashes of rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from manyheads.core.words import quoted
from manyheads.data.sites.cleaning import check_task, clean_feature, clean_labels, task_of, unclear_numbers
from manyheads.data.sites.identifiers import identifiers
from manyheads.data.sites.kinds import Kind, date_orders, kind_of, kinds_told
from manyheads.data.sites.problems import Problem
from manyheads.data.sites.reading import Reading, Site, read_sites
from manyheads.data.sites.roles import check_roles, clean_roles
from manyheads.data.sites.suspicions import suspicions
from manyheads.data.sites.values import is_missing, ordered

__all__ = ["Survey", "survey_of"]

FEW_CODES = 10
"""a column of whole numbers with at most so many distinct values may hold codes"""
CODE_NAME = re.compile(r"(^|[\W_])(id|code|zip|postcode)s?$", re.IGNORECASE)
"""names of columns that hold codes, however many values they have"""
MANY_CATEGORIES = 50
"""a column with more categories looks like an identifier"""


@dataclass(frozen=True, eq=False)
class Survey:
    """What was found. Without errors, the columns of ``sites`` are clean: numbers, or text of categories and labels."""

    path: str
    problems: tuple[Problem, ...]
    sites: tuple[Site, ...] = ()
    task: str = "classification"
    label: str = "label"
    kinds: dict[str, Kind] = field(default_factory=dict)
    """what each feature holds"""
    orders: dict[str, dict[str, str]] = field(default_factory=dict)
    """of columns of dates: the order of day and month in each file"""
    labels: tuple[str, ...] = ()
    """of a classification: the names of the classes, in order"""
    group: str = ""
    time: str = ""
    split: str = ""
    """columns by which rows are divided, if there are any; see :class:`Reading`"""

    @property
    def errors(self) -> list[Problem]:
        return [p for p in self.problems if p.severity == "error"]

    @property
    def numbers(self) -> tuple[str, ...]:
        """Features that are numbers, be it booleans or dates."""
        return tuple(f for f, kind in self.kinds.items() if kind != "category")

    @property
    def categories(self) -> tuple[str, ...]:
        return tuple(f for f, kind in self.kinds.items() if kind == "category")

    @property
    def booleans(self) -> tuple[str, ...]:
        return tuple(f for f, kind in self.kinds.items() if kind == "boolean")

    @property
    def dates(self) -> dict[str, str]:
        """Features that are dates, with the order of day and month if it is the same in all files."""
        orders = {f: set(by_file.values()) - {""} for f, by_file in self.orders.items() if f in self.kinds}
        return {f: found.pop() if len(found) == 1 else "" for f, found in orders.items()}

    @property
    def features(self) -> tuple[str, ...]:
        return self.numbers + self.categories

    @cached_property
    def constant(self) -> tuple[str, ...]:
        """Features with at most one value over all sites; of a category, none is a value, too."""
        values = {f: {v for s in self.sites for v in _distinct(s.columns[f])} for f in self.numbers}
        values |= {f: {v for s in self.sites for v in s.columns[f].tolist()} for f in self.categories}
        return tuple(f for f, seen in values.items() if len(seen) <= 1)

    def facts(self) -> dict[str, Any]:
        """What was found as plain values, as ``manyheads data check --json`` prints it."""
        return {
            "ok": not self.errors,
            "path": self.path,
            "task": self.task if self.sites else None,
            "label": self.label if self.sites else None,
            "labels": list(self.labels),
            "features": {f: self.kinds[f] for f in self.features},
            "constant": list(self.constant),
            "sites": [self._site_facts(site) for site in self.sites],
            "problems": [asdict(p) for p in self.problems],
        }

    def _site_facts(self, site: Site) -> dict[str, Any]:
        y = site.columns[self.label]
        known = y[~is_missing(y)]
        facts: dict[str, Any] = {"name": site.name, "file": site.file, "rows": len(y), "features": len(self.features)}
        if self.task == "classification":
            counts = Counter(known.tolist())
            facts["labels"] = {label: counts[label] for label in self.labels if counts[label]}
        elif self.task == "survival":
            facts["survival"] = {"events": int((y[:, 1] == 1).sum()), "median_time": _finite(np.median, y[:, 0])}
        else:
            facts["target"] = {"mean": _finite(np.mean, known), "std": _finite(np.std, known)}
        missing = {f: int(is_missing(site.columns[f]).sum()) for f in self.features}
        facts["missing"] = {f: count for f, count in missing.items() if count}
        facts["constant"] = [f for f in self.features if len(_distinct(site.columns[f])) <= 1]
        return facts


def survey_of(reading: Reading) -> Survey:
    """Read all sites and check them."""
    sites, label, problems = read_sites(reading)
    if not sites:
        return Survey(reading.path, tuple(problems))
    if wrong := check_roles(reading, sites, label):
        problems += wrong
        reading = replace(reading, group="", time="", split="")
    features = [c for c in sites[0].columns if c not in (label, reading.group, reading.split)]
    if not features:
        problems.append(Problem("error", reading.path, "there is no column besides the label", "add feature columns"))
    kinds: dict[str, Kind] = {
        f: "category" if f in reading.categories else kind_of([s.columns[f] for s in sites]) for f in features
    }
    orders, more = date_orders(sites, [f for f in features if kinds[f] == "date"])
    problems += more
    guessed = [f for f in features if kinds[f] == "category" and f not in reading.categories]
    problems += unclear_numbers(reading, sites, guessed, "name the column in --data.categories")
    if misfit := check_task(reading, sites[0].columns[label]):
        problems.append(misfit)
        return Survey(reading.path, tuple(problems))
    if reading.task == "auto" and sites[0].columns[label].ndim == 1:
        problems += unclear_numbers(reading, sites, [label], "say --data.task classification")
        if kind_of([s.columns[label] for s in sites]) == "date":
            fix = "name another label column, --data.label NAME, or write it as a number of days"
            problems.append(Problem("error", reading.path, "the labels are dates", fix, column=label))
    clean = []
    for site in sites:
        columns = {}
        for feature in features:
            order = orders[feature][site.file] if feature in orders else ""
            columns[feature], more = clean_feature(site, feature, kinds[feature], reading.missing, order)
            problems += more
        roles, more = clean_roles(reading, site, columns)
        problems += more
        clean.append(replace(site, columns=columns | roles | {label: site.columns[label]}))
    task = task_of(reading, [s.columns[label] for s in sites])
    clean, more = clean_labels(clean, label, task)
    survey = Survey(
        reading.path,
        tuple(problems + more),
        tuple(clean),
        task,
        label,
        {f: kind for f, kind in kinds.items() if f != reading.time},
        orders,
        ordered({v for s in clean for v in _distinct(s.columns[label])}) if task == "classification" else (),
        group=reading.group,
        time=reading.time,
        split=reading.split,
    )
    return replace(survey, problems=(*survey.problems, *_doubts(survey, coded=bool(reading.categories))))


def _doubts(survey: Survey, coded: bool) -> list[Problem]:
    """Warnings: what can be used, but may be a mistake; ``coded`` if the user named the columns that hold codes."""
    doubts = []
    owners: dict[str, list[Site]] = {label: [] for label in survey.labels}
    for site in survey.sites:
        if len(site.rows) == 1:
            doubts.append(site.warning("has one row: nothing is left to test it with", "add samples"))
        if survey.task == "classification":
            seen = _distinct(site.columns[survey.label])
            for label in seen:
                owners[label].append(site)
            if len(seen) == 1 and len(site.rows) > 1:
                doubts.append(site.warning(f"has only the label {quoted(*seen)}", "check its label column"))
    if survey.task == "classification" and len(survey.labels) == 1:
        message = f"all sites have only the label {quoted(*survey.labels)}: nothing to learn"
        doubts.append(Problem("error", survey.path, message, "name another label column: --data.label NAME"))
    elif len(survey.sites) > 1:
        for label, having in owners.items():
            if len(having) == 1:
                fix = "check its spelling; the other sites cannot help to learn it"
                doubts.append(having[0].warning(f"alone has the label {quoted(label)}", fix, survey.label))
    identifying = identifiers(survey.sites, survey.features)
    for feature in survey.categories:
        count = len({v for s in survey.sites for v in _distinct(s.columns[feature])})
        if count > MANY_CATEGORIES or feature in identifying:
            message = f"{count} categories, each an input of the model: an identifier?"
            fix = f"if it is not a feature: --data.ignore {feature}"
            doubts.append(Problem("warning", survey.path, message, fix, column=feature))
    doubts += _notations(survey) + kinds_told(survey.path, survey.kinds, survey.orders)
    if not coded:
        doubts += _codes(survey, [f for f in survey.numbers if survey.kinds[f] == "number" and f not in identifying])
    constant = survey.constant
    doubts += [
        Problem("warning", survey.path, "one value in all sites: dropped", "nothing to fix", column=f) for f in constant
    ]
    if survey.features and len(constant) == len(survey.features):
        doubts.append(Problem("error", survey.path, "every feature has one value only", "add features that differ"))
    return doubts if survey.errors else doubts + suspicions(survey, identifying)


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
        values = np.array(sorted(set().union(*(_distinct(s.columns[feature]) for s in survey.sites))))
        whole = len(values) > 2 and (values == np.round(values)).all()
        few = len(values) <= min(FEW_CODES, rows // 5)  # five rows per value, on average
        if whole and (few or CODE_NAME.search(feature)):
            like.append(feature)
    if not like:
        return []
    message = f"whole numbers, taken for quantities, that may be codes: {quoted(*like)}"
    fix = f"name those that are codes: --data.categories {','.join(like[:9])}"
    return [Problem("warning", survey.path, message, fix)]


def _distinct(values: np.ndarray) -> set[Any]:
    return set(values[~is_missing(values)].tolist())


def _finite(measure: Callable[[np.ndarray], Any], values: np.ndarray) -> float | None:
    with np.errstate(over="ignore", invalid="ignore"):
        found = measure(values[np.isfinite(values)]) if np.isfinite(values).any() else np.nan
    return float(found) if np.isfinite(found) else None
