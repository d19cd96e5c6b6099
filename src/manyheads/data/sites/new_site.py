"""The samples of a new site, read and checked as the training sites' were."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.files import kind_of
from manyheads.core.tasks import task_named
from manyheads.core.words import quoted
from manyheads.data.encoding import Encoding, Raw
from manyheads.data.paths import suggestion
from manyheads.data.sites.columns import Columns
from manyheads.data.sites.dates import date_order
from manyheads.data.sites.gaps import codes_told
from manyheads.data.sites.kinds import WRONG, Kind, values_of
from manyheads.data.sites.pairs import label_pair, stacked_pair
from manyheads.data.sites.problems import Problem, and_more
from manyheads.data.sites.reading import LABEL_NAMES
from manyheads.data.sites.tables import Table, read_arrays, read_table
from manyheads.data.sites.values import as_numbers, as_text

__all__ = ["NewSite", "new_site", "read_new_site"]


@dataclass(frozen=True, eq=False)
class NewSite:
    """The samples of a new site, checked but not scaled: scaling depends on which rows are for training."""

    samples: Raw
    y: np.ndarray | None
    """class indices, or scaled targets"""
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.samples if isinstance(self.samples, np.ndarray) else next(iter(self.samples.values())))


def read_new_site(path: str | Path, encoding: Encoding, labelled: bool = True) -> NewSite:
    """Read a new site's file: a table with the columns of the run's sites, or samples of the run's shape.

    Unless ``labelled``, labels may be missing, and a problem with them is only a warning.
    """
    path = Path(path)
    kind = kind_of(path)
    if kind is None:
        raise UserError(f"{path} is not there", where="data", fix=suggestion(path))
    if kind != "file":
        raise UserError(f"{path} is not a file", where="data")
    if encoding.columns is not None:
        table, warnings = _table(path, labelled, encoding.columns)
        samples: Raw
        samples, more = _features(path, table, encoding.columns)
        warnings += more
        column = encoding.columns.label
        values = _label(table.columns, column)
    else:
        x, values, column, warnings = _arrays(path, labelled, task_named(encoding.task).label)
        samples = _fitting(str(path), x, encoding)
    try:
        y = _targets(str(path), values, column, encoding)
    except UserError as error:
        if labelled:
            raise
        y, warnings = None, [*warnings, f"predictions are not compared with the labels: {error}"]
    if y is None and labelled:
        raise UserError(
            f"{path} has no labels", fix=f"add {'the array' if path.suffix == '.npz' else 'the column'} {column!r}"
        )
    return NewSite(samples, y, tuple(warnings))


def new_site(x: np.ndarray, y: np.ndarray, encoding: Encoding) -> NewSite:
    """A new site from arrays: samples of the run's shape, and class indices, class names or targets."""
    if encoding.columns is not None:
        raise UserError(
            "this run reads tables with named columns", fix="give the path of a CSV, Excel, Parquet or NPZ file"
        )
    x, y = np.asarray(x), np.asarray(y)
    if not x.ndim or len(x) != len(y) or not len(x):
        raise UserError("x and y need one row per sample", given=f"shapes {x.shape} and {y.shape}")
    if y.dtype.kind in "US":
        y = y.astype(str).astype(object)
    return NewSite(_fitting("x", x, encoding), _targets("y", y, "y", encoding))


def _table(path: Path, labelled: bool, columns: Columns | None = None) -> tuple[Table, list[str]]:
    """A table, read as those of the run's sites were, and warnings."""
    if columns is None:
        table, problems = read_table(path, labelled=labelled)
    else:
        table, problems = read_table(path, columns.ignored, labelled, columns.sheet, columns.missing_codes)
    if table is None:
        raise UserError(str(problems[0]))
    return table, [str(p) for p in (*problems, *codes_told(str(path), [table.codes]))]


