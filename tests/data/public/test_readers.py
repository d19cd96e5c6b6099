"""Readers of public formats, on tiny files made by hand; whole, broken and hostile."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from manyheads import UserError
from manyheads.data.content import digest
from manyheads.data.public.readers import cifar
from manyheads.data.public.readers.idx import read_idx
from manyheads.data.public.readers.images import class_folders, decode_files
from manyheads.data.public.readers.leaf import leaf_images
from manyheads.data.public.readers.parquet import read_image_table
from manyheads.data.public.readers.pickles import read_pickled_arrays
from manyheads.data.public.readers.sent140 import read_sent140

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (2, 3072), dtype=np.uint8)
IDX_TYPES = {"u1": 8, "i1": 9, ">i2": 11, ">i4": 12, ">f4": 13, ">f8": 14}


def idx_bytes(array: np.ndarray) -> bytes:
    code = next(c for t, c in IDX_TYPES.items() if np.dtype(t) == array.dtype)
    return bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def encoded(image: np.ndarray, kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return buffer.getvalue()


# idx


@pytest.mark.parametrize("dtype", IDX_TYPES)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx_of_every_type_and_rank(tmp_path, dtype, pack):
    for shape in ((5,), (2, 3), (2, 3, 4), (0, 3)):
        array = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
        (tmp_path / "f").write_bytes(pack(idx_bytes(array)))
        read = read_idx(tmp_path / "f")
        assert read.dtype == np.dtype(dtype).newbyteorder("=")
        assert np.array_equal(read, array)
        assert read.shape == shape


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "not an idx file; given 'an empty file'"),
        (b"\x89PNG....", "not an idx file; given '89 50 4e 47'"),
        (b"\0\0\x07\x01\0\0\0\1a", "not an idx file"),
        (b"\0\0\x08\x01\0\0\0\5abc", "cut off; given '11 bytes'; allowed: 13 bytes"),
        (b"\0\0\x08\x01\0\0", "cut off"),
        (b"\0\0\x08\x01\0\0\0\2abc", "too long"),
        (gzip.compress(b"\0\0\x08\x01\0\0\0\5abcde", mtime=0)[:-9], "broken gzip file"),
        (b"\0\0\x08\x02\0\0\0\1\0\0\0\1a", "given '2 dimensions'; allowed: 1"),
    ],
)
def test_broken_idx_files_are_told_apart(tmp_path, raw, message):
    (tmp_path / "f").write_bytes(raw)
    with pytest.raises(UserError, match=message) as error:
        read_idx(tmp_path / "f", dimensions=1)
    assert str(tmp_path / "f") in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="f cannot be read: No such file"):
        read_idx(tmp_path / "f")


# CIFAR, pickled

PYTHON_2_BATCH = (
    b"\x80\x02}q\x00(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    b"(K\x01K\x02M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    b"\x89T" + struct.pack("<I", PIXELS.size) + PIXELS.tobytes() + b"tbU\x06labels](K\x03K\x07eu."
)
"""as the original batches: Python 2's strings, and numpy's module by its old name"""


@pytest.mark.parametrize("protocol", ["python 2", 0, 1, 2, 3, 4, 5])
def test_pickled_batches(tmp_path, protocol):
    batch = {"data": PIXELS, "labels": [3, 7], "filenames": ["a.png", "b.png"], "batch_label": "training batch 1 of 5"}
    raw = PYTHON_2_BATCH if protocol == "python 2" else pickle.dumps(batch, protocol)
    (tmp_path / "data_batch_1").write_bytes(raw)
    x, y = cifar.read_pickles([tmp_path / "data_batch_1"] * 2, "label")
    assert np.array_equal(x, np.concatenate([PIXELS, PIXELS]).reshape(4, 3, 32, 32))
    assert y.tolist() == [3, 7, 3, 7]


def test_pickled_batches_of_cifar100_have_two_labels(tmp_path):
    batch = {b"data": PIXELS, b"fine_labels": [90, 99], b"coarse_labels": np.array([18, np.int64(19)])}
    (tmp_path / "train").write_bytes(pickle.dumps(batch, 2))
    assert cifar.read_pickles([tmp_path / "train"], "fine_label")[1].tolist() == [90, 99]
    assert cifar.read_pickles([tmp_path / "train"], "coarse_label")[1].tolist() == [18, 19]


class Runs:
    """Pickles to a call."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    ("function", "name"),
    [(os.system, "system"), (eval, "eval"), (getattr, "getattr"), (np.load, "numpy.load"), (open, "open")],
)
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path, monkeypatch, protocol, function, name):
    monkeypatch.chdir(tmp_path)
    arguments = {os.system: ("touch pwned",), eval: ("open('pwned', 'w')",), open: ("pwned", "w")}.get(
        function, ("pwned",)
    )
    raw = pickle.dumps({"labels": Runs(function, *arguments), "data": PIXELS}, protocol)
    (tmp_path / "data_batch_1").write_bytes(raw)
    with pytest.raises(UserError, match=f"is refused: its pickle asks for .*{name}") as error:
        cifar.read_pickles([tmp_path / "data_batch_1"], "label")
    assert "\n" not in str(error.value)
    assert [p.name for p in tmp_path.iterdir()] == ["data_batch_1"]


