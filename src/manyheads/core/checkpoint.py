"""Checkpoints: tensors and a round number in one safetensors file, with a hash, the last two kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from manyheads.core.errors import UserError
from manyheads.core.files import replacing

__all__ = ["hash_tensors", "read_checkpoint", "rounds_on_disk", "write_checkpoint"]

KEEP = 2


def _path(folder: Path, round: int) -> Path:
    return folder / f"round-{round:08d}.safetensors"


def hash_tensors(tensors: Mapping[str, Tensor]) -> hashlib._Hash:
    """SHA-256 of named tensors: names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)};".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest


def write_checkpoint(folder: Path, round: int, tensors: Mapping[str, Tensor]) -> None:
    """Put a checkpoint in place in one step, then remove all but the last two."""
    contiguous = {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}  # no two names for one
    facts = {"round": str(round), "sha256": hash_tensors(contiguous).hexdigest()}
    with replacing(_path(folder, round)) as temporary:
        try:
            save_file(contiguous, temporary, metadata=facts)
        except SafetensorError as error:  # the disk's own words, e.g. "No space left on device"
            raise OSError(str(error)) from error
    for old in rounds_on_disk(folder)[KEEP:]:
        _path(folder, old).unlink()


def rounds_on_disk(folder: Path) -> list[int]:
    """Rounds that have a checkpoint file, newest first."""
    return sorted((int(p.stem.removeprefix("round-")) for p in folder.glob("round-*.safetensors")), reverse=True)


def read_checkpoint(folder: Path, round: int) -> dict[str, Tensor]:
    """The tensors of a checkpoint; an error if it is not what was written."""
    path = _path(folder, round)
    try:
        with safe_open(path, framework="pt") as file:
            facts = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError) as error:
        raise UserError(f"checkpoint {path} cannot be read: {error}") from None
    if facts.get("round") != str(round) or facts.get("sha256") != hash_tensors(tensors).hexdigest():
        raise UserError(f"checkpoint {path} is damaged")
    return tensors