def _features(path: Path, table: Table, columns: Columns) -> tuple[dict[str, np.ndarray], list[str]]:
    """The columns that the model reads, in any order, and warnings about them."""
    wanted = (*columns.numbers, *columns.categories)
    lacks = [n for n in wanted if n not in table.columns]
    label = label_pair(columns.label, table.columns) or (columns.label,)
    extra = [n for n in table.columns if n not in (*wanted, *columns.dropped, *label)]
    if lacks:
        besides = f"; it has {quoted(*extra)} besides" if extra else ""
        raise UserError(f"{path} lacks the columns {quoted(*lacks)}{besides}", fix="name them as the run's sites do")
    warnings = [f"{path}: columns that the run's sites did not have are not used: {quoted(*extra)}"] if extra else []
    warnings += [f"{path}, column {quoted(n)}: numbers with {way}, read as such" for n, way in table.notations.items()]
    clean = {}
    for name in columns.numbers:
        kind: Kind = "boolean" if name in columns.booleans else "date" if name in columns.dates else "number"
        order, more = _order(path, table.columns[name], name, columns) if kind == "date" else ("", [])
        clean[name], warnings = _numbers(str(path), table.columns[name], name, kind, order), warnings + more
    for name, known in columns.categories.items():
        clean[name] = as_text(table.columns[name])
        new = sorted({v for v in clean[name] if v is not None and v not in known})
        if new:
            warnings.append(f"{path}, column {name!r}: never seen in training, so taken as missing: {quoted(*new)}")
    if columns.missing == "error":
        for name, column in clean.items():
            gaps = np.flatnonzero([v is None or v != v for v in column])
            if len(gaps):
                raise _error(str(path), "a missing value", "fill it in: the run accepts no missing values", gaps, name)
    return clean, warnings


def _order(path: Path, column: np.ndarray, name: str, columns: Columns) -> tuple[str, list[str]]:
    """The order of day and month in dates: if it cannot be told from them, that of the run's sites, with a warning."""
    texts = [v for v in column.tolist() if isinstance(v, str)]
    own, usual = date_order(texts), columns.dates[name]
    if own is not None:
        return own, []
    message = f"dates whose day and month cannot be told apart, such as {quoted(texts[0])}"
    if not usual:
        raise UserError(str(Problem("error", str(path), message, "write them as 2021-04-03", column=name)))
    fix = f"read as {usual}, as at the run's sites"
    return usual, [str(Problem("warning", str(path), message, fix, column=name))]


def _label(columns: Mapping[str, np.ndarray], name: str) -> np.ndarray | None:
    """The label column, or both of survival's; None if it is not there."""
    pair = label_pair(name, columns)
    return stacked_pair(columns, pair) if pair else columns.get(name)


def _arrays(path: Path, labelled: bool, pair: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray | None, str, list[str]]:
    """Inputs and labels from an NPZ file, or from a table with one column per input; the label's name, and warnings.

    ``pair`` are the names of the two columns that are the label of survival; empty for other tasks.
    """
    if path.suffix == ".npz":
        found, problems = read_arrays(path)
        if found is None:
            raise UserError(str(problems[0]))
        return *found, "y", []
    table, warnings = _table(path, labelled)
    columns = dict(table.columns)
    known = (",".join(pair),) if pair else LABEL_NAMES
    label = next((n for n in known if _label(columns, n) is not None), "")
    y = _label(columns, label)
    columns = {n: c for n, c in columns.items() if n not in (label, *label_pair(label, columns))}
    if y is None and labelled:
        raise UserError(f"{path} has no label column", allowed=", ".join(known), fix="name it so")
    if not columns:
        raise UserError(f"{path} has no column besides the label", fix="add a column for each input")
    inputs = [_numbers(str(path), column, name) for name, column in columns.items()]
    return np.stack(inputs, axis=1), y, label, warnings


def _numbers(file: str, column: np.ndarray, name: str, kind: Kind = "number", order: str = "") -> np.ndarray:
    numbers, wrong = values_of(column, kind, order)
    if wrong.any():
        at = np.flatnonzero(wrong)
        raise _error(file, f"{WRONG[kind]}: {quoted(column[at[0]])}", "correct it, or leave it empty", at, name)
    if np.isinf(numbers).any():
        raise _error(
            file, "an infinite number", "correct it, or leave it empty", np.flatnonzero(np.isinf(numbers)), name
        )
    return numbers


