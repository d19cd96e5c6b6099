"""What a user's sites hold and what is wrong with it: the step between files and a federation.

Sites tell only what a federation may know: names and kinds of columns, counts, label names; no row leaves its site here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.settings import settings
from manyheads.data.federation import Task
from manyheads.data.tables import EXTENSIONS, Problem, and_more, as_numbers, as_text, read_table, stem

__all__ = ["Reading", "Site", "Survey", "take"]

LABEL_NAMES = ("label", "target", "y", "class")
CLIENT_NAMES = ("client", "site")
FEW_LABELS = 30
"""whole numbers with more distinct values than this are taken for a quantity, not for classes"""
MANY_CATEGORIES = 50
"""a column with more looks like an identifier"""


@settings
class Reading:
    """Which files to read, and what their columns mean."""

    path: str = ""
    """a folder with one CSV, Parquet or NPZ file per client, or one such table with a client column"""
    label: str = "label"
    """the label column; unless named, label, target, y and class are tried"""
    client: str = ""
    """the column that names the client, in one table of all; unless named, client and site are tried"""
    task: Literal["auto", "classification", "regression"] = "auto"
    """auto: text, or at most 30 different whole numbers, are classes; other numbers are a regression"""
    categories: tuple[str, ...] = ()
    """columns of numbers that are codes, not quantities"""
    ignore: tuple[str, ...] = ()
    """columns to leave out"""
    missing: Literal["mean", "error"] = "mean"
    """a missing number: replaced by the mean of the training samples (as scaling has it), or not accepted"""


@dataclass(frozen=True, eq=False)
class Site:
    """One site's table; ``rows`` are the numbers of its rows in ``file``, for messages."""

    name: str
    file: str
    rows: np.ndarray
    columns: dict[str, np.ndarray]

    def problem(self, message: str, fix: str, at: np.ndarray, column: str) -> Problem:
        """An error at the first of some rows of a column."""
        return Problem("error", self.file, message + and_more(at), fix, int(self.rows[at[0]]), column)

    def warning(self, message: str, fix: str, column: str | None = None) -> Problem:
        return Problem("warning", self.file, f"site {self.name!r} {message}", fix, column=column)


@dataclass(frozen=True, eq=False)
class Survey:
    """The findings. The columns of ``sites`` are clean if there is no error: numbers, or text of categories and labels."""

    path: str
    problems: tuple[Problem, ...]
    sites: tuple[Site, ...] = ()
    task: Task = "classification"
    label: str = "label"
    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    """of a classification, in their order"""

    @property
    def errors(self) -> list[Problem]:
        return [p for p in self.problems if p.severity == "error"]

    @property
    def features(self) -> tuple[str, ...]:
        return self.numbers + self.categories

    @property
    def constant(self) -> tuple[str, ...]:
        """Features with one value over all sites (or none at all)."""
        values = {f: {v for s in self.sites for v in _distinct(s.columns[f])} for f in self.features}
        return tuple(f for f, seen in values.items() if len(seen) <= 1)

    def facts(self) -> dict[str, Any]:
        """The findings as plain values, as ``manyheads data check --json`` prints them."""
        return {
            "ok": not self.errors,
            "path": self.path,
            "task": self.task if self.sites else None,
            "label": self.label if self.sites else None,
            "labels": list(self.labels),
            "features": {f: "number" if f in self.numbers else "category" for f in self.features},
            "constant": list(self.constant),
            "sites": [self._site_facts(site) for site in self.sites],
            "problems": [asdict(p) for p in self.problems],
        }

    def _site_facts(self, site: Site) -> dict[str, Any]:
        y = site.columns[self.label]
        known = y[~_missing(y)]
        facts: dict[str, Any] = {"name": site.name, "file": site.file, "rows": len(y), "features": len(self.features)}
        if self.task == "classification":
            counts = Counter(known.tolist())
            facts["labels"] = {label: counts[label] for label in self.labels if counts[label]}
        else:
            facts["target"] = {"mean": _finite(np.mean, known), "std": _finite(np.std, known)}
        missing = {f: int(_missing(site.columns[f]).sum()) for f in self.features}
        facts["missing"] = {f: count for f, count in missing.items() if count}
        facts["constant"] = [f for f in self.features if len(_distinct(site.columns[f])) <= 1]
        return facts


def take(reading: Reading) -> Survey:
    """Read all sites and look them through."""
    sites, problems = _read(reading)
    label = _label_column(reading, sites)
    sites, more = _alike(sites, label, reading)
    problems += more
    if not sites:
        return Survey(reading.path, tuple(problems))
    features = [c for c in sites[0].columns if c != label]
    if not features:
        problems.append(Problem("error", reading.path, "there is no column besides the label", "add feature columns"))
    problems += [
        Problem("error", reading.path, "no such column", f"there are {_some(features)}", column=name)
        for name in reading.categories
        if name not in features
    ]
    kinds = {f: _is_category(f, sites) or f in reading.categories for f in features}
    clean = []
    for site in sites:
        columns = {}
        for feature in features:
            columns[feature], more = _feature(site, feature, kinds[feature], reading.missing)
            problems += more
        clean.append(replace(site, columns=columns | {label: site.columns[label]}))
    task = _task(reading, [s.columns[label] for s in sites])
    clean, more = _labels(clean, label, task)
    survey = Survey(
        reading.path,
        tuple(problems + more),
        tuple(clean),
        task,
        label,
        tuple(f for f in features if not kinds[f]),
        tuple(f for f in features if kinds[f]),
        _sorted({v for s in clean for v in _distinct(s.columns[label])}) if task == "classification" else (),
    )
    return replace(survey, problems=(*survey.problems, *_doubts(survey)))


