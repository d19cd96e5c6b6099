"""Tables that are broken, hostile or written by people: each is read as it was meant, or refused in one line."""

from __future__ import annotations

import gzip
import io
import os
import socket
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyheads.data import content
from manyheads.data.sites.formats import MOST_COLUMNS
from manyheads.data.sites.tables import read_arrays, read_table


def npy(array) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def claiming(header: str) -> bytes:
    """An array file of this header and nothing behind it."""
    text = header.encode()
    text += b" " * (63 - (len(text) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text


def archive(path, **members: bytes):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return path


def refusal(path) -> str:
    """Why a file is not read, whoever asks."""
    table, problems = read_table(path)
    assert table is None
    assert len(problems) == 1
    assert "\n" not in str(problems[0])
    if path.suffix == ".npz":
        assert read_arrays(path)[0] is None
    return str(problems[0])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("before", ["", "\ufeff"])
@pytest.mark.parametrize("last", [True, False])
def test_lines_may_end_in_any_way(tmp_path, end, before, last):
    lines = ["a,label", "1,0", '"3",1']
    text = before + end.join(lines) + (end if last else "")
    (tmp_path / "a.csv").write_bytes(text.encode())
    table, problems = read_table(tmp_path / "a.csv")
    assert not problems
    assert {name: column.tolist() for name, column in table.columns.items()} == {"a": [1, 3], "label": [0, 1]}


def test_rows_are_counted_below_the_header_wherever_that_is(tmp_path):
    (tmp_path / "a.csv").write_text('\n\n"a\nb",label\n1,0\n2\n')
    assert "a.csv, row 2: has 1 values where the header has 2" in refusal(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a" * 200_000 + ",label\n1,0\n", "the header cannot be read"),
        ("a,label", "has no rows"),
        ("," * (MOST_COLUMNS + 1) + "\n1\n", "has no rows"),
        (",".join(f"c{i}" for i in range(MOST_COLUMNS + 1)) + "\n1\n", f"has {MOST_COLUMNS + 1} columns"),
        ("61,61,1\n50,40,0\n", "two columns have this name; the first line seems to hold values"),
        ("61,,1\n50,40,0\n", "column 2 has no name; the first line seems to hold values"),
    ],
    ids=["one long name", "only a header", "no names", "too many columns", "values twice", "a missing value"],
)
def test_headers_that_are_none(tmp_path, text, words):
    (tmp_path / "a.csv").write_text(text)
    assert words in refusal(tmp_path / "a.csv")


def test_a_wide_header_and_a_long_row_are_read(tmp_path):
    wide = ",".join(f"column_number_{i}" for i in range(10_000))  # more than 128 KB
    (tmp_path / "a.csv").write_text(f"{wide},note\n{','.join('1' * 10_000)},{'x' * 2_000_000}\n")
    table, _ = read_table(tmp_path / "a.csv")
    assert len(table.columns) == 10_001
    assert len(table.columns["note"][0]) == 2_000_000


def test_a_pipe_a_device_a_socket_and_a_link_to_nowhere_are_no_tables(tmp_path):
    for ending in ("csv", "csv.gz", "parquet", "npz"):
        os.mkfifo(tmp_path / f"pipe.{ending}")
        assert "not a file but a pipe" in refusal(tmp_path / f"pipe.{ending}")
    (tmp_path / "device.csv").symlink_to("/dev/zero")
    assert "not a file but a pipe, a device" in refusal(tmp_path / "device.csv")
    (tmp_path / "lost.csv").symlink_to("nowhere")
    assert "No such file" in refusal(tmp_path / "lost.csv")
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    assert "cannot be read" in refusal(tmp_path / "loop.csv")
    assert "too long" in refusal(tmp_path / f"{'x' * 300}.csv")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "s.csv"))
        assert "a socket" in refusal(tmp_path / "s.csv")


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 10), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (0, 2), }",
        "{'descr': 'V0', 'fortran_order': False, 'shape': (9999999, 2), }",
        "((((((((",
    ],
)
def test_an_array_that_claims_to_be_what_it_is_not(tmp_path, header):
    path = archive(tmp_path / "a.npz", x=claiming(header), y=npy(np.zeros(2)))
    assert "is not an NPZ file, or holds Python objects" in refusal(path)


