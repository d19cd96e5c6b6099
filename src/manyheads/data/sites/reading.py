"""Which of a user's files are sites, and their tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from manyheads.core.errors import UserError, did_you_mean
from manyheads.core.files import kind_of
from manyheads.core.settings import settings
from manyheads.core.words import quoted
from manyheads.data.paths import suggestion
from manyheads.data.sites.pairs import label_pair, paired
from manyheads.data.sites.problems import Problem, and_more
from manyheads.data.sites.tables import EXTENSIONS, Table, read_table, stem
from manyheads.data.sites.values import as_text, is_missing, like_values, ordered

__all__ = ["CLIENT_NAMES", "LABEL_NAMES", "Reading", "Site", "read_one", "read_sites"]

LABEL_NAMES = ("label", "target", "y", "class")
CLIENT_NAMES = ("client", "site")
BESIDE = ("SHA256SUMS", "ATTRIBUTION.md")
"""files beside the tables of published data"""


@settings
class Reading:
    """Which files to read, and what their columns mean."""

    path: str = ""
    """a folder with one CSV, Excel, Parquet or NPZ file per client, or one such table with a client column"""
    label: str = "label"
    """the label column; by default label, target, y and class are tried; of survival two columns, TIME,EVENT"""
    client: str = ""
    """in a single table, the column that names the client; by default client and site are tried"""
    task: Literal["auto", "classification", "regression", "survival"] = "auto"
    """auto: text, or at most 30 different whole numbers, are classes; other numbers are targets of a regression; two
    columns are survival"""
    categories: tuple[str, ...] = ()
    """columns of numbers that are codes, not quantities"""
    ignore: tuple[str, ...] = ()
    """columns to leave out"""
    missing: Literal["mean", "error"] = "mean"
    """missing values: numbers are replaced by the mean of the training samples, or it is an error"""
    missing_codes: tuple[str, ...] = ()
    """more codes of missing values: CODE for all columns, COLUMN=CODE for one, such as -9,chol=0"""
    sheet: str = ""
    """of Excel files, the sheet to read; by default the first that holds values"""
    group: str = ""
    """column of what must not be divided, such as the patient: all rows of one are for training, or for a test"""
    time: str = ""
    """column of times, numbers or dates: tests are on rows that are later than all training rows of their client"""
    split: str = ""
    """column with your own split: train or test in every row"""

    @property
    def roles(self) -> tuple[str, ...]:
        """The columns that say how rows are divided; they are no features."""
        return tuple(filter(None, (self.group, self.time, self.split)))


@dataclass(frozen=True, eq=False)
class Site:
    """One site's table; ``rows`` are its row numbers in ``file``, for messages."""

    name: str
    file: str
    rows: np.ndarray
    columns: dict[str, np.ndarray]
    ignored: frozenset[str] = frozenset()
    """columns of the file that were left out"""
    notations: dict[str, str] = field(default_factory=dict)
    """columns whose numbers have a notation other than a program's, and its name"""
    codes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """columns in which texts were read as missing values, and these texts"""

    def problem(self, message: str, fix: str, at: np.ndarray, column: str) -> Problem:
        """An error at rows ``at`` of a column; the message is about the first."""
        return Problem("error", self.file, message + and_more(at), fix, int(self.rows[at[0]]), column)

    def warning(self, message: str, fix: str, column: str | None = None) -> Problem:
        return Problem("warning", self.file, f"site {quoted(self.name)} {message}", fix, column=column)


def read_one(reading: Reading, name: str) -> tuple[list[Site], str, list[Problem]]:
    """A single file as the table of one site, the name of the label column, and problems."""
    table, problems = _table(reading, Path(reading.path))
    sites = [_site(name, Path(reading.path), np.arange(table.rows), table)] if table else []
    return _labelled(reading, sites, problems)


def read_sites(reading: Reading) -> tuple[list[Site], str, list[Problem]]:
    """The sites that have the same columns (in one order), the name of the label column, and problems."""
    return _labelled(reading, *_read(reading))