def _fitting(file: str, x: np.ndarray, encoding: Encoding) -> np.ndarray:
    """Inputs in the shape and type of the run's samples."""
    size, shape = math.prod(encoding.shape), encoding.shape
    if x.dtype.kind not in "biuf":
        raise UserError(f"{file}: inputs that are not numbers", given=str(x.dtype))
    without_ones = tuple(d for d in shape if d != 1)
    if x.ndim == 2 and x.shape[1] != size:
        raise UserError(f"{file}: wrong number of inputs per sample", given=x.shape[1], allowed=str(size))
    if x.shape[1:] not in (shape, (size,), without_ones):
        raise UserError(f"{file}: wrong shape of a sample", given=x.shape[1:], allowed=f"{shape}, or ({size},)")
    x = x.reshape(len(x), *shape)
    flat_x = x.reshape(len(x), -1)
    kind = np.dtype(encoding.dtype)
    if kind.kind == "f":
        wrong, what, fix = ~np.isfinite(flat_x), "a missing or infinite value", "fill it in"
    elif kind == np.uint8:
        wrong = (flat_x != np.round(flat_x)) | (flat_x < 0) | (flat_x > 255)
        what, fix = "a pixel that is not a whole number from 0 to 255", "save the images as bytes"
    else:
        wrong, what, fix = (
            (flat_x != np.round(flat_x)) | (flat_x < 0),
            "a token that is not a whole number from 0 on",
            "correct it",
        )
    if wrong.any():
        raise _error(file, what, fix, np.flatnonzero(wrong.any(axis=1)))
    return x.astype(kind)


def _targets(file: str, values: np.ndarray | None, column: str, encoding: Encoding) -> np.ndarray | None:
    if values is None:
        return None
    task = task_named(encoding.task)
    if task.classes:
        return _classes(file, values, column, encoding)
    width = len(task.label) or encoding.outputs
    if values.ndim > 1 or width > 1:
        if values.dtype.kind not in "biuf" or values.reshape(len(values), -1).shape[1] != width:
            raise UserError(
                f"{file}: y does not fit the model", given=values.shape, allowed=f"{width} numbers per sample"
            )
        numbers = values.astype(np.float64)
    else:
        numbers, wrong = as_numbers(values)
        if wrong.any():
            at = np.flatnonzero(wrong)
            raise _error(file, f"a label that is not a number: {quoted(values[at[0]])}", "correct it", at, column)
    bad = np.flatnonzero(~np.isfinite(numbers.reshape(len(numbers), -1)).all(axis=1))
    if len(bad):
        raise _error(file, "a missing or infinite label", "fill it in, or delete the row", bad, column)
    wrong, why = task.wrong_labels(numbers)
    if wrong.any():
        raise _error(file, f"a label that {why}", "correct it, or delete the row", np.flatnonzero(wrong), column)
    return encoding.scaled(numbers)


def _classes(file: str, values: np.ndarray, column: str, encoding: Encoding) -> np.ndarray:
    """Class indices of labels: names of the run's classes or, unless the run reads tables, their indices."""
    if values.ndim != 1:
        raise UserError(f"{file}: y has {values.ndim} dimensions", fix="it needs one label per sample")
    text = as_text(values if values.dtype == object else values.astype(np.float64))
    number = {name: i for i, name in enumerate(encoding.labels)}
    gaps = np.flatnonzero([t is None for t in text])
    if len(gaps):
        raise _error(file, "a missing label", "fill it in, or delete the row", gaps, column)
    allowed = f"its labels are {quoted(*number)}"
    if encoding.columns is None and encoding.label_names:
        numbers = {str(i): i for i in range(encoding.outputs)}
        number = max((number, numbers), key=lambda known: sum(t in known for t in text))
        allowed += f", or their indices 0 to {encoding.outputs - 1}"
    unknown = np.flatnonzero([t not in number for t in text])
    if len(unknown):
        raise _error(file, f"a label that the run does not know: {quoted(text[unknown[0]])}", allowed, unknown, column)
    return np.array([number[t] for t in text], np.int64)


def _error(file: str, message: str, fix: str, rows: np.ndarray, column: str | None = None) -> UserError:
    return UserError(str(Problem("error", file, message + and_more(rows), fix, int(rows[0]) + 1, column)))