def _read(reading: Reading) -> tuple[list[Site], list[Problem]]:
    if not reading.path:
        raise UserError("no path is given", where="data sites", fix="name a folder of sites: --data.path my_sites/")
    path = Path(reading.path)
    if not path.exists():
        return [], [Problem("error", str(path), "is not there", "name a folder with one file per client, or one table")]
    if path.is_file():
        return _read_one(reading, path)
    if reading.client:
        fix = "leave out --data.client, or name one table instead of the folder"
        return [], [Problem("error", str(path), "is a folder: each of its files is a client", fix)]
    sites, problems = [], []
    for file in sorted(f for f in path.iterdir() if not f.name.startswith(".")):
        if not file.name.endswith(EXTENSIONS) or file.is_dir():
            what = "is a folder" if file.is_dir() else "not a kind of table that is known"
            problems.append(Problem("warning", str(file), f"{what}: left out", f"known are {', '.join(EXTENSIONS)}"))
            continue
        table, more = read_table(file, reading.ignore)
        problems += more
        if table is not None:
            sites.append(Site(stem(file), str(file), np.arange(1, table.rows + 1), table.columns))
    if not sites and not any(p.severity == "error" for p in problems):
        fix = f"put one file per client there: {', '.join(EXTENSIONS)}"
        problems.append(Problem("error", str(path), "the folder holds no table", fix))
    for name, count in Counter(s.name for s in sites).items():
        if count > 1:
            problems.append(Problem("error", str(path), f"{count} files are of a site {name!r}", "rename one of them"))
    return sites, problems


def _read_one(reading: Reading, path: Path) -> tuple[list[Site], list[Problem]]:
    """One table of all clients, divided by its client column."""
    table, problems = read_table(path, reading.ignore)
    if table is None:
        return [], problems
    names = [reading.client] if reading.client else list(CLIENT_NAMES)
    column = next((n for n in names if n in table.columns), None)
    if column is None:
        message = f"no column {' or '.join(map(repr, names))} that names the client; there are {_some(table.columns)}"
        return [], [Problem("error", str(path), message, "name it with --data.client, or use a folder of files")]
    owners = as_text(table.columns.pop(column))
    rows = np.arange(1, table.rows + 1)
    nobody = np.flatnonzero(_missing(owners))
    if len(nobody):
        whole = Site("", str(path), rows, {})
        problems.append(whole.problem("no client is named", "fill it in, or delete the row", nobody, column))
    groups = {o: np.flatnonzero(owners == o) for o in _sorted(_distinct(owners))}
    return [
        Site(owner, str(path), rows[at], {n: c[at] for n, c in table.columns.items()}) for owner, at in groups.items()
    ], problems


def _label_column(reading: Reading, sites: Sequence[Site]) -> str:
    names = LABEL_NAMES if reading.label == "label" else (reading.label,)
    return next((n for n in names if any(n in s.columns for s in sites)), reading.label)


def _alike(sites: Sequence[Site], label: str, reading: Reading) -> tuple[list[Site], list[Problem]]:
    """The sites that have the label and the columns of most sites, the columns in one order."""
    problems, labelled = [], []
    told: set[str] = set()  # one table of many clients lacks its label once
    for site in sites:
        if label in site.columns:
            labelled.append(site)
        elif site.file not in told:
            told.add(site.file)
            hint = " (is the header missing?)" if all(_is_number(n) for n in site.columns) else ""
            message = f"no label column {label!r}; its columns are {_some(site.columns)}{hint}"
            problems.append(Problem("error", site.file, message, "name the label column: --data.label NAME"))
    if not labelled:
        return [], problems
    usual, _ = Counter(tuple(sorted(s.columns)) for s in labelled).most_common(1)[0]
    alike = [s for s in labelled if set(s.columns) == set(usual)]
    for site in labelled:
        lacks, extra = sorted(set(usual) - set(site.columns)), sorted(set(site.columns) - set(usual))
        if lacks or extra:
            parts = [f"lacks {_some(lacks)}"] * bool(lacks) + [f"has {_some(extra)} besides"] * bool(extra)
            message = f"other columns than the other sites: it {' and '.join(parts)}"
            fix = f"give all sites the same columns, or leave out: --data.ignore {','.join([*lacks, *extra][:9])}"
            problems.append(Problem("error", site.file, message, fix))
    order = list(alike[0].columns)
    return [replace(s, columns={n: s.columns[n] for n in order}) for s in alike], problems