def _labelled(reading: Reading, sites: list[Site], problems: list[Problem]) -> tuple[list[Site], str, list[Problem]]:
    label = _label_column(reading, sites)
    if sites and not any(p.severity == "error" for p in problems):
        problems += _no_such(reading, sites, label)
    pairs = [paired(site, label) for site in sites]
    sites, problems = [site for site, _ in pairs], problems + [p for _, more in pairs for p in more]
    alike, more = _alike(sites, label)
    return alike, label, problems + more


def _read(reading: Reading) -> tuple[list[Site], list[Problem]]:
    if not reading.path:
        raise UserError("no path is given", where="data sites", fix="name a folder of sites: --data.path my_sites/")
    path = Path(reading.path)
    kind = kind_of(path)
    if kind is None:
        fix = suggestion(path) or "name a folder with one file per client, or one table"
        return [], [Problem("error", str(path), "is not there: no such folder or file", fix)]
    if kind != "folder":
        return _divided(reading, path)
    if reading.client:
        fix = "leave out --data.client, or name one table instead of the folder"
        return [], [Problem("error", str(path), "is a folder: each of its files is a client", fix)]
    try:
        files = sorted(path.iterdir())
    except OSError as error:
        return [], [Problem("error", str(path), f"cannot be read: {error.strerror}", "ask for permission to read it")]
    sites, problems = [], []
    for file in files:
        why = _left_out(file)
        if why is None:
            table, more = _table(reading, file)
            problems += more
            if table is not None:
                sites.append(_site(stem(file), file, np.arange(table.rows), table))
        elif why:
            fix = f"if it is a table, save it as one of {', '.join(EXTENSIONS)}"
            problems.append(Problem("warning", str(file), f"{why}: left out", fix))
    if not sites and not any(p.severity == "error" for p in problems):
        fix = f"put one file per client there: {', '.join(EXTENSIONS)}"
        problems.append(Problem("error", str(path), "the folder holds no table", fix))
    for name, count in Counter(s.name for s in sites).items():
        if count > 1:
            message = f"{count} files are of a site {quoted(name)}"
            problems.append(Problem("error", str(path), message, "rename one of them"))
    return sites, problems


def _table(reading: Reading, file: Path) -> tuple[Table | None, list[Problem]]:
    return read_table(file, reading.ignore, sheet=reading.sheet, missing=reading.missing_codes)


def _left_out(file: Path) -> str | None:
    """Why a file of the folder is not a site, empty if that needs no warning (a hidden file); None if it is one."""
    table = file.name.endswith(EXTENSIONS)
    if file.name.startswith("~$"):
        return "a lock file of a program that has the table open"
    if file.name in BESIDE:
        return ""
    if file.name.startswith("."):
        return "a hidden file" if table else ""
    if kind_of(file) == "folder":
        return "is a folder"
    return None if table else "not a known kind of table"


def _site(name: str, file: Path, at: np.ndarray, table: Table) -> Site:
    columns = {n: c[at] for n, c in table.columns.items()}
    return Site(name, str(file), at + 1, columns, table.ignored, table.notations, table.codes)


def _divided(reading: Reading, path: Path) -> tuple[list[Site], list[Problem]]:
    """The sites of a single table, divided by its client column."""
    table, problems = _table(reading, path)
    if table is None:
        return [], problems
    names = [reading.client] if reading.client else list(CLIENT_NAMES)
    column = next((n for n in names if n in table.columns), None)
    if column is None:
        words = " or ".join(quoted(n) for n in names)
        message = f"no column {words} that names the client; there are {quoted(*table.columns)}"
        near = did_you_mean(reading.client, table.columns) if reading.client else None
        fix = near or "name it with --data.client, or use a folder of files"
        return [], [Problem("error", str(path), message, fix)]
    owners = as_text(table.columns.pop(column))
    nobody = np.flatnonzero(is_missing(owners))
    if len(nobody):
        whole = _site("", path, np.arange(table.rows), table)
        problems.append(whole.problem("no client is named", "fill it in, or delete the row", nobody, column))
    found = ordered(set(owners[~is_missing(owners)].tolist()))
    return [_site(owner, path, np.flatnonzero(owners == owner), table) for owner in found], problems


