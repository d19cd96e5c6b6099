"""Image sets as sources: the real files where they are, tiny ones made by hand elsewhere, and the cache of arrays."""

from __future__ import annotations

import gzip
import hashlib
import json
import mmap
import os
import pickle
import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from real_data import DATA, real

from manyheads import UserError
from manyheads.data import SOURCES, Key, federate
from manyheads.data.public.cache import cached
from manyheads.data.public.characters import Chars74k, Femnist, character_classes
from manyheads.data.public.hub import DATASETS
from manyheads.data.public.images import Cifar10, Cifar100, Emnist, FashionMnist, ImageFolder, Mnist
from manyheads.data.public.locate import Location

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _places(tmp_path, monkeypatch):
    """No test sees the user's data or writes into the user's cache."""
    monkeypatch.setenv("MANYHEADS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MANYHEADS_DATA", raising=False)


def crc(array: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(array).data)


def is_mapped(array: np.ndarray | None) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def md5_of_records(x: np.ndarray, *labels: np.ndarray) -> str:
    """Of the bytes that the binary version of CIFAR has."""
    return hashlib.md5(
        np.column_stack([*(y.astype(np.uint8) for y in labels), x.reshape(len(x), -1)]).tobytes()
    ).hexdigest()


# the real files


@real("mnist")
def test_mnist_with_its_writers(monkeypatch):
    monkeypatch.setenv("MANYHEADS_DATA", str(DATA))
    pool = Mnist().pool(0)
    assert (pool.x.shape, pool.x_test.shape, pool.x.dtype) == ((60000, 1, 28, 28), (10000, 1, 28, 28), np.uint8)
    assert (crc(pool.x), crc(pool.x_test)) == (4083391318, 3838467927)
    assert np.bincount(pool.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(pool.y_test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    train, test = pool.keys["writer"][:60000], pool.keys["writer"][60000:]
    sizes, sizes_test = (np.unique(w, return_counts=True)[1] for w in (train, test))
    assert (len(sizes), sizes.min(), sizes.max(), np.median(sizes), (sizes >= 100).sum()) == (539, 19, 131, 116, 440)
    assert (len(sizes_test), sizes_test.min(), sizes_test.max()) == (297, 8, 130)
    assert not set(train) & set(test)
    assert pool.scaling is not None
    assert abs(pool.x.mean() / 255 - pool.scaling.mean[0]) < 1e-4
    assert abs(pool.x.std() / 255 - pool.scaling.std[0]) < 1e-4

    federation = federate(pool, Key(key="writer"), clients=0, seed=0)
    assert len(federation) == 539 + 297
    assert federation.train.sizes.sum() + federation.test.sizes.sum() == 70000
    assert federation.client_name(0).startswith("test-")


@real("cifar100")
def test_cifar100_is_the_original_to_the_byte(monkeypatch):
    pool = Cifar100(path=str(DATA / "cifar100")).pool(0)
    for part, x, y, md5 in (
        ("train", pool.x, pool.y, "6172c7755cfe09b2fe270c85cebc1b15"),
        ("test", pool.x_test, pool.y_test, "4499cfba6c016c1be1438163640a0898"),
    ):
        coarse = pq.read_table(DATA / "cifar100" / f"{part}.parquet", columns=["coarse_label"])[
            "coarse_label"
        ].to_numpy()
        assert md5_of_records(x, coarse, y) == md5
    assert set(np.bincount(pool.y)) == {500}
    assert set(np.bincount(pool.y_test)) == {100}
    assert pool.classes == 100
    assert pool.scaling is not None
    assert np.allclose(pool.x_test.mean(axis=(0, 2, 3)) / 255, pool.scaling.mean, atol=0.003)

    # the second time, nothing is decoded
    monkeypatch.setattr("manyheads.data.public.readers.parquet.decode", None)
    again = Cifar100(path=str(DATA / "cifar100")).pool(0)
    assert is_mapped(again.x)
    assert crc(again.x_test) == crc(pool.x_test)


@real("cifar10")
def test_cifar10_is_the_original_to_the_byte():
    pool = Cifar10(path=str(DATA / "cifar10")).pool(0)
    batches = [(pool.x[i : i + 10000], pool.y[i : i + 10000]) for i in range(0, 50000, 10000)]
    assert [md5_of_records(x, y) for x, y in [*batches, (pool.x_test, pool.y_test)]] == [
        "5dd7e06a14cb22eb9f671a540d1b7c25",
        "5ea93a67294ea407fff1d09f752e9692",
        "942cd6a4bcdd0dd3c604fbe906cb4421",
        "ae636b3ba5c66a11e91e8cb52e771fcb",
        "53f37980c15c3d472c316c40844f3f0d",
        "803d5f7f4d78ea53de84dbe85f74fb6d",
    ]
    assert set(np.bincount(pool.y)) == {5000}
    assert set(np.bincount(pool.y_test)) == {1000}


@real("chars74k-hnd")
def test_chars74k_by_writer_and_by_character(monkeypatch):
    monkeypatch.setenv("MANYHEADS_DATA", str(DATA))
    pool = Chars74k().pool(0)
    assert (len(pool.y), len(pool.y_test), pool.classes) == (62 * 44, 62 * 11, 62)
    raw = json.loads(gzip.decompress((DATA / "chars74k-hnd" / "all_data.json.gz").read_bytes()))
    expected = np.rint(np.array(raw["user_data"]["writer_07"]["x"]) * 255).astype(np.uint8)
    x, y = np.concatenate([pool.x, pool.x_test]), np.concatenate([pool.y, pool.y_test])
    own = pool.keys["writer"] == "writer_07"
    assert np.array_equal(
        x[own][np.argsort(y[own])].reshape(62, -1), expected[np.argsort(raw["user_data"]["writer_07"]["y"])]
    )
    assert crc(x[np.lexsort((y, pool.keys["writer"]))]) == 3093387460
    assert len(federate(pool, Key(), clients=0, seed=0)) == 55

    letters = Chars74k(characters="a-j").pool(0)
    assert (letters.classes, len(letters.y) + len(letters.y_test)) == (10, 550)
    a = np.concatenate([letters.x, letters.x_test])[np.concatenate([letters.y, letters.y_test]) == 0]
    assert {i.tobytes() for i in a} == {i.tobytes() for i in x[y == 36]}
    assert not np.array_equal(Chars74k().pool(1).x, pool.x)


# made by hand


def write_idx(path: Path, array: np.ndarray) -> None:
    code = 8 if array.dtype == np.uint8 else 12
    header = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    raw = header + array.astype(array.dtype.newbyteorder(">")).tobytes()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


def write_mnist(folder: Path, ending: str = "") -> tuple[np.ndarray, np.ndarray]:
    x, y = RNG.integers(0, 256, (6, 28, 28), dtype=np.uint8), np.array([0, 1, 2, 7, 8, 9], np.uint8)
    for part, rows in (("train", slice(4)), ("t10k", slice(4, 6))):
        write_idx(folder / f"{part}-images-idx3-ubyte{ending}", x[rows])
        write_idx(folder / f"{part}-labels-idx1-ubyte{ending}", y[rows])
    return x, y


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_fashion_mnist_and_mnist_without_writers(tmp_path, ending):
    x, y = write_mnist(tmp_path, ending)
    for source in (FashionMnist, Mnist):
        pool = source(path=str(tmp_path)).pool(0)
        assert np.array_equal(pool.x[:, 0], x[:4])
        assert np.array_equal(pool.x_test[:, 0], x[4:])
        assert np.concatenate([pool.y, pool.y_test]).tolist() == y.tolist()
        assert (pool.classes, pool.keys) == (10, {})


def test_writers_are_told_apart_between_train_and_test(tmp_path):
    _, y = write_mnist(tmp_path)
    facts = np.zeros((8, 8), np.int32)
    facts[:6, 0], facts[:, 2] = y, [5, 5, 17, 17, 5, 17, 1, 2]
    write_idx(tmp_path / "qmnist-train-labels-idx2-int", facts[:4])
    write_idx(tmp_path / "qmnist-test-labels-idx2-int", facts[4:])  # goes on after MNIST's own
    writers = Mnist(path=str(tmp_path)).pool(0).keys["writer"]
    assert writers.tolist() == ["train-0005"] * 2 + ["train-0017"] * 2 + ["test-0005", "test-0017"]
    facts[0, 0] = 3
    write_idx(tmp_path / "qmnist-train-labels-idx2-int", facts[:4])
    with pytest.raises(UserError, match="qmnist-train-labels-idx2-int does not belong to the MNIST labels"):
        Mnist(path=str(tmp_path)).pool(0)


def test_images_and_labels_of_different_lengths(tmp_path):
    write_mnist(tmp_path)
    write_idx(tmp_path / "train-labels-idx1-ubyte", np.zeros(3, np.uint8))
    with pytest.raises(UserError, match="train-labels-idx1-ubyte do not belong together; given '4 and 3 rows'"):
        Mnist(path=str(tmp_path)).pool(0)


def test_emnist_is_turned_and_its_letters_start_at_one(tmp_path):
    x = RNG.integers(0, 256, (3, 28, 28), dtype=np.uint8)
    (tmp_path / "gzip").mkdir()
    for part in ("train", "test"):
        write_idx(tmp_path / "gzip" / f"emnist-letters-{part}-images-idx3-ubyte.gz", x)
        write_idx(tmp_path / "gzip" / f"emnist-letters-{part}-labels-idx1-ubyte.gz", np.array([1, 2, 26], np.uint8))
    pool = Emnist(path=str(tmp_path), split="letters").pool(0)
    assert np.array_equal(pool.x[:, 0], x.transpose(0, 2, 1))
    assert (pool.y.tolist(), pool.classes) == ([0, 1, 25], 26)
    with pytest.raises(UserError, match="put emnist-balanced-train-images-idx3-ubyte.gz, .* into"):
        Emnist(path=str(tmp_path)).pool(0)


def test_cifar_in_all_its_forms_is_the_same(tmp_path):
    x, y = RNG.integers(0, 256, (6, 3072), dtype=np.uint8), np.array([0, 1, 2, 3, 4, 9], np.uint8)
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    python, binary = (tmp_path / f / f"cifar-10-batches-{f}" for f in ("py", "bin"))
    for folder in (python, binary):
        folder.mkdir(parents=True)
    for row, name in enumerate(names):
        (python / name).write_bytes(pickle.dumps({b"data": x[[row]], b"labels": [int(y[row])]}, 2))
        (binary / f"{name}.bin").write_bytes(bytes([y[row]]) + x[row].tobytes())
    for folder in (tmp_path / "py", tmp_path / "bin"):
        pool = Cifar10(path=str(folder)).pool(0)
        assert np.array_equal(np.concatenate([pool.x, pool.x_test]).reshape(6, -1), x)
        assert np.concatenate([pool.y, pool.y_test]).tolist() == y.tolist()
    (python / "data_batch_3").unlink()
    with pytest.raises(
        UserError, match="cifar10 is not there; put train.parquet, test.parquet into .*data_batch_5, test_batch"
    ):
        Cifar10(path=str(tmp_path / "py")).pool(0)


def test_cifar100_by_fine_and_by_coarse_label(tmp_path):
    record = bytes([7, 42]) + bytes(3072)
    for part in ("train", "test"):
        (tmp_path / f"{part}.bin").write_bytes(record * 2)
    fine, coarse = (Cifar100(path=str(tmp_path), labels=kind).pool(0) for kind in ("fine", "coarse"))
    assert (fine.y.tolist(), fine.classes) == ([42, 42], 100)
    assert (coarse.y.tolist(), coarse.classes) == ([7, 7], 20)


def leaf(path: Path, users: dict[str, list[int]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {u: {"x": [[min(label / 61, 1)] * 784 for label in y], "y": y} for u, y in users.items()}
    path.write_text(
        json.dumps({"users": list(users), "num_samples": [len(y) for y in users.values()], "user_data": data})
    )


def test_femnist_as_leaf_makes_it(tmp_path):
    leaf(tmp_path / "data" / "train" / "all_data_0_train_9.json", {"f0": [1, 36], "f1": [45]})
    leaf(tmp_path / "data" / "train" / "all_data_1_train_9.json", {"f2": [37]})
    leaf(tmp_path / "data" / "test" / "all_data_0_test_9.json", {"f0": [36], "f2": [2]})
    pool = Femnist(path=str(tmp_path)).pool(0)
    assert (pool.y.tolist(), pool.y_test.tolist(), pool.classes) == ([1, 36, 45, 37], [36, 2], 62)
    assert pool.keys["writer"].tolist() == ["f0", "f0", "f1", "f2", "f0", "f2"]
    assert pool.x[:, 0, 0, 0].tolist() == [round(label * 255 / 61) for label in pool.y]
    letters = Femnist(path=str(tmp_path), characters="a-j").pool(0)
    assert (letters.y.tolist(), letters.y_test.tolist(), letters.classes) == ([0, 9, 1], [0], 10)
    assert letters.keys["writer"].tolist() == ["f0", "f1", "f2", "f0"]


def test_femnist_without_a_test_part(tmp_path):
    leaf(tmp_path / "all_data_0.json", {"f0": [3] * 10, "f1": [4] * 10})
    pool = Femnist(path=str(tmp_path)).pool(0)
    assert (np.bincount(pool.y)[3:].tolist(), np.bincount(pool.y_test)[3:].tolist()) == ([9, 9], [1, 1])
    leaf(tmp_path / "all_data_0.json", {"f0": [62]})
    with pytest.raises(UserError, match="femnist: a label is out of range; given 62; allowed: 0 to 61"):
        Femnist(path=str(tmp_path)).pool(0)


def test_femnist_as_parquet(tmp_path):
    Image.new("L", (28, 28), 200).save(tmp_path / "x.png")
    cell = {"bytes": (tmp_path / "x.png").read_bytes(), "path": "x.png"}
    table = pa.table({"image": [cell] * 20, "character": [5] * 20, "writer_id": ["f7"] * 20, "hsf_id": [0] * 20})
    pq.write_table(table, tmp_path / "train-00000-of-00001.parquet")
    pool = Femnist(path=str(tmp_path)).pool(0)
    assert (pool.x.shape, pool.x_test.shape, set(pool.x.flat)) == ((18, 1, 28, 28), (2, 1, 28, 28), {200})
    assert set(pool.keys["writer"]) == {"f7"}


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("", [*range(62)]),
        ("0-9", [*range(10)]),
        ("a", [36]),
        ("z-z", [61]),
        ("A-Ca-c", [10, 11, 12, 36, 37, 38]),
        ("9-A", [9, 10]),
    ],
)
def test_characters_by_name(text, labels):
    assert character_classes(text) == labels


@pytest.mark.parametrize("text", ["-", "a-", "-a", "j-a", "ä", "aa", "a-cb", "a,b"])
def test_characters_that_are_none(text):
    with pytest.raises(UserError, match="data characters: (no such characters|a character is given twice)"):
        character_classes(text)


@pytest.mark.parametrize("color", [True, False])
def test_an_image_folder(tmp_path, color):
    for shade, name in enumerate(("cat", "dog")):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i in range(10):
            Image.new("RGB", (20 + i, 30), (100 * shade,) * 3).save(tmp_path / "pets" / name / f"{i}.png")
    pool = ImageFolder(path=str(tmp_path / "pets"), side=16, color=color).pool(0)
    assert (pool.x.shape, pool.x_test.shape) == ((16, 3 if color else 1, 16, 16), (4, 3 if color else 1, 16, 16))
    assert np.bincount(pool.y_test).tolist() == [2, 2]
    assert np.array_equal(pool.x[:, 0, 0, 0], pool.y * 100)


# what is not there


@pytest.mark.parametrize(
    "name", ["mnist", "fashion-mnist", "emnist", "femnist", "chars74k", "cifar10", "cifar100", "image-folder"]
)
def test_missing_data_says_what_to_put_where(tmp_path, monkeypatch, name):
    source = SOURCES[name]()
    with pytest.raises(UserError, match=r"no place to look for .*; set MANYHEADS_DATA"):
        source.pool(0)
    monkeypatch.setenv("MANYHEADS_DATA", str(tmp_path))
    with pytest.raises(UserError, match=rf"; put .* into .*{tmp_path}") as error:
        source.pool(0)
    assert "\n" not in str(error.value)
    downloads = name in DATASETS and bool(DATASETS[name].hub)
    assert (f"manyheads data get {name} --out {tmp_path}" in str(error.value)) == downloads
    with pytest.raises(UserError, match="no such folder: /not/here"):
        SOURCES[name](path="/not/here").pool(0)


def test_only_the_files_that_lack_are_named(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "t10k-images-idx3-ubyte").unlink()
    with pytest.raises(UserError, match=f"put t10k-images-idx3-ubyte.gz into {tmp_path}$"):
        Mnist(path=str(tmp_path)).pool(0)


def test_files_are_found_in_the_folders_that_archives_unpack_to(tmp_path):
    (tmp_path / "inner").mkdir()
    for path in ("inner/a", "inner/b.gz", "b"):
        (tmp_path / path).touch()
    place = Location.of("x", str(tmp_path), "inner", "absent")
    assert place.files(["a", "b"], endings=("", ".gz")) == [tmp_path / "inner" / "a", tmp_path / "b"]
    assert place.found(["a", "c"]) == []


# the cache


class Decoder:
    """Counts how often it is asked."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return {"x": np.arange(1000, dtype=np.uint8).reshape(10, 100), "writer": np.array(["a", "bcd"])}


def load(folder: Path, decode: Decoder, kind: str = "kind") -> dict[str, np.ndarray]:
    arrays = cached(kind, folder, [folder / "input"], decode)
    assert {n: a.tolist() for n, a in arrays.items()} == {n: a.tolist() for n, a in Decoder()().items()}
    return arrays


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "input").write_text("one")
    return folder


def test_arrays_are_made_once_and_then_mapped(source, tmp_path):
    decode = Decoder()
    for _ in range(3):
        arrays = load(source, decode)
        assert type(arrays["x"]) is np.ndarray
        assert is_mapped(arrays["x"])
        assert not arrays["x"].flags.writeable
    assert decode.calls == 1
    assert not list((tmp_path / "cache").rglob("*.tmp"))


def test_the_content_decides_not_the_place_nor_the_time(source, tmp_path):
    decode = Decoder()
    load(source, decode)
    os.utime(source / "input", (1, 1))
    load(source.rename(tmp_path / "moved"), decode)
    assert decode.calls == 1
    (tmp_path / "moved" / "input").write_text("two")
    load(tmp_path / "moved", decode)
    load(tmp_path / "moved", decode, "another-kind")
    assert decode.calls == 3


def _flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-5] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: _flip(entry / "x.npy"),
        lambda entry: (entry / "x.npy").write_bytes((entry / "x.npy").read_bytes()[:-50]),
        lambda entry: (entry / "x.npy").write_bytes(b""),
        lambda entry: np.save(entry / "x.npy", np.array([{}], dtype=object), allow_pickle=True),
        lambda entry: np.save(entry / "x.npy", np.arange(1000, dtype=np.uint8)),
        lambda entry: (entry / "writer.npy").unlink(),
        lambda entry: (entry / "index.json").unlink(),
        lambda entry: (entry / "index.json").write_text("{"),
        lambda entry: (entry / "index.json").write_text("[]"),
        lambda entry: (entry / "index.json").write_text("{}"),
    ],
)
def test_a_damaged_entry_is_made_anew(source, tmp_path, damage):
    decode = Decoder()
    load(source, decode)
    (entry,) = (tmp_path / "cache").iterdir()
    damage(entry)
    load(source, decode)
    load(source, decode)
    assert decode.calls == 2


def test_without_a_place_to_write_the_arrays_are_made_every_time(source, tmp_path, monkeypatch):
    monkeypatch.setenv("MANYHEADS_CACHE", str(source / "input" / "below-a-file"))
    decode = Decoder()
    load(source, decode)
    load(source, decode)
    assert decode.calls == 2