DTYPE = b"cnumpy\ndtype\nU\x02%sK\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
BEGUN = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
TWICE = b"".join(b"q%c(h%ch%ct" % (i, i, i) for i in range(40))


@pytest.mark.parametrize(
    "raw",
    [
        b"cnumpy\nndarray\n(K\x01\x85" + DTYPE % b"O8" + b"U\x08AAAAAAAAtR.",  # pointers of its bytes
        b"cnumpy\nndarray\n(K\x01\x85" + DTYPE % b"u1" + b"U\x01AtR.",
        BEGUN + b"(K\x01K\x01\x85" + DTYPE % b"O8" + b"\x89](K\x01etb.",
        BEGUN + b"(K\x01K\x01\x85" + DTYPE % b"O8" + b"\x89U\x08AAAAAAAAtb.",
        BEGUN + b"(K\x01K\x09\x85" + DTYPE % b"u1" + b"\x89U\x08AAAAAAAAtb.",  # longer than its bytes
        BEGUN + b"(K\x01J\xff\xff\xff\xff\x85" + DTYPE % b"u1" + b"\x89U\x08AAAAAAAAtb.",
        BEGUN + b"(K\x01M\xff\xffM\xff\xffM\xff\xff\x87" + DTYPE % b"u8" + b"\x89U\x08AAAAAAAAtb.",
        BEGUN + b"}U\x01xK\x01sb.",  # a state of another kind
        b"cnumpy\ndtype\n}U\x01xK\x01sb.",
        b"cnumpy.core.multiarray\nscalar\n" + DTYPE % b"O8" + b"U\x08AAAAAAAA\x86R.",
        b"cnumpy\ndtype\nU\x02u1\x85R.",
        b"(K\x01" + TWICE + b"}h\x27K\x01s.",  # a key that takes for ever to hash
        b"\x94h\x00.",
        b"0.",
        b"tt.",
        b"",
    ],
)
def test_a_crafted_pickle_is_an_error_and_no_crash(tmp_path, raw):
    (tmp_path / "f").write_bytes(b"\x80\x02" + raw)
    with pytest.raises(UserError, match="f is not a readable pickle|f is refused|not a CIFAR batch"):
        cifar.read_pickles([tmp_path / "f"], "label")


def test_labels_that_hold_themselves_are_refused(tmp_path):
    (tmp_path / "f").write_bytes(b"}(U\x04data](q\x00h\x00eU\x06labels](q\x01h\x01eu.")
    with pytest.raises(UserError, match="not a CIFAR batch"):
        cifar.read_pickles([tmp_path / "f"], "label")


def test_codecs_other_than_that_of_bytes_are_refused(tmp_path):
    (tmp_path / "f").write_bytes(b"c_codecs\nencode\n(Vabc\nVrot13\ntR.")
    with pytest.raises(UserError, match="codec 'rot13'"):
        read_pickled_arrays(tmp_path / "f")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], "not a CIFAR batch; given 'not a dict'; allowed: data, labels"),
        ({"data": PIXELS}, "not a CIFAR batch; given 'data'"),
        ({"data": PIXELS, "labels": [1]}, "not a CIFAR batch; allowed: data of bytes"),
        ({"data": PIXELS.astype(float), "labels": [1, 2]}, "data of bytes"),
        ({"data": PIXELS, "labels": [1.5, 2]}, "whole numbers"),
    ],
)
def test_pickles_of_something_else(tmp_path, value, message):
    (tmp_path / "test_batch").write_bytes(pickle.dumps(value, 2))
    with pytest.raises(UserError, match=message):
        cifar.read_pickles([tmp_path / "test_batch"], "label")


