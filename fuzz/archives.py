"""Sites as NPZ, Parquet and Excel files, one of them odd."""

from __future__ import annotations

import datetime
import decimal
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzz.damage import CHANGES

__all__ = ["as_npz", "as_parquet", "as_workbook"]


def as_npz(sites: Path, rng: Random) -> str:
    """All sites as NPZ, one of them odd."""
    _clear(sites)
    draw = np.random.default_rng(rng.randrange(2**32))
    for i in range(3):
        np.savez(sites / f"site{i}.npz", x=draw.normal(size=(12, 3)), y=np.arange(12) % 2)
    x, y = draw.normal(size=(12, 3)), np.arange(12) % 2
    odd: dict[str, Callable[[], Any]] = {
        "objects": lambda: {"x": np.array([[{}]] * 12, object), "y": y},
        "objects in y": lambda: {"x": x, "y": np.array(["a", None] * 6, object)},
        "text": lambda: {"x": x, "y": np.array(["a", "b"] * 6)},
        "bytes": lambda: {"x": x, "y": np.array([b"a", b"b"] * 6)},
        "complex": lambda: {"x": x * 1j, "y": y},
        "dates": lambda: {"x": x.astype("datetime64[s]"), "y": y},
        "scalar": lambda: {"x": np.float64(1), "y": np.int64(1)},
        "three dimensions": lambda: {"x": x[:, :, None], "y": y},
        "other length": lambda: {"x": x, "y": y[:5]},
        "no y": lambda: {"x": x},
        "more arrays": lambda: {"x": x, "y": y, "x0": y, "z": y},
        "empty": lambda: {"x": x[:0], "y": y[:0]},
        "no columns": lambda: {"x": x[:, :0], "y": y},
        "infinite": lambda: {"x": x * np.inf, "y": y},
        "half": lambda: {"x": x.astype(np.float16), "y": y.astype(bool)},
        "big ends": lambda: {"x": x.astype(">f8"), "y": y.astype(">i4")},
        "records": lambda: {"x": np.zeros(12, [("a", float), ("b", int)]), "y": y},
        "huge": lambda: {"x": np.full((12, 3), 1e308), "y": y * 2**62},
        "column order": lambda: {"x": np.asfortranarray(x), "y": y[::-1]},
        "one dimension": lambda: {"x": x[:, 0], "y": y},
    }
    how = rng.choice(
        [*odd, "an npy", "no zip", "cut", "header bomb", "zip bomb", "names", "flipped", "member is no array"]
    )
    path = sites / "site0.npz"
    if how in odd:
        np.savez(path, **odd[how]())
        return f"site0.npz: {how}"
    whole = path.read_bytes()
    if how == "an npy":
        with open(path, "wb") as file:
            np.save(file, x)
    elif how == "no zip":
        path.write_bytes(b"PK\x03\x04 but nothing more")
    elif how == "cut":
        path.write_bytes(whole[: rng.randrange(len(whole))])
    elif how == "flipped":
        at = rng.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
    elif how == "names":
        with zipfile.ZipFile(path, "w") as made:
            for name in ("../x.npy", "x.npy", "y", "/etc/y.npy", "a/b.npy"):
                made.writestr(name, _npy(x))
    elif how == "zip bomb":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("x.npy", _npy_header("(50000000, 3)") + bytes(10**8))
            made.writestr("y.npy", _npy(y))
    elif how == "header bomb":
        with zipfile.ZipFile(path, "w") as made:
            made.writestr(
                "x.npy",
                _npy_header(
                    rng.choice(["(10**9, 10**9)", "(1000000000000, 3)", "(-1, 3)", "(" * 300 + ")" * 300, "(12, 3)"])
                ),
            )
            made.writestr("y.npy", _npy(y))
    else:
        with zipfile.ZipFile(path, "w") as made:
            made.writestr("x.npy", b"hello")
            made.writestr("y.npy", _npy(y))
    return f"site0.npz: {how}"


def _npy(array: np.ndarray) -> bytes:
    made = io.BytesIO()
    np.save(made, array)
    return made.getvalue()


