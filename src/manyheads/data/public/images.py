"""Image datasets: bytes [N, C, H, W], decoded once and memory-mapped.

A dataset is in ``path``, or in the folder of its name under ``MANYHEADS_DATA``.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.settings import settings
from manyheads.data.encoding import Scaling
from manyheads.data.pool import Pool, hold_out
from manyheads.data.public.cache import Arrays, cached
from manyheads.data.public.characters import character_classes
from manyheads.data.public.locate import Location
from manyheads.data.public.readers import cifar
from manyheads.data.public.readers.idx import read_idx
from manyheads.data.public.readers.images import class_folders, decode_files

__all__ = ["Cifar10", "Cifar100", "Emnist", "FashionMnist", "ImageFolder", "Mnist"]

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CIFAR10_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FASHION_NAMES = (
    "t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
QMNIST = ("qmnist-train-labels-idx2-int", "qmnist-test-labels-idx2-int")


def _parts(arrays: Arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return arrays["x"], arrays["y"], arrays["x_test"], arrays["y_test"]


def _idx_arrays(place: Location, names: tuple[str, ...], kind: str) -> Arrays:
    """Training and test images and labels from four idx files."""
    files = place.files(names, endings=("", ".gz"))

    def decode() -> Arrays:
        arrays: Arrays = {}
        for part, images, labels in (("", files[0], files[1]), ("_test", files[2], files[3])):
            x, y = read_idx(images, dimensions=3), read_idx(labels, dimensions=1)
            if len(x) != len(y):
                raise UserError(
                    f"{images} and {labels.name} do not belong together", given=f"{len(x)} and {len(y)} rows"
                )
            arrays |= {f"x{part}": x[:, None], f"y{part}": y.astype(np.int64)}
        return arrays

    return cached(kind, place.folder, files, decode)


@settings
class Mnist:
    """MNIST, 70,000 handwritten digits of 28x28; with QMNIST's labels in its folder, writers are natural clients."""

    name: ClassVar[str] = "mnist"
    keys_need: ClassVar[dict[str, str]] = {
        "writer": "qmnist-train-labels-idx2-int.gz and qmnist-test-labels-idx2-int.gz"
    }
    """the files that a kind of natural clients needs"""
    model: ClassVar[str] = "mlp"
    path: str = ""
    """folder with the idx files; empty: mnist under MANYHEADS_DATA"""
    digits: str = ""
    """only these, such as 0-4, relabelled from 0; empty: all"""

    def pool(self, seed: int) -> Pool:
        place = Location.of(self.name, self.path)
        arrays = _idx_arrays(place, IDX, self.name)
        pool = Pool(
            self.name,
            *_parts(arrays),
            classes=10,
            keys=_writers(place, arrays),
            scaling=Scaling((0.1307,), (0.3081,)),
            own_test=True,
        )
        return pool.only(_digits(self.digits)) if self.digits else pool


def _digits(wanted: str) -> list[int]:
    labels = character_classes(wanted)
    if max(labels) > 9:
        raise UserError("no such digits", where="data digits", given=wanted, allowed="such as 0-4, or 579")
    return labels


def _writers(place: Location, arrays: Arrays) -> dict[str, np.ndarray]:
    """Each digit's writer, if the QMNIST labels are there. Training and test digits have different writers."""
    if not place.has(QMNIST, endings=("", ".gz")):
        return {}
    writers = []
    for part, file in zip(("", "_test"), place.files(QMNIST, endings=("", ".gz")), strict=True):
        digits = arrays[f"y{part}"]
        facts = read_idx(file, dimensions=2)[: len(digits)]  # QMNIST has more test digits than MNIST
        if len(facts) != len(digits) or facts.shape[1] < 3 or not np.array_equal(facts[:, 0], digits):
            raise UserError(f"{file} does not belong to the MNIST labels in its folder")
        writers.append(np.char.add("test-" if part else "train-", np.char.zfill(facts[:, 2].astype(str), 4)))
    return {"writer": np.concatenate(writers)}


@settings
class FashionMnist:
    """Fashion-MNIST, 70,000 grey images of clothing of 28x28, 10 classes."""

    name: ClassVar[str] = "fashion-mnist"
    model: ClassVar[str] = "mlp"
    path: str = ""
    """folder with the idx files; empty: fashion-mnist under MANYHEADS_DATA"""

    def pool(self, seed: int) -> Pool:
        arrays = _idx_arrays(Location.of(self.name, self.path), IDX, self.name)
        scaling = Scaling((0.2860,), (0.3530,))
        return Pool(self.name, *_parts(arrays), classes=10, scaling=scaling, label_names=FASHION_NAMES, own_test=True)


_MERGED = string.digits + string.ascii_uppercase + "abdefghnqrt"
EMNIST_CLASSES = {
    "byclass": string.digits + string.ascii_letters.swapcase(),
    "bymerge": _MERGED,
    "balanced": _MERGED,
    "letters": string.ascii_lowercase,
    "digits": string.digits,
    "mnist": string.digits,
}
"""the classes of each split, in the order of their labels"""


