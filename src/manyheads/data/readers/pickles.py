"""Pickled arrays without the danger of pickles: nothing is called but what rebuilds numpy arrays."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.errors import UserError
from manyheads.data.readers.content import content

__all__ = ["read_pickled_arrays"]


def _latin1(text: str, encoding: str) -> bytes:
    """How old protocols store bytes. Other codecs, which would import modules by name, are not offered."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"codec {encoding!r}")
    return text.encode("latin1")


_reconstruct: Any = np.empty(0).__reduce__()[0]
_scalar: Any = np.float64(0).__reduce__()[0]
ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "scalar"): _scalar,
    ("_codecs", "encode"): _latin1,
}
"""Lists, tuples, dicts, texts and numbers need no global: the format itself has them."""


class _ArraysOnly(pickle.Unpickler):
    def __init__(self, path: Path, raw: bytes) -> None:
        super().__init__(io.BytesIO(raw), encoding="bytes")  # written by Python 2
        self.path = path

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise UserError(
                f"{self.path} is refused: its pickle asks for {module}.{name}",
                allowed="numpy arrays, lists and dicts",
                fix="nothing of it was run; fetch the file from the dataset's own page, or use the binary version",
            )
        return ALLOWED[module, name]


def read_pickled_arrays(path: Path) -> Any:
    """What a pickle of arrays and plain containers holds; any other one is refused before it can do anything."""
    raw = content(path)
    try:
        return _ArraysOnly(path, raw).load()
    except UserError:
        raise
    except Exception as error:  # a broken pickle may fail in any way
        raise UserError(
            f"{path} is not a readable pickle: {error or type(error).__name__}", fix="fetch it again"
        ) from None
