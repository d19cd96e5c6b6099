"""The files of published datasets: which each needs, whether they are there, copies, and download from the hub.

A file is written atomically and its checksum recorded, so that an interrupted download continues with the next file.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.errors import UserError, one_of
from manyheads.core.files import kind_of, replacing, write_text, writing
from manyheads.data.content import content, digest
from manyheads.data.paths import home
from manyheads.data.public.hospitals import UPDRS, heart_files, parkinsons_files
from manyheads.data.public.locate import HUB
from manyheads.data.public.tcga import PATIENTS, SPLIT, TABLE, tcga_files

__all__ = ["CHECKSUMS", "DATASETS", "Dataset", "fetch", "is_there"]

CHECKSUMS = "SHA256SUMS"
"""the file of checksums, in the format of ``sha256sum -c``"""
Load = Callable[[str, str], Any]
"""from a dataset on the hub and a split to rows, with a method ``to_parquet``"""
Write = Callable[[Any, Path], None]


def _parquet(rows: Any, path: Path) -> None:
    rows.to_parquet(str(path))


def _bytes(content: bytes, path: Path) -> None:
    path.write_bytes(content)


def _idx_images(rows: Iterable[Any], path: Path) -> None:
    _write_idx(path, np.stack([np.asarray(row["image"], dtype=np.uint8) for row in rows]))


def _idx_labels(rows: Iterable[Any], path: Path) -> None:
    _write_idx(path, np.array([row["label"] for row in rows], dtype=np.uint8))


def _write_idx(path: Path, array: np.ndarray) -> None:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">i4").tobytes()
    with open(path, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
        packed.write(header + array.tobytes())


@dataclass(frozen=True)
class Dataset:
    """A dataset's files: one of ``forms``, which are patterns of names to match in the folder and below it."""

    folder: str
    forms: tuple[tuple[str, ...], ...]
    needs: str
    """the files in words, for users who download them by hand"""
    hub: str = ""
    """name on the hub; empty: it must be downloaded by hand"""
    makes: tuple[tuple[str, str, Write], ...] = ()
    """file, split and writer of each file made from the hub's rows"""
    copies: Callable[[Path], Mapping[str, bytes]] | None = None
    """the files' content, from the package or a copy on this machine, perhaps in the folder; None: from the hub"""


_IDX = (
    ("train-images-idx3-ubyte.gz", "train", _idx_images),
    ("train-labels-idx1-ubyte.gz", "train", _idx_labels),
    ("t10k-images-idx3-ubyte.gz", "test", _idx_images),
    ("t10k-labels-idx1-ubyte.gz", "test", _idx_labels),
)
_IDX_FORM = tuple(name.removesuffix(".gz") + "*" for name, _, _ in _IDX)
_TABLES = (("train.parquet", "train", _parquet), ("test.parquet", "test", _parquet))
_TABLES_FORM = ("train*.parquet", "test*.parquet")
_IDX_NEEDS = ", ".join(name for name, _, _ in _IDX)

DATASETS: dict[str, Dataset] = {
    "mnist": Dataset(
        "mnist",
        (_IDX_FORM,),
        f"{_IDX_NEEDS} (for clients by writer, also qmnist-train-labels-idx2-int.gz and qmnist-test-labels-idx2-int.gz)",
        HUB["mnist"],
        _IDX,
    ),
    "fashion-mnist": Dataset("fashion-mnist", (_IDX_FORM,), _IDX_NEEDS, HUB["fashion-mnist"], _IDX),
    "emnist": Dataset(
        "emnist",
        (("emnist-*-train-images-idx3-ubyte*", "emnist-*-test-images-idx3-ubyte*"),),
        "emnist-balanced-train-images-idx3-ubyte.gz, the same with labels-idx1, and both with test, from NIST's gzip.zip",
    ),
    "cifar10": Dataset(
        "cifar10",
        (_TABLES_FORM, ("data_batch_1*", "test_batch*")),
        "train.parquet and test.parquet of huggingface.co/datasets/uoft-cs/cifar10, or the folder cifar-10-batches-py",
        HUB["cifar10"],
        _TABLES,
    ),
    "cifar100": Dataset(
        "cifar100",
        (_TABLES_FORM, ("train", "test"), ("train.bin", "test.bin")),
        "train.parquet and test.parquet of huggingface.co/datasets/uoft-cs/cifar100, or the folder cifar-100-python",
        HUB["cifar100"],
        _TABLES,
    ),
    "femnist": Dataset(
        "femnist",
        (("*.parquet",), ("*.json*",)),
        "the parquet files of huggingface.co/datasets/flwrlabs/femnist, or LEAF's train/*.json and test/*.json",
        HUB["femnist"],
        (("train.parquet", "train", _parquet),),
    ),
    "chars74k": Dataset("chars74k-hnd", (("*.json*",),), "all_data.json.gz, the hand-drawn characters in LEAF's form"),
    "sent140": Dataset(
        "sent140",
        (("*.csv*",), ("*.json*",)),
        "training.1600000.processed.noemoticon.csv of Sentiment140, or LEAF's JSON files",
    ),
    "heart": Dataset("heart", ((),), "nothing: it comes with the package", copies=heart_files),
    "parkinsons": Dataset("parkinsons", (("subject*.csv",),), f"UCI's {UPDRS}", copies=parkinsons_files),
    "tcga-brca": Dataset("tcga-brca", ((TABLE,),), f"FLamby's {PATIENTS} and {SPLIT}", copies=tcga_files),
}


