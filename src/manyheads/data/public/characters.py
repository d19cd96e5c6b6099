"""Handwritten characters with their writers: FEMNIST, and Chars74K as a small substitute."""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.settings import settings
from manyheads.data.encoding import Scaling
from manyheads.data.pool import Pool, hold_out
from manyheads.data.public.cache import Arrays, cached
from manyheads.data.public.locate import Location
from manyheads.data.public.readers.leaf import leaf_images
from manyheads.data.public.readers.parquet import read_image_table, whole_numbers

__all__ = ["Chars74k", "Femnist", "character_classes"]

CHARACTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase
"""in the order of LEAF's labels"""
RANGE = re.compile(r"([0-9A-Za-z])(?:-([0-9A-Za-z]))?")
JSON = ("*.json", "*.json.gz")


def character_classes(wanted: str) -> list[int]:
    """Labels of characters, given one by one or as ranges; empty means all.

    >>> character_classes("a-cX")
    [36, 37, 38, 33]
    """
    ranges = RANGE.findall(wanted)
    labels = [n for first, last in ranges for n in range(CHARACTERS.index(first), CHARACTERS.index(last or first) + 1)]
    if RANGE.sub("", wanted) or any(last and last < first for first, last in ranges):
        raise UserError(
            "no such characters", where="data characters", given=wanted, allowed="such as a-j, 0-9 or abcXYZ"
        )
    if len(set(labels)) < len(labels):
        raise UserError("a character is given twice", where="data characters", given=wanted)
    return labels or list(range(len(CHARACTERS)))


def _leaf(paths: list[Path], suffix: str = "") -> Arrays:
    x, y, writer = leaf_images(paths)
    return {f"x{suffix}": x, f"y{suffix}": y, f"writer{suffix}": writer}


def _pool(name: str, arrays: Arrays, characters: str, test_fraction: float, seed: int, scaling: Scaling) -> Pool:
    """The chosen characters, relabelled 0, 1, ...; a test part is drawn if the data has none."""
    labels = character_classes(characters)
    number = np.full(len(CHARACTERS), -1)
    number[labels] = np.arange(len(labels))
    parts = []
    for part in ("", "_test") if "x_test" in arrays else ("",):
        y = arrays[f"y{part}"]
        if y.max(initial=0) >= len(CHARACTERS):
            raise UserError(
                f"{name}: a label is out of range", given=int(y.max()), allowed=f"0 to {len(CHARACTERS) - 1}"
            )
        kept = number[y] >= 0
        parts.append((arrays[f"x{part}"][kept], number[y[kept]], arrays[f"writer{part}"][kept]))
    if len(parts) == 1:
        x, y, writer = parts[0]
        test = hold_out(y, test_fraction, len(labels), seed)
        parts = [(x[rows], y[rows], writer[rows]) for rows in (~test, test)]
    (x, y, writer), (x_test, y_test, writer_test) = parts
    keys = {"writer": np.concatenate([writer, writer_test])}
    names = tuple(CHARACTERS[label] for label in labels)
    own = "x_test" in arrays
    return Pool(name, x, y, x_test, y_test, len(labels), keys, scaling, label_names=names, own_test=own)


@settings
class Femnist:
    """FEMNIST, handwritten characters by writer, as LEAF's JSON or as parquet with writer_id."""

    name: ClassVar[str] = "femnist"
    model: ClassVar[str] = "mlp"
    path: str = ""
    """folder with LEAF's train/ and test/, with *.json, or with *.parquet; empty: femnist under MANYHEADS_DATA"""
    characters: str = ""
    """only these, such as a-j; empty: all 62"""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """fraction of every class that is held out for tests, if the data has no test part"""

    def pool(self, seed: int) -> Pool:
        place = Location.of(self.name, self.path, "data")
        train, test = (place.matching(*(f"{part}/{j}" for j in JSON)) for part in ("train", "test"))
        tables = place.matching("*.parquet")
        if train and test:
            files = [*train, *test]
            arrays = cached(self.name, place.folder, files, lambda: _leaf(train) | _leaf(test, "_test"))
        elif single := place.matching(*JSON):
            arrays = cached(self.name, place.folder, single, lambda: _leaf(single))
        elif tables:
            arrays = cached(self.name, place.folder, tables, lambda: _table(tables))
        else:
            raise place.missing(
                ["train/*.json", "test/*.json"],
                "or all of LEAF's *.json, or *.parquet with image, character, writer_id",
            )
        return _pool(self.name, arrays, self.characters, self.test_fraction, seed, Scaling((0.9641,), (0.1592,)))


def _table(paths: list[Path]) -> Arrays:
    table = read_image_table(paths, image="image", columns=["character", "writer_id"], side=28, color=False)
    return {
        "x": table["image"],
        "y": whole_numbers(table["character"], f"{paths[0]}: column character"),
        "writer": table["writer_id"].astype(str),
    }


@settings
class Chars74k:
    """Chars74K's hand-drawn characters: 55 writers, each of 62 characters once. A substitute for FEMNIST, not FEMNIST."""

    name: ClassVar[str] = "chars74k"
    model: ClassVar[str] = "mlp"
    path: str = ""
    """folder with LEAF JSON files; empty: chars74k-hnd under MANYHEADS_DATA"""
    characters: str = ""
    """only these, such as a-j; empty: all 62"""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """fraction of every class that is held out for tests"""

    def pool(self, seed: int) -> Pool:
        place = Location.of("chars74k-hnd", self.path)
        files = place.matching(*JSON)
        if not files:
            raise place.missing(["all_data.json.gz"])
        arrays = cached(self.name, place.folder, files, lambda: _leaf(files))
        return _pool(self.name, arrays, self.characters, self.test_fraction, seed, Scaling((0.7757,), (0.3874,)))