def _no_such(reading: Reading, sites: Sequence[Site], label: str) -> list[Problem]:
    """Errors for columns that the user named and no site has."""
    used = {n: None for s in sites for n in s.columns}
    there = used | {n: None for s in sites for n in s.ignored}
    features = [n for n in used if n not in (label, *label_pair(label, used))]
    return [
        Problem("error", reading.path, message, did_you_mean(name, known) or f"there are {quoted(*known)}", column=name)
        for message, names, known in (
            ("no such column to ignore", reading.ignore, list(there)),
            ("no such column of categories", reading.categories, features),
            ("no such column with a missing code", [c.rpartition("=")[0] for c in reading.missing_codes], [*used, ""]),
        )
        for name in names
        if name not in known
    ]


def _label_column(reading: Reading, sites: Sequence[Site]) -> str:
    names = LABEL_NAMES if reading.label == "label" else (reading.label,)
    return next((n for n in names if any(n in s.columns for s in sites)), reading.label)


def _alike(sites: Sequence[Site], label: str) -> tuple[list[Site], list[Problem]]:
    """The sites with the most common set of columns, in one order; and problems with the others."""
    labelled = [s for s in sites if label in s.columns]
    usual = Counter(tuple(sorted(s.columns)) for s in labelled).most_common(1)[0][0] if labelled else ()
    alike = [s for s in labelled if set(s.columns) == set(usual)]
    odd = {s.file: s for s in sites if set(s.columns) != set(usual)}  # a single table of many clients is reported once
    # only if at least two sites agree is it clear what a site looks like
    problems = [_stranger(s) if len(alike) > 1 and _far(s, usual) else _misfit(s, label, usual) for s in odd.values()]
    order = list(alike[0].columns) if alike else []
    return [replace(s, columns={n: s.columns[n] for n in order}) for s in alike], problems


def _far(site: Site, usual: Iterable[str]) -> bool:
    """Whether a site has less than half of the usual columns."""
    own, others = {_bare(n) for n in site.columns}, {_bare(n) for n in usual}
    return 2 * len(own & others) < len(others) and not like_values(list(site.columns))


def _stranger(site: Site) -> Problem:
    message = f"is not a site like the others: left out; its columns are {quoted(*site.columns)}"
    return Problem("warning", site.file, message, "if it is one, give it their columns")


def _misfit(site: Site, label: str, usual: Sequence[str]) -> Problem:
    lacks, extra = sorted(set(usual) - set(site.columns)), sorted(set(site.columns) - set(usual))
    bare = {_bare(n): n for n in extra}
    renamed = {bare[_bare(n)]: n for n in lacks if _bare(n) in bare}
    if renamed and len(renamed) == len(lacks):
        pairs = ", ".join(f"{quoted(own)} is {quoted(name)}" for own, name in renamed.items())
        message = f"columns are spelled differently in the other sites: {pairs}"
        return Problem("error", site.file, message, "spell them as the others do")
    if label not in site.columns:
        if like_values(list(site.columns)):
            message = (
                f"no label column {quoted(label)}: the first line holds values, not names: {quoted(*site.columns)}"
            )
            return Problem("error", site.file, message, "is the header missing? Write the columns' names there")
        message = f"no label column {quoted(label)}; its columns are {quoted(*site.columns)}"
        near = did_you_mean(label, site.columns) if label not in LABEL_NAMES else None
        fix = near or "name the label column: --data.label NAME"
        return Problem(
            "error", site.file, message, f"{fix}; or, if it is not a site, remove the file" if usual else fix
        )
    parts = [f"lacks {quoted(*lacks)}"] * bool(lacks) + [f"has {quoted(*extra)} besides"] * bool(extra)
    message = f"columns differ from those of the other sites: it {' and '.join(parts)}"
    fix = f"give all sites the same columns, or leave out: --data.ignore {','.join([*lacks, *extra][:9])}"
    return Problem("error", site.file, message, fix)


def _bare(name: str) -> str:
    """A column's name without what spellings differ in: case, blanks, punctuation."""
    return re.sub(r"[\W_]+", "", name.casefold()) or name