@settings
class Emnist:
    """EMNIST, handwritten digits and letters of 28x28, without their writers."""

    name: ClassVar[str] = "emnist"
    model: ClassVar[str] = "mlp"
    path: str = ""
    """folder with the idx files; empty: emnist under MANYHEADS_DATA"""
    split: Literal["byclass", "bymerge", "balanced", "letters", "digits", "mnist"] = "balanced"
    """which of EMNIST's splits"""

    def pool(self, seed: int) -> Pool:
        place = Location.of(self.name, self.path, "gzip")
        names = tuple(
            f"emnist-{self.split}-{part}-{what}"
            for part in ("train", "test")
            for what in ("images-idx3-ubyte", "labels-idx1-ubyte")
        )
        arrays = _idx_arrays(place, names, self.name)
        # images are stored transposed, and the labels of letters begin at 1
        first = 1 if self.split == "letters" else 0
        turned = {k: v.swapaxes(2, 3) if k.startswith("x") else v - first for k, v in arrays.items()}
        names = tuple(EMNIST_CLASSES[self.split])
        scaling = Scaling((0.1736,), (0.3317,))
        return Pool(self.name, *_parts(turned), classes=len(names), scaling=scaling, label_names=names, own_test=True)


def _cifar_arrays(place: Location, label: str, column: tuple[int, int], batches: dict[str, list[str]]) -> Arrays:
    """From whichever files are there: parquet, Python batches, or binary batches.

    ``column`` is the number of label bytes in a binary record, and which of them is the label.
    """
    forms: list[tuple[dict[str, list[Path]], Callable[[list[Path]], cifar.Part]]] = [
        ({p: place.matching(f"{p}*.parquet") for p in batches}, lambda paths: cifar.read_parquet(paths, label)),
        ({p: place.found(names) for p, names in batches.items()}, lambda paths: cifar.read_pickles(paths, label)),
        (
            {p: place.found([f"{n}.bin" for n in names]) for p, names in batches.items()},
            lambda paths: cifar.read_binary(paths, *column),
        ),
    ]
    there = [(files, read) for files, read in forms if all(files.values())]
    if not there:
        names = ", ".join(chain(*batches.values()))
        raise place.missing(["train.parquet", "test.parquet"], f"or the Python batches {names}, or the same as .bin")
    files, read = there[0]

    def decode() -> Arrays:
        (x, y), (x_test, y_test) = (read(files[part]) for part in ("train", "test"))
        return {"x": x, "y": y, "x_test": x_test, "y_test": y_test}

    return cached(f"{place.name}-{label}", place.folder, list(chain(*files.values())), decode)


@settings
class Cifar10:
    """CIFAR-10, 60,000 colour images of 32x32."""

    name: ClassVar[str] = "cifar10"
    model: ClassVar[str] = "cnn-cifar10"
    path: str = ""
    """folder with the parquet files, Python batches or binary batches; empty: cifar10 under MANYHEADS_DATA"""

    def pool(self, seed: int) -> Pool:
        place = Location.of(self.name, self.path, "plain_text", "cifar-10-batches-py", "cifar-10-batches-bin")
        batches = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
        arrays = _cifar_arrays(place, "label", (1, 0), batches)
        scaling = Scaling((0.49140, 0.48216, 0.44653), (0.24703, 0.24349, 0.26159))
        return Pool(self.name, *_parts(arrays), classes=10, scaling=scaling, label_names=CIFAR10_NAMES, own_test=True)


@settings
class Cifar100:
    """CIFAR-100, 60,000 colour images of 32x32."""

    name: ClassVar[str] = "cifar100"
    model: ClassVar[str] = "cnn-cifar100"
    path: str = ""
    """folder with the parquet files, Python batches or binary batches; empty: cifar100 under MANYHEADS_DATA"""
    labels: Literal["fine", "coarse"] = "fine"
    """100 classes, or their 20 groups"""

    def pool(self, seed: int) -> Pool:
        place = Location.of(self.name, self.path, "cifar100", "cifar-100-python", "cifar-100-binary")
        fine = self.labels == "fine"
        batches = {"train": ["train"], "test": ["test"]}
        arrays = _cifar_arrays(place, f"{self.labels}_label", (2, int(fine)), batches)
        scaling = Scaling((0.50708, 0.48655, 0.44092), (0.26733, 0.25644, 0.27615))
        return Pool(self.name, *_parts(arrays), classes=100 if fine else 20, scaling=scaling, own_test=True)


@settings
class ImageFolder:
    """Your own images: a folder with one subfolder per class. All are resized to one size."""

    name: ClassVar[str] = "image-folder"
    model: ClassVar[str] = "mlp"
    path: str = ""
    """folder with one subfolder per class; empty: image-folder under MANYHEADS_DATA"""
    side: Annotated[int, Field(ge=1, le=1024)] = 32
    """width and height in pixels"""
    color: bool = True
    """in colour (RGB), or in grey"""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """fraction of every class that is held out for the clients' tests"""

    def pool(self, seed: int) -> Pool:
        place = Location.of(self.name, self.path)
        paths, y, names = class_folders(place.folder)
        kind = f"{self.name}-{self.side}-{'rgb' if self.color else 'grey'}"
        x = cached(kind, place.folder, paths, lambda: {"x": decode_files(paths, side=self.side, color=self.color)})["x"]
        test = hold_out(y, self.test_fraction, len(names), seed)
        half = (0.5,) * x.shape[1]
        scaling = Scaling(half, half)
        return Pool(
            self.name, x[~test], y[~test], x[test], y[test], len(names), scaling=scaling, label_names=tuple(names)
        )