def test_a_cut_off_pickle(tmp_path):
    (tmp_path / "test_batch").write_bytes(PYTHON_2_BATCH[:500])
    with pytest.raises(UserError, match="not a readable pickle"):
        cifar.read_pickles([tmp_path / "test_batch"], "label")


# CIFAR, binary and parquet


def test_binary_batches(tmp_path):
    (tmp_path / "one.bin").write_bytes(np.column_stack([np.array([3, 7], np.uint8), PIXELS]).tobytes())
    x, y = cifar.read_binary([tmp_path / "one.bin"], 1, 0)
    assert np.array_equal(x.reshape(2, -1), PIXELS)
    assert y.tolist() == [3, 7]
    (tmp_path / "two.bin").write_bytes(np.column_stack([np.array([[3, 30], [7, 70]], np.uint8), PIXELS]).tobytes())
    assert cifar.read_binary([tmp_path / "two.bin"], 2, 0)[1].tolist() == [3, 7]
    assert cifar.read_binary([tmp_path / "two.bin"], 2, 1)[1].tolist() == [30, 70]
    with pytest.raises(UserError, match="two.bin is cut off; given '6148 bytes'; allowed: a multiple of 3073"):
        cifar.read_binary([tmp_path / "two.bin"], 1, 0)


def image_table(path, kind="PNG", side=32, **columns):
    rows = len(next(iter(columns.values())))
    images = RNG.integers(0, 256, (rows, side, side, 3), dtype=np.uint8)
    cells = [{"bytes": encoded(i, kind), "path": None} for i in images]
    pq.write_table(pa.table({"img": pa.array(cells), **columns}), path)
    return images.transpose(0, 3, 1, 2)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_parquet_of_images_over_several_files(tmp_path, kind):
    parts = [image_table(tmp_path / f"{i}.parquet", kind, fine_label=[i, 5], coarse_label=[0, 1]) for i in (0, 1)]
    x, y = cifar.read_parquet([tmp_path / "0.parquet", tmp_path / "1.parquet"], "fine_label")
    assert np.array_equal(x, np.concatenate(parts))
    assert y.tolist() == [0, 5, 1, 5]


def test_broken_parquet_files(tmp_path):
    path = tmp_path / "train.parquet"
    image_table(path, label=[1])
    with pytest.raises(UserError, match="lacks a column; given 'img, label'; allowed: img, fine_label"):
        cifar.read_parquet([path], "fine_label")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match="not a readable parquet file"):
        cifar.read_parquet([path], "label")
    image_table(path, side=31, label=[1])
    with pytest.raises(UserError, match="image 0 has another size; given '31x31'; allowed: 32x32"):
        cifar.read_parquet([path], "label")
    pq.write_table(pa.table({"img": [b"no image"], "label": [1]}), path)
    with pytest.raises(UserError, match="train.parquet: image 0 cannot be decoded"):
        cifar.read_parquet([path], "label")
    pq.write_table(pa.table({"img": pa.array([None], pa.binary()), "label": [1]}), path)
    with pytest.raises(UserError, match="image 0 is empty"):
        cifar.read_parquet([path], "label")
    image_table(path, label=[1, None])
    with pytest.raises(UserError, match="column label has a row without a value"):
        cifar.read_parquet([path], "label")


def test_parquet_with_writers(tmp_path):
    image = RNG.integers(0, 256, (28, 28), dtype=np.uint8)
    cells = {"image": [{"bytes": encoded(image, "PNG"), "path": "x.png"}], "character": [61], "writer_id": ["f1_2"]}
    pq.write_table(pa.table(cells), tmp_path / "f.parquet")
    read = read_image_table(
        [tmp_path / "f.parquet"], image="image", columns=["character", "writer_id"], side=28, color=False
    )
    assert np.array_equal(read["image"], image[None, None])
    assert (read["character"].tolist(), read["writer_id"].tolist()) == ([61], ["f1_2"])


