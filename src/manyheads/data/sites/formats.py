"""Read the columns of a CSV, Parquet or NPZ file, as arrays of the format's own types."""

from __future__ import annotations

import csv
import io
import math
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from manyheads.core.words import quoted
from manyheads.data.content import check_size, unpacked
from manyheads.data.sites.decoding import decoded
from manyheads.data.sites.problems import Unreadable, and_more
from manyheads.data.sites.values import like_values

__all__ = ["Found", "check_names", "load_npz", "read_csv", "read_npz", "read_parquet"]

MOST_COLUMNS = 100_000


class Found(NamedTuple):
    """The columns of a file, and what was assumed to read them: messages, each with its fix."""

    columns: dict[str, Any]
    assumed: tuple[tuple[str, str], ...] = ()


def read_csv(path: Path) -> Found:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    text, encoding = decoded(unpacked(path))
    if not text.endswith(("\n", "\r")):
        text += "\n"
    names, delimiter, lines = _header(text, tabs=path.name.endswith((".tsv", ".tsv.gz")))
    if not names:
        return Found({})
    content = text.encode()
    check_size(8 * sum(text.count(end) for end in (delimiter, "\n", "\r")))

    uneven: list[Any] = []

    def note(row: Any) -> str:
        uneven.append(row)
        return "skip"

    places = [str(i) for i in range(len(names))]
    table = arrow_csv.read_csv(
        pa.BufferReader(content),
        # with one thread the reader knows the number of a bad row; with one block no row is too long for it
        arrow_csv.ReadOptions(
            column_names=places, skip_rows=lines, use_threads=False, block_size=min(len(content) + 1, 2**31 - 1)
        ),
        arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=note),
        arrow_csv.ConvertOptions(column_types=dict.fromkeys(places, pa.string())),
    )
    if uneven:
        raise Unreadable(
            f"has {uneven[0].actual_columns} values where the header has {len(names)}{and_more(uneven)}",
            "complete the row, or put quotes around a value that holds the delimiter",
            uneven[0].number - lines,  # the reader's number includes the header
        )
    assumed = ((encoding, "if letters are wrong, save it in UTF-8"),) if encoding else ()
    return Found(dict(zip(names, table.columns, strict=True)), assumed)


def _header(text: str, tabs: bool) -> tuple[list[str], str, int]:
    """The names of the columns, the delimiter (a tab, if ``tabs``), and the number of lines up to the end of the header."""
    first = next((line for line in io.StringIO(text, newline="") if line.strip()), "")
    delimiter = "\t" if tabs else max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        names = next((row for row in reader if "".join(row).strip()), [])
    except csv.Error as error:
        raise Unreadable(
            f"the header cannot be read: {error}", "write the columns' names into the first line"
        ) from None
    names = [name.strip() for name in names]
    check_names(names, "the first line")
    return names, delimiter, reader.line_num


def read_parquet(path: Path) -> Found:
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(str(path)) as file:
        names = file.schema_arrow.names
        check_names(names)
        check_size(8 * file.metadata.num_rows * len(names))
        batches, size = [], 0
        for batch in file.iter_batches(batch_size=4096):
            batches.append(batch)
            check_size(size := size + batch.nbytes)
        table = pa.Table.from_batches(batches, file.schema_arrow)
    return Found(dict(zip(names, table.columns, strict=True)))


def load_npz(path: Path, needed: Sequence[str]) -> dict[str, np.ndarray]:
    fix = "save plain arrays of numbers or text: np.savez(file, x=x, y=y)"
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
            check_size(sum(m.file_size for m in members))
            for member in members:
                with archive.open(member) as file:
                    arrays[member.filename.removesuffix(".npy")] = _read_npy(file, member.file_size)
    except OSError:
        raise
    except Exception:  # a broken archive may fail in any way, and numpy's message advises allow_pickle
        raise Unreadable("is not an NPZ file, or holds Python objects", fix) from None
    if not arrays.keys() >= set(needed):
        raise Unreadable(
            f"holds the arrays {quoted(*arrays) or 'none'}",
            "save x (one row per sample) and y: np.savez(file, x=x, y=y)",
        )
    return arrays


def _read_npy(file: IO[bytes], size: int) -> np.ndarray:
    """An NPY array, after a check that the size its header declares is the size of the file."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, columns_first, dtype = read(file)
    if dtype.hasobject or file.tell() + math.prod(shape) * dtype.itemsize != size:
        raise ValueError("Python objects, or another size than the header declares")
    flat = np.frombuffer(file.read(), dtype)
    array = flat.reshape(shape, order="F" if columns_first else "C")
    return array.astype(dtype.newbyteorder("="))


def read_npz(path: Path, labelled: bool) -> Found:
    arrays = load_npz(path, ("x", "y") if labelled else ("x",))
    x = arrays.pop("x")
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2:
        raise Unreadable(f"x has {x.ndim} dimensions", "x needs 2, one row per sample: x.reshape(len(x), -1)")
    for name, array in arrays.items():
        if array.shape != (len(x),):
            raise Unreadable(
                f"{name} has the shape {array.shape}", f"it needs one value for each of {len(x)} rows of x"
            )
    if x.shape[1] > MOST_COLUMNS:
        raise Unreadable(f"x has {x.shape[1]} columns", f"at most {MOST_COLUMNS} are read")
    check_names([*(f"x{i}" for i in range(x.shape[1])), *arrays])
    return Found({f"x{i}": x[:, i] for i in range(x.shape[1])} | arrays)


def check_names(names: Sequence[str], place: str = "") -> None:
    """Refuse too many, empty or repeated names; ``place`` is where names are, if it may hold values by mistake."""
    if len(names) > MOST_COLUMNS:
        raise Unreadable(f"has {len(names)} columns", f"at most {MOST_COLUMNS} are read")
    values = f"; {place} seems to hold values, not names" if place and like_values(names) else ""
    header = "is the header missing? Write the columns' names there" if values else ""
    for number, name in enumerate(names, 1):
        if not name:
            fix = header or "name it; pandas writes such a column unless told index=False"
            raise Unreadable(f"column {number} has no name{values}", fix)
    double = [n for n, count in Counter(names).items() if count > 1]
    if double:
        raise Unreadable(f"two columns have this name{values}", header or "rename one of them", column=double[0])
