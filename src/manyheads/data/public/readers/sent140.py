"""Sentiment140's tweets, from its authors' CSV file or from LEAF's JSON files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from manyheads.core.errors import UserError
from manyheads.data.content import content
from manyheads.data.public.readers.leaf import leaf_users

__all__ = ["Tweet", "read_sent140"]

_LABELS = {"0": 0, "1": 1, "4": 1}
"""0 is negative; positive is 1 in LEAF's files and 4 in the authors' own"""


class Tweet(NamedTuple):
    """A tweet with its author, positive (1) or negative (0)."""

    user: str
    text: str
    label: int


def read_sent140(path: Path) -> list[Tweet]:
    """The tweets in a file (CSV or LEAF JSON, either of them gzip-compressed or not), or in a folder of such files.

    A folder has one CSV file, or LEAF's JSON files in it or in its ``train`` and ``test`` folders. LEAF's split into
    training and test is not kept.
    """
    return [tweet for file in _files(path) for tweet in (_csv(file) if ".csv" in file.suffixes else _leaf(file))]


def _files(path: Path) -> list[Path]:
    if path.is_file() and {".csv", ".json"} & set(path.suffixes):
        return [path]
    # without the authors' testdata.manual: 498 tweets, some of them neutral
    tables = sorted(f for f in path.glob("*.csv*") if not f.name.startswith("testdata") and _is_data(f))
    if len(tables) > 1:
        raise UserError(
            f"{path} holds several CSV files, which may share tweets",
            where="data.path",
            given=", ".join(f.name for f in tables),
            fix="name the one to read",
        )
    found = tables or [
        f for folder in (".", "train", "test") for f in sorted(path.glob(f"{folder}/*.json*")) if _is_data(f)
    ]
    if not found:
        raise UserError(
            f"no tweets in {path}",
            where="data sent140",
            fix="put training.1600000.processed.noemoticon.csv of Sentiment140 there (or .csv.gz), or LEAF's JSON files",
        )
    return found


def _is_data(file: Path) -> bool:
    return file.name.endswith((".csv", ".csv.gz", ".json", ".json.gz"))


def _csv(file: Path) -> Iterator[Tweet]:
    """Rows of polarity, tweet id, date, query, user and text, without a header."""
    raw = content(file)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # the encoding of the authors' file
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in rows:
            if len(row) != 6 or row[0] not in _LABELS:
                raise UserError(
                    f"{file} line {rows.line_num} is not a labelled tweet",
                    given=f"{len(row)} columns, the first {row[0]!r}" if row else "an empty line",
                    allowed="polarity (0 or 4), id, date, query, user, text",
                )
            yield Tweet(row[4], row[5], _LABELS[row[0]])
    except csv.Error as error:
        raise UserError(f"{file} line {rows.line_num}: {error}") from None


def _leaf(file: Path) -> Iterator[Tweet]:
    """The rows of LEAF's x are id, date, query, user, text and more."""
    for user, x, y in leaf_users(file):
        for row, label in zip(x, y, strict=True):
            if not isinstance(row, list) or len(row) < 5 or str(label) not in _LABELS:
                raise UserError(
                    f"{file}: a sample of user {user} is not a labelled tweet",
                    given=f"label {label}" if str(label) not in _LABELS else str(row)[:60],
                    allowed="x: id, date, query, user, text; y: 0 or 1",
                )
            yield Tweet(user, str(row[4]), _LABELS[str(label)])