# LEAF


def leaf(path, users, /, **changes):
    table = {
        "users": list(users),
        "num_samples": [len(y) for _, y in users.values()],
        "user_data": {u: {"x": x, "y": y} for u, (x, y) in users.items()},
    }
    raw = json.dumps(table | changes).encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


WHITE, BLACK = [1.0] * 784, [0.0] * 784


def test_leaf_images_from_several_files(tmp_path):
    grey = [0.5] * 783 + [0.1]
    one = leaf(tmp_path / "a.json", {"f0": ([WHITE, grey], [1, 2]), "empty": ([], [])})
    two = leaf(tmp_path / "b.json.gz", {"f1": ([BLACK], [61])})
    x, y, users = leaf_images([one, two])
    assert (x.shape, x.dtype) == ((3, 1, 28, 28), np.uint8)
    assert [int(i.reshape(-1)[0]) for i in x] == [255, 128, 0]
    assert x[1, 0, 27, 27] == 26  # rounded, not cut
    assert (y.tolist(), users.tolist()) == ([1, 2, 61], ["f0", "f0", "f1"])


@pytest.mark.parametrize(
    ("users", "changes", "message"),
    [
        ({"f0": ([WHITE], [1, 2])}, {}, "user f0 has 1 inputs and 2 labels; allowed: num_samples, 2"),
        ({"f0": ([WHITE], [1])}, {"num_samples": [2]}, "user f0 has 1 inputs"),
        ({"f0": ([WHITE], [1])}, {"num_samples": []}, "num_samples does not fit users"),
        ({"f0": ([WHITE], [1])}, {"users": ["f9"]}, "user f9 has no x and y"),
        ({"f0": ([WHITE], [1])}, {"user_data": None}, "user f0 has no x and y"),
        ({"f0": ([WHITE[:700]], [1])}, {}, "user f0: images are not square"),
        ({"f0": ([WHITE, [1.0]], [1, 1])}, {}, "not lists of numbers of one length"),
        ({"f0": ([[2.0] * 784], [1])}, {}, "pixels are out of range; allowed: 0 to 1"),
        ({"f0": ([[float("nan")] * 784], [1])}, {}, "pixels are out of range"),
        ({"f0": ([WHITE], ["a"])}, {}, "labels must be 0, 1, 2"),
        ({"f0": ([WHITE], [-1])}, {}, "labels must be 0, 1, 2"),
        ({"f0": ([WHITE], [1]), "f1": ([[1.0] * 4], [1])}, {}, "user f1 have another size"),
        ({}, {}, "no samples"),
    ],
)
def test_broken_leaf_files(tmp_path, users, changes, message):
    with pytest.raises(UserError, match=message) as error:
        leaf_images([leaf(tmp_path / "all.json", users, **changes)])
    assert "all.json" in str(error.value)


def test_json_that_is_not_leaf(tmp_path):
    for text, message in (("{", "not valid JSON"), ("[]", "not LEAF data"), ('{"users": []}', "not LEAF data")):
        (tmp_path / "f.json").write_text(text)
        with pytest.raises(UserError, match=message):
            leaf_images([tmp_path / "f.json"])


# folders of images


def test_a_folder_of_images_per_class(tmp_path):
    for name, color in (("cat", (255, 0, 0)), ("dog", (0, 0, 255))):
        (tmp_path / name).mkdir()
        for i, (size, kind) in enumerate([((40, 20), "PNG"), ((8, 8), "GIF"), ((16, 16), "BMP")]):
            Image.new("RGB", size, color).save(tmp_path / name / f"{i}.{kind.lower()}")
        (tmp_path / name / "notes.txt").write_text("not an image")
    paths, labels, names = class_folders(tmp_path)
    assert (labels.tolist(), names) == ([0, 0, 0, 1, 1, 1], ["cat", "dog"])
    x = decode_files(paths, side=8, color=True)
    assert x.shape == (6, 3, 8, 8)
    assert [i.mean(axis=(1, 2)).tolist() for i in x] == [[255, 0, 0]] * 3 + [[0, 0, 255]] * 3
    assert decode_files(paths, side=8, color=False).shape == (6, 1, 8, 8)