def _npy_header(shape: str) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def as_parquet(sites: Path, rng: Random) -> str:
    """All sites as Parquet, one of them odd. Written in Arrow's own types."""
    import pyarrow as pa
    from pyarrow import parquet

    _clear(sites)
    plain = {"age": [float(i % 5) for i in range(12)], "ward": ["a", "b", "c"] * 4, "label": ["ill", "well"] * 6}
    for i in range(3):
        parquet.write_table(pa.table(plain), sites / f"site{i}.parquet")
    odd: dict[str, Any] = {
        "nulls": pa.nulls(12),
        "lists": pa.array([[1.0, 2.0]] * 12),
        "structs": pa.array([{"a": 1}] * 12),
        "maps": pa.array([[("a", 1)]] * 12, pa.map_(pa.string(), pa.int64())),
        "dates": pa.array([datetime.date(2020, 1, 1)] * 12),
        "timestamps": pa.array([datetime.datetime(2020, 1, 1)] * 12, pa.timestamp("us", "UTC")),
        "durations": pa.array([datetime.timedelta(1)] * 12),
        "decimals": pa.array([decimal.Decimal("1.5")] * 12),
        "large decimals": pa.array([decimal.Decimal("9" * 60)] * 12, pa.decimal256(70)),
        "bytes": pa.array([b"\xff"] * 12),
        "codes": pa.array(["x", "y"] * 6).dictionary_encode(),
        "codes with gaps": pa.array(["x", None] * 6).dictionary_encode(),
        "booleans": pa.array([True, None] * 6),
        "unsigned": pa.array([2**64 - 1] * 12, pa.uint64()),
        "half": pa.array(np.arange(12).astype(np.float16)),
        "infinite": pa.array([float("inf"), float("nan")] * 6),
        "views": pa.array(["x", "y"] * 6, pa.large_string()),
    }
    how, column = rng.choice([*odd]), rng.choice([*plain])
    path = sites / "site0.parquet"
    form = rng.random()
    if form < 0.7:
        parquet.write_table(pa.table(plain | {column: odd[how]}), path)
        return f"site0.parquet: {column} of {how}"
    if form < 0.8:
        parquet.write_table(pa.table(plain).slice(0, 0), path)
        return "site0.parquet: no rows"
    data, what = rng.choice(CHANGES)(path.read_bytes(), rng)
    path.write_bytes(data)
    return f"site0.parquet: {what or 'unchanged'}"


def as_workbook(sites: Path, rng: Random) -> str:
    """All sites as workbooks of Excel, one of them odd: a cell, the sheets, or a part of the file."""
    _clear(sites)
    rows = [["age", "ward", "label"], *([i % 5, "abc"[i % 3], ["ill", "well"][i % 2]] for i in range(12))]
    for i in range(3):
        _workbook(sites / f"site{i}.xlsx", rows)
    path, form = sites / "site0.xlsx", rng.random()
    if form < 0.5:
        cell = rng.choice(WORKBOOK_CELLS)
        for row in rng.sample(rows, rng.choice([1, 1, 5, len(rows)])):
            row[rng.randrange(3)] = cell
        _workbook(path, rows, rng.choice([0, 0, 1, 3]))
        return f"site0.xlsx: cells such as {str(cell)[:40]!r}"
    if form < 0.6:
        _workbook(path, rows[: rng.choice([0, 1])])
        return "site0.xlsx: no rows"
    with zipfile.ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    name = rng.choice([*parts]) if form < 0.9 else ""
    if name:  # else the whole file
        parts[name], what = rng.choice(CHANGES)(parts[name], rng)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            for part, data in parts.items():
                packed.writestr(part, data)
    else:
        data, what = rng.choice(CHANGES)(path.read_bytes(), rng)
        path.write_bytes(data)
    return f"site0.xlsx {name}: {what or 'unchanged'}"


WORKBOOK_CELLS: list[Any] = [
    *(None, "", "NA", "#N/A", "#REF!", "=A1+1", "=", "TRUE", True, "1,5", "23%", 1e308, 10**30, -0.0, "x" * 30_000),
    *(datetime.date(2020, 1, 1), datetime.datetime(1900, 1, 1), datetime.time(12), datetime.timedelta(3), "03/04/2021"),
]


def _workbook(path: Path, rows: list[list[Any]], more_sheets: int = 0) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    for sheet in [book.active, *(book.create_sheet() for _ in range(more_sheets))]:
        for row in rows:
            sheet.append(row)
    book.save(path)


def _clear(sites: Path) -> None:
    for site in [*sites.iterdir()]:
        if not site.is_dir() or site.is_symlink():
            site.unlink()