def _is_category(feature: str, sites: Iterable[Site]) -> bool:
    """More text than numbers, over all sites: a few words among numbers are mistakes."""
    balance = 0
    for site in sites:
        numbers, wrong = as_numbers(site.columns[feature])
        balance += int(wrong.sum()) - int((~np.isnan(numbers)).sum())
    return balance > 0


def _feature(site: Site, name: str, category: bool, missing: str) -> tuple[np.ndarray, list[Problem]]:
    column = site.columns[name]
    problems = []
    numbers, wrong = as_numbers(column)
    if not category:
        if wrong.any():
            at = np.flatnonzero(wrong)
            fix = "correct it, leave it empty, or name the column in --data.categories"
            problems.append(site.problem(f"text in a column of numbers: {column[at[0]]!r}", fix, at, name))
        if np.isinf(numbers).any():
            fix = "correct it, or leave it empty"
            problems.append(site.problem("an infinite number", fix, np.flatnonzero(np.isinf(numbers)), name))
    values = as_text(column) if category else numbers
    gaps = _missing(values) & ~wrong
    if gaps.any() and missing == "error":
        fix = "fill it in, or accept it: --data.missing mean"
        problems.append(site.problem("a missing value", fix, np.flatnonzero(gaps), name))
    return values, problems


def _task(reading: Reading, labels: Sequence[np.ndarray]) -> Task:
    if reading.task != "auto":
        return reading.task
    pairs = [as_numbers(y) for y in labels]
    numbers = np.concatenate([n for n, _ in pairs])
    numbers = numbers[np.isfinite(numbers)]
    text = sum(int(wrong.sum()) for _, wrong in pairs)
    quantity = (numbers != np.round(numbers)).any() or (not text and len(np.unique(numbers)) > FEW_LABELS)
    return "regression" if quantity and text < len(numbers) else "classification"


def _labels(sites: Sequence[Site], label: str, task: Task) -> tuple[list[Site], list[Problem]]:
    """Labels as text or as numbers, and those that cannot be."""
    clean, problems = [], []
    for site in sites:
        column = site.columns[label]
        numbers, wrong = as_numbers(column)
        values = as_text(column) if task == "classification" else numbers
        gaps = np.flatnonzero(_missing(values) & ~(wrong if task == "regression" else False))
        if len(gaps):
            problems.append(site.problem("a missing label", "fill it in, or delete the row", gaps, label))
        if task == "regression" and wrong.any():
            at = np.flatnonzero(wrong)
            fix = "correct it, or say that labels are classes: --data.task classification"
            problems.append(site.problem(f"a label that is no number: {column[at[0]]!r}", fix, at, label))
        if np.isinf(numbers).any():
            at = np.flatnonzero(np.isinf(numbers))
            problems.append(site.problem("an infinite label", "correct it, or delete the row", at, label))
        clean.append(replace(site, columns=site.columns | {label: values}))
    return clean, problems


def _doubts(survey: Survey) -> list[Problem]:
    """What can be used, but may not be meant."""
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
                doubts.append(site.warning(f"has only the label {next(iter(seen))!r}", "check its label column"))
    if survey.task == "classification" and len(survey.labels) == 1:
        message = f"all sites have only the label {survey.labels[0]!r}: nothing to learn"
        doubts.append(Problem("error", survey.path, message, "name another label column: --data.label NAME"))
    elif len(survey.sites) > 1:
        for label, having in owners.items():
            if len(having) == 1:
                fix = "check its spelling; the other sites cannot help to learn it"
                doubts.append(having[0].warning(f"alone has the label {label!r}", fix, survey.label))
    for feature in survey.categories:
        count = len({v for s in survey.sites for v in _distinct(s.columns[feature])})
        if count > MANY_CATEGORIES:
            message = f"{count} categories, each an input of the model: an identifier, or numbers in another notation?"
            fix = f"if it is no feature: --data.ignore {feature}"
            doubts.append(Problem("warning", survey.path, message, fix, column=feature))
    constant = survey.constant
    doubts += [
        Problem("warning", survey.path, "one value in all sites: dropped", "none is needed", column=f) for f in constant
    ]
    if survey.features and len(constant) == len(survey.features):
        doubts.append(Problem("error", survey.path, "every feature has one value only", "add features that differ"))
    return doubts


def _missing(values: np.ndarray) -> np.ndarray:
    return np.array([v is None for v in values], bool) if values.dtype == object else np.isnan(values)


def _distinct(values: np.ndarray) -> set[Any]:
    return set(values[~_missing(values)].tolist())


def _finite(measure: Callable[[np.ndarray], Any], values: np.ndarray) -> float | None:
    values = values[np.isfinite(values)]
    return float(measure(values)) if len(values) else None


def _is_number(text: str) -> bool:
    return not as_numbers(np.array([text], object))[1].any()


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    """In the order of numbers, if all are numbers."""
    names = list(names)
    return tuple(sorted(names, key=(lambda n: (float(n), n)) if all(map(_is_number, names)) else None))


def _some(names: Iterable[str]) -> str:
    """A list of names, cut where it becomes unreadable."""
    names = list(names)
    return ", ".join(map(repr, names[:20])) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