def test_folders_without_images(tmp_path):
    with pytest.raises(UserError, match="holds no folder of images; put the images of each class into a folder"):
        class_folders(tmp_path)
    (tmp_path / "cat").mkdir()
    with pytest.raises(UserError, match="cat holds no image"):
        class_folders(tmp_path)
    (tmp_path / "cat" / "1.png").write_bytes(b"not a picture")
    with pytest.raises(UserError, match="1.png cannot be decoded"):
        decode_files(class_folders(tmp_path)[0], side=8, color=True)


def test_pixels_of_16_bits_are_scaled_and_those_of_32_refused(tmp_path):
    Image.fromarray(np.array([[0, 300], [30000, 65535]], np.uint16)).save(tmp_path / "deep.png")
    assert decode_files([tmp_path / "deep.png"], side=2, color=False).tolist() == [[[[0, 1], [117, 255]]]]
    Image.fromarray(np.ones((2, 2), np.float32)).save(tmp_path / "float.tiff")
    with pytest.raises(UserError, match="float.tiff has pixels of 32 bits; allowed: 8 or 16 bits"):
        decode_files([tmp_path / "float.tiff"], side=2, color=False)


def test_other_files_under_the_name_of_data(tmp_path):
    """Not one of the readers waits for a pipe, and none lets another error out."""
    for name in ("a.idx", "a.parquet", "a.json", "a.csv", "a.png"):
        os.mkfifo(tmp_path / name)
    for read in (
        lambda: read_idx(tmp_path / "a.idx"),
        lambda: cifar.read_parquet([tmp_path / "a.parquet"], "label"),
        lambda: leaf_images([tmp_path / "a.json"]),
        lambda: read_sent140(tmp_path),
        lambda: decode_files([tmp_path / "a.png"], side=2, color=False),
        lambda: digest(tmp_path / "a.csv"),
    ):
        with pytest.raises(UserError, match=r"a\.\w+ .*a pipe"):
            read()


def test_a_gzip_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("manyheads.data.content.largest", lambda: 1_000_000)
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(20_000_000)))
    with pytest.raises(UserError, match=r"a\.gz cannot be read: unpacked it has more than 0\.001 GB"):
        read_idx(tmp_path / "a.gz")


@pytest.mark.parametrize(
    "table",
    [
        {"users": 3, "num_samples": [1], "user_data": {}},
        {"users": ["u"], "num_samples": [1], "user_data": {"u": {"x": 3, "y": [1]}}},
        {"users": ["u"], "num_samples": [1], "user_data": {"u": {"x": [[1, 0, 0, 1]], "y": "1"}}},
        {"users": ["u"], "num_samples": [2], "user_data": {"u": {"x": [[0, 0, 0, 1]] * 2, "y": [[1], [1, 2]]}}},
        {"users": ["u"], "num_samples": [1], "user_data": {"u": {"x": [[0, 0, 0, 10**400]], "y": [1]}}},
        {"users": [["u"]], "num_samples": [1], "user_data": {}},
        [],
    ],
)
def test_leaf_files_of_another_shape(tmp_path, table):
    (tmp_path / "a.json").write_text(json.dumps(table))
    with pytest.raises(UserError, match=r"a\.json"):
        leaf_images([tmp_path / "a.json"])


@pytest.mark.parametrize(
    "columns",
    [
        {"img": [1, 2], "label": [0, 1]},
        {"img": [{"path": "x"}] * 2, "label": [0, 1]},
        {"img": [b"\x89PNG\r\n\x1a\n broken"] * 2, "label": [0, 1]},
    ],
)
def test_tables_of_no_images(tmp_path, columns):
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a\.parquet"):
        cifar.read_parquet([tmp_path / "a.parquet"], "label")


@pytest.mark.parametrize("labels", [["a", "b"], [0.5, 1.5], [[1], [2, 3]], [-1, 0]])
def test_labels_of_images_are_whole_numbers(tmp_path, labels):
    image_table(tmp_path / "a.parquet", label=labels)
    with pytest.raises(UserError, match=r"a\.parquet: column label"):
        cifar.read_parquet([tmp_path / "a.parquet"], "label")
