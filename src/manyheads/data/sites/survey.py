"""A survey of a user's sites: which columns and labels they have, and every problem with them.

Sites share only what a federation may know: names and types of columns, counts, medians, names of labels, hashes of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from manyheads.data.sites.cleaning import (
    LabelEvidence,
    check_task,
    clean_feature,
    clean_labels,
    task_told,
    unclear_numbers,
)
from manyheads.data.sites.doubts import doubts
from manyheads.data.sites.kinds import Kind, date_orders, kind_of
from manyheads.data.sites.problems import Problem
from manyheads.data.sites.reading import Reading, Site, read_sites
from manyheads.data.sites.roles import check_roles, clean_roles
from manyheads.data.sites.values import distinct, is_missing, ordered

__all__ = ["Agreed", "Survey", "feature_names", "survey_of", "surveyed"]


@dataclass(frozen=True)
class Agreed:
    """What columns and labels are, as all sites of a federation have agreed."""

    kinds: dict[str, Kind]
    """of every feature, in the order of the model's inputs"""
    task: str
    labels: tuple[str, ...] = ()
    """of a classification"""


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
        values = {f: {v for s in self.sites for v in distinct(s.columns[f])} for f in self.numbers}
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
        facts["constant"] = [f for f in self.features if len(distinct(site.columns[f])) <= 1]
        return facts


def survey_of(reading: Reading) -> Survey:
    """Read all sites and check them."""
    return surveyed(reading, *read_sites(reading))


def surveyed(
    reading: Reading, sites: Sequence[Site], label: str, problems: list[Problem], agreed: Agreed | None = None
) -> Survey:
    """Check the tables of sites; ``agreed`` is what they hold if that was decided with other sites."""
    if not sites:
        return Survey(reading.path, tuple(problems))
    if wrong := check_roles(reading, sites, label):
        problems += wrong
        reading = replace(reading, group="", time="", split="")
    features = feature_names(reading, sites[0], label)
    if not features:
        problems.append(Problem("error", reading.path, "there is no column besides the label", "add feature columns"))
    kinds: dict[str, Kind] = (
        {f: agreed.kinds[f] for f in features}
        if agreed
        else {f: "category" if f in reading.categories else kind_of([s.columns[f] for s in sites]) for f in features}
    )
    orders, more = date_orders(sites, [f for f in features if kinds[f] == "date"])
    problems += more
    if not agreed:
        guessed = [f for f in features if kinds[f] == "category" and f not in reading.categories]
        problems += unclear_numbers(reading, sites, guessed, "name the column in --data.categories")
    if misfit := check_task(reading, sites[0].columns[label]):
        problems.append(misfit)
        return Survey(reading.path, tuple(problems))
    if reading.task == "auto" and sites[0].columns[label].ndim == 1 and not agreed:
        problems += _unclear_labels(reading, sites, label)
    clean = []
    for site in sites:
        columns, more = _clean(reading, site, kinds, orders)
        problems += more
        clean.append(replace(site, columns=columns | {label: site.columns[label]}))
    task = agreed.task if agreed else task_told(reading, [LabelEvidence.of(s.columns[label]) for s in sites])
    clean, more = clean_labels(clean, label, task)
    labels = ordered({v for s in clean for v in distinct(s.columns[label])}) if task == "classification" else ()
    survey = Survey(
        reading.path,
        tuple(problems + more),
        tuple(clean),
        task,
        label,
        {f: kind for f, kind in kinds.items() if f != reading.time},
        orders,
        agreed.labels if agreed else labels,
        group=reading.group,
        time=reading.time,
        split=reading.split,
    )
    return replace(survey, problems=(*survey.problems, *doubts(survey, coded=bool(reading.categories))))


def feature_names(reading: Reading, site: Site, label: str) -> list[str]:
    """The columns that are features, and that of times."""
    return [c for c in site.columns if c not in (label, reading.group, reading.split)]


def _unclear_labels(reading: Reading, sites: Sequence[Site], label: str) -> list[Problem]:
    problems = unclear_numbers(reading, sites, [label], "say --data.task classification")
    if kind_of([s.columns[label] for s in sites]) == "date":
        fix = "name another label column, --data.label NAME, or write it as a number of days"
        problems.append(Problem("error", reading.path, "the labels are dates", fix, column=label))
    return problems


def _clean(
    reading: Reading, site: Site, kinds: Mapping[str, Kind], orders: Mapping[str, Mapping[str, str]]
) -> tuple[dict[str, np.ndarray], list[Problem]]:
    """The features and roles of a site."""
    columns, problems = {}, []
    for feature, kind in kinds.items():
        order = orders[feature][site.file] if feature in orders else ""
        columns[feature], more = clean_feature(site, feature, kind, reading.missing, order)
        problems += more
    roles, more = clean_roles(reading, site, columns)
    return columns | roles, problems + more


def _finite(measure: Callable[[np.ndarray], Any], values: np.ndarray) -> float | None:
    with np.errstate(over="ignore", invalid="ignore"):
        found = measure(values[np.isfinite(values)]) if np.isfinite(values).any() else np.nan
    return float(found) if np.isfinite(found) else None