def is_there(name: str, root: Path | None = None) -> bool:
    """Whether the files of a dataset are under ``root`` (by default ``MANYHEADS_DATA``)."""
    place, forms = root or _root(), DATASETS[name].forms if name in DATASETS else ()
    if place is None:
        return () in forms  # no file is needed
    return any(all(any((place / DATASETS[name].folder).rglob(p)) for p in form) for form in forms)


def fetch(name: str, root: Path | None = None, load: Load | None = None) -> dict[str, Any]:
    """Write a dataset to its folder under ``root`` (by default ``MANYHEADS_DATA``) and record its files' checksums.

    It is copied, if it is on this machine, or downloaded. An existing file is kept, unless it differs from its recorded
    checksum.
    """
    if name not in DATASETS:
        raise one_of("data to get", name, DATASETS)
    dataset, place = DATASETS[name], root or _root()
    if place is None:
        raise UserError("no place for the data", fix="set MANYHEADS_DATA to a folder, or name one with --out")
    folder = place / dataset.folder
    if not dataset.hub and not dataset.copies:
        raise _by_hand(name, dataset, folder, "is not on the hub in a form that is read here")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    noted = _noted(folder)
    makes = dataset.makes
    if dataset.copies:
        copies = dataset.copies(folder)
        makes, load = tuple((file, file, _bytes) for file in copies), lambda _, file: copies[file]
    rows: dict[str, Any] = {}
    files = []
    for file, split, write in makes:
        path = folder / file
        # a file without a recorded checksum is complete too: it was written atomically, or is the user's own
        found = digest(path).hex() if kind_of(path) else ""
        kept = bool(found) and noted.get(file, found) == found
        if not kept:
            if split not in rows:
                rows[split] = _loaded(name, dataset, folder, split, load)
            with replacing(path) as temporary:
                _written(name, dataset, folder, write, rows[split], temporary)
            found = digest(path).hex()
        noted[file] = found
        write_text(folder / CHECKSUMS, "".join(f"{d}  {f}\n" for f, d in noted.items()))
        files.append({"file": str(path), "kept": kept, "sha256": found, "bytes": path.stat().st_size})
    return {"name": name, "folder": str(folder), "from": dataset.hub or "a copy on this machine", "files": files}


def _loaded(name: str, dataset: Dataset, folder: Path, split: str, load: Load | None) -> Any:
    if load is None:
        try:
            from datasets import load_dataset
        except ImportError:
            why = "needs the hub extra, pip install 'manyheads[hub]'"
            raise _by_hand(name, dataset, folder, why) from None
        load = lambda hub, part: load_dataset(hub, split=part)  # noqa: E731
    try:
        return load(dataset.hub, split)
    except Exception as error:  # whatever goes wrong, the files can be downloaded by hand
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise _by_hand(name, dataset, folder, f"cannot be downloaded: {reason}") from error


def _written(name: str, dataset: Dataset, folder: Path, write: Write, rows: Any, path: Path) -> None:
    try:
        write(rows, path)
    except OSError:
        raise
    except Exception as error:  # the hub's copy may have changed its format
        raise _by_hand(
            name, dataset, folder, f"has another format than expected: {type(error).__name__} {error}"
        ) from error


def _by_hand(name: str, dataset: Dataset, folder: Path, why: str) -> UserError:
    return UserError(f"{name} {why}", where="data get", fix=f"or put into {folder}: {dataset.needs}")


def _noted(folder: Path) -> dict[str, str]:
    if not kind_of(folder / CHECKSUMS):
        return {}
    lines = content(folder / CHECKSUMS).decode("utf-8", "replace").splitlines()
    return {file: digest for digest, _, file in (line.partition("  ") for line in lines) if file}


def _root() -> Path | None:
    root = os.environ.get("MANYHEADS_DATA")
    return home(root) if root else None