def test_files_of_other_kinds_under_the_name_of_an_archive(tmp_path):
    (tmp_path / "a.npz").write_bytes(npy(np.zeros((2, 2))))
    assert "is not an NPZ file" in refusal(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes(b"PK\x03\x04" + bytes(40))
    assert "is not an NPZ file" in refusal(tmp_path / "b.npz")


def test_arrays_in_any_order_of_bytes_and_columns(tmp_path):
    x = np.arange(6.0).reshape(3, 2)
    path = archive(tmp_path / "a.npz", x=npy(np.asfortranarray(x).astype(">f8")), y=npy(np.arange(3, dtype=">i2")))
    (found, y), _ = read_arrays(path)
    assert np.array_equal(found, x)
    assert y.tolist() == [0, 1, 2]


def test_what_unpacks_to_more_than_the_memory_is_refused_before_it_does(tmp_path, monkeypatch):
    monkeypatch.setattr(content, "largest", lambda: 1_000_000)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,label\n" + b"0,1\n" * 1_000_000))
    assert "too much for the memory" in refusal(tmp_path / "a.csv.gz")
    (tmp_path / "b.csv").write_bytes(b"a,label\n" + b"0,1\n" * 100_000)  # small as text, not as numbers
    assert "too much for the memory" in refusal(tmp_path / "b.csv")
    path = archive(tmp_path / "a.npz", x=npy(np.zeros((1000, 1000))), y=npy(np.zeros(1000)))
    assert path.stat().st_size < 20_000
    assert "too much for the memory" in refusal(path)
    pq.write_table(pa.table({"a": np.zeros(500_000), "label": np.zeros(500_000)}), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 20_000
    assert "too much for the memory" in refusal(tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": ["long" * 100_000] * 10, "label": [0] * 10}), tmp_path / "b.parquet")
    assert "too much for the memory" in refusal(tmp_path / "b.parquet")


def test_control_characters_of_names_and_values_are_spelled_out(tmp_path):
    (tmp_path / "a\x1b[31m.csv").write_text("ag\x1b]0;x\x07e,label\n1,y\x1b[2J\n2,\u202en\n")
    table, _ = read_table(tmp_path / "a\x1b[31m.csv")
    assert list(table.columns) == [r"ag\x1b]0;x\x07e", "label"]
    assert table.columns["label"].tolist() == [r"y\x1b[2J", r"\u202en"]


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz", "csv.gz"])
def test_damage_anywhere_is_read_or_refused(tmp_path, ending):
    """Nothing but a table or a problem comes out, whatever bytes go in."""
    rng = np.random.default_rng(0)
    path = tmp_path / f"a.{ending}"
    text = "a,b,label\n" + "".join(f"{i},{i % 3},u{i % 2}\n" for i in range(20))
    if ending == "parquet":
        pq.write_table(pa.table({"a": np.arange(20), "label": ["u", "v"] * 10}), path)
    elif ending == "npz":
        archive(path, x=npy(rng.normal(size=(20, 2))), y=npy(np.array(["u", "v"] * 10)))
    else:
        path.write_bytes(gzip.compress(text.encode()) if ending == "csv.gz" else text.encode())
    whole = path.read_bytes()
    for _ in range(150):
        damaged = bytearray(whole[: rng.integers(1, len(whole) + 1)] if rng.random() < 0.3 else whole)
        for at in rng.integers(0, len(damaged), 3):
            damaged[at] = rng.integers(256)
        path.write_bytes(damaged)
        table, problems = read_table(path)
        assert (table is None) == any(p.severity == "error" for p in problems)
