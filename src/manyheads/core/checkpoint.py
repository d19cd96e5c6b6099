"""Safetensors files with metadata and a hash, and checkpoints in this format, of which the last two are kept."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from manyheads.core.errors import Damaged
from manyheads.core.files import replacing
from manyheads.core.trees import aligned

__all__ = [
    "checkpoint_path",
    "hash_tensors",
    "read_checkpoint",
    "read_tensors",
    "rounds_on_disk",
    "write_checkpoint",
    "write_tensors",
]

KEEP = 2
_NAME = re.compile(r"round-([0-9]{8}|[1-9][0-9]{8,17})\.safetensors")


def checkpoint_path(folder: Path, round: int) -> Path:
    return folder / f"round-{round:08d}.safetensors"


def hash_tensors(tensors: Mapping[str, Tensor]) -> hashlib._Hash:
    """SHA-256 of named tensors: names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)};".encode())
        if value.numel():  # an empty tensor has no view as bytes
            digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, str]) -> None:
    """Write tensors, with ``facts`` as metadata, atomically."""
    # clones, since safetensors refuses tensors that share memory
    contiguous = {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}
    with replacing(path) as temporary:
        try:
            save_file(contiguous, temporary, metadata={**facts, "sha256": hash_tensors(contiguous).hexdigest()})
        except SafetensorError as error:  # has the operating system's message, e.g. "No space left on device"
            raise OSError(str(error)) from error


def read_tensors(path: Path, facts: Mapping[str, str]) -> dict[str, Tensor]:
    """The tensors in a file; an error if its hash does not match or its metadata are not ``facts``."""
    if path.exists() and not path.is_file():
        raise Damaged(f"{path} cannot be read: it is no file")
    try:
        with safe_open(path, framework="pt") as file:
            found = file.metadata() or {}
            tensors = {name: aligned(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError) as error:
        raise Damaged(f"{path} cannot be read: {error}") from None
    if found.pop("sha256", "") != hash_tensors(tensors).hexdigest():
        raise Damaged(f"{path} is damaged")
    other = [name for name in facts if found.get(name) != facts[name]]
    if other or found.keys() != facts.keys():
        raise Damaged(f"{path} is of other {', '.join(other) or 'facts'} than it should be, or damaged")
    return tensors


def write_checkpoint(folder: Path, round: int, tensors: Mapping[str, Tensor], settings: str = "") -> None:
    """Write a checkpoint of the run with these settings, then remove all but the last two."""
    write_tensors(checkpoint_path(folder, round), tensors, {"round": str(round), "settings": settings})
    for old in rounds_on_disk(folder)[KEEP:]:
        checkpoint_path(folder, old).unlink()


def rounds_on_disk(folder: Path) -> list[int]:
    """Rounds that have a checkpoint file, newest first; other files are ignored."""
    names = (_NAME.fullmatch(p.name) for p in folder.glob("round-*.safetensors") if p.is_file())
    return sorted((int(name[1]) for name in names if name), reverse=True)


def read_checkpoint(folder: Path, round: int, settings: str = "") -> dict[str, Tensor]:
    """The tensors of a checkpoint; an error if it is damaged, or was not written by the run with these settings."""
    return read_tensors(checkpoint_path(folder, round), {"round": str(round), "settings": settings})
