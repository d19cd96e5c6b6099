"""A federation on disk: a folder with one NPY file per array, and ``federation.json`` for everything else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.files import kind_of, replacing, write_text
from manyheads.core.plain import to_json
from manyheads.data.content import content
from manyheads.data.samples import Samples

__all__ = ["read_folder", "write_folder"]

SCHEMA = 1
FACTS = "federation.json"
PARTS = ("x", "y", "offsets")
KNOWN = tuple(field.name for field in fields(Samples) if field.name not in PARTS)
"""arrays that only some samples have"""


def write_folder(folder: Path, splits: Mapping[str, Samples], facts: Mapping[str, Any]) -> Path:
    """Write each split's arrays, then the facts."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {split: [part for part in KNOWN if getattr(s, part) is not None] for split, s in splits.items()}
    for split, samples in splits.items():
        for part in (*PARTS, *known[split]):
            with replacing(folder / f"{split}.{part}.npy") as temporary, open(temporary, "wb") as file:
                np.save(file, getattr(samples, part), allow_pickle=False)
    write_text(folder / FACTS, to_json({"schema": SCHEMA, **facts, "splits": list(splits), "known": known}))
    return folder


@contextmanager
def read_folder(folder: Path) -> Iterator[tuple[dict[str, Samples], dict[str, Any]]]:
    """The splits, their arrays memory-mapped, and the facts; an error while they are used is one that names the folder."""
    if not kind_of(folder / FACTS):
        raise UserError(f"{folder} holds no federation", fix=f"expected {FACTS} there, as written by Federation.save")
    raw = content(folder / FACTS)
    try:
        facts = json.loads(raw)
        parts = {split: (*PARTS, *facts.get("known", {}).get(split, ())) for split in facts["splits"]}
        yield {s: Samples(**{p: _array(folder, f"{s}.{p}.npy") for p in parts[s]}) for s in parts}, facts
    except UserError:
        raise
    except Exception as error:  # a damaged file may fail in any way: missing keys, other types, other shapes
        raise UserError(
            f"{folder} is not a readable federation: {type(error).__name__} {error}", fix="save it again"
        ) from None


def _array(folder: Path, name: str) -> np.ndarray:
    try:
        return np.load(folder / name, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{folder} lacks a part: {error}") from None
