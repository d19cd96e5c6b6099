"""A new client's model in a folder: weights, model card, exports.

model.safetensors     all weights, frozen ones and running statistics too; features and labels that are remembered
card.json             what it is, how samples become its inputs, what was measured, hashes of the other files
model.pt2, model.onnx the exports, if any
"""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from manyheads.core.errors import Damaged, UserError
from manyheads.core.files import sha256, sync_directory
from manyheads.core.machine import machine_facts
from manyheads.core.sealed import read_json, write_json
from manyheads.core.settings import as_dict
from manyheads.core.tasks import Survival
from manyheads.data import Encoding, Samples
from manyheads.engines.client_data import ClientData
from manyheads.engines.threads import one_thread
from manyheads.onboarding.export import FORMATS, available, export
from manyheads.onboarding.personalize import Personal

__all__ = ["CARD", "MEMORY", "WEIGHTS", "as_inputs", "check_place", "read_card", "save_personal", "sha256"]

SCHEMA = 1
CARD, WEIGHTS = "card.json", "model.safetensors"
MEMORY = "memory/"
"""prefix of the names of what is remembered of training samples, among the weights"""


def check_place(out: Path) -> None:
    """Refuse a folder that holds anything."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists already", where="out", fix="choose another --out")


@one_thread()
def save_personal(
    personal: Personal, out: str | Path, exports: Sequence[str] | None = None, command: str = ""
) -> dict[str, Any]:
    """Write a new client's model to a folder, whole or not at all; gives its model card.

    Without ``exports``, all formats whose packages are installed; one that the model does not allow is then left out,
    and the card says why.
    """
    out = Path(out)
    check_place(out)
    module, config = personal.module, personal.run.directory.config().table
    weights = {k: v.detach().cpu().contiguous().clone() for k, v in _tensors(personal, module).items()}
    examples = as_inputs(personal.examples, personal.encoding)
    with _new_folder(out) as folder:
        save_file(weights, folder / WEIGHTS)
        made: dict[str, float] = {}
        left_out: dict[str, str] = {}
        for kind in available() if exports is None else exports:
            try:
                made[kind] = export(module, kind, folder, examples)
            except UserError as error:
                if exports is not None:
                    raise
                (folder / FORMATS[kind]).unlink(missing_ok=True)
                left_out[kind] = str(error)
        files = [WEIGHTS, *(FORMATS[kind] for kind in made)]
        card: dict[str, Any] = {
            "schema": SCHEMA,
            "method": personal.run.algorithm.name,
            "task": personal.encoding.task,
            "labels": list(personal.encoding.labels),
            "model": _portable(config["model"], weights),
            "memory": personal.memory and personal.memory.settings,
            "input": _input(personal.encoding, examples),
            "output": _output(personal.encoding),
            "encoding": as_dict(personal.encoding),
            "run": {
                "path": str(personal.run.directory.path),
                "rounds": personal.run.rounds,
                **{k: config[k] for k in ("seed", "algorithm", "data", "partition", "clients", "facts") if k in config},
            },
            "measured": personal.facts | {"warnings": [*personal.facts["warnings"], *_remembered(personal)]},
            "exports": made,
            "exports_left_out": left_out,
            "sha256": {name: sha256(folder / name) for name in files},
            "machine": machine_facts(),
            "command": command,
        }
        write_json(folder / CARD, card, indent=2)
    return card


@contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """Write to the folder this gives; when the block ends well, it becomes ``out`` in one step."""
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        for left in out.parent.glob(f".{glob.escape(out.name)}.*.tmp"):  # by processes that were killed
            if not _alive(left.suffixes[-2][1:]) or left == temporary:
                shutil.rmtree(left)
        temporary.mkdir(parents=True)
        yield temporary
        for file in temporary.iterdir():
            with open(file, "rb") as written:
                os.fsync(written.fileno())
        temporary.replace(out)
        sync_directory(out.parent)
    except (OSError, SafetensorError) as error:  # safetensors has the disk's own words, as "No space left on device"
        raise UserError(f"cannot write {out}: {error}", fix="free some space, or choose another --out") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def _remembered(personal: Personal) -> Iterator[str]:
    """What must be known of a folder that holds something of single samples."""
    if personal.memory is not None:
        count = len(personal.memory.features)
        yield f"the model holds the features and labels of {count} training samples: treat its files like the data"


def _tensors(personal: Personal, module: nn.Module) -> dict[str, Tensor]:
    """What the weights' file holds: those of the network, and the memory's under names that no network has."""
    if personal.memory is None:
        return module.state_dict()
    remembered = {MEMORY + name: v for name, v in personal.memory.state_dict().items()}
    return module.get_submodule("network").state_dict() | remembered


def _portable(model: dict[str, Any], weights: dict[str, Tensor]) -> dict[str, Any]:
    """The model's settings without files that another machine lacks: word vectors are among the weights."""
    if not model.get("vectors"):
        return model
    size, dimension = weights["embedding.weight"].shape
    return model | {"vectors": "", "words": "", "vocabulary_size": size, "dimension": dimension}


def _output(encoding: Encoding) -> str:
    """What an export gives."""
    if encoding.task == Survival.name:
        return "log risk"
    return "logits of the labels" if encoding.labels else "values, (target - mean) / deviation"


def _input(encoding: Encoding, examples: Tensor) -> dict[str, Any]:
    """What an export reads."""
    features = {"features": list(encoding.columns.features)} if encoding.columns else {}
    return {"name": "x", "shape": ["batch", *encoding.shape], "dtype": str(examples.dtype)[6:], **features}


def as_inputs(x: np.ndarray, encoding: Encoding) -> Tensor:
    """Encoded samples as the network reads them."""
    like = torch.zeros((), dtype=torch.float64 if encoding.dtype == "float64" else torch.float32)
    nobody = np.zeros(len(x), np.int64)
    return ClientData.of(Samples.of([(x, nobody)]), "classification", like, encoding.pixels).x


def read_card(folder: Path) -> dict[str, Any]:
    """The model card of a folder written by :func:`save_personal`."""
    file = folder / CARD
    if not file.exists():
        raise UserError(f"{folder} holds no model", fix=f"expected {CARD} there, as written by manyheads personalize")
    try:
        card = read_json(file, fix="personalize again")
        schema = card["schema"]
        if schema == SCHEMA and all(isinstance(card[name], dict) for name in ("encoding", "model", "sha256")):
            return card
    except KeyError:
        raise Damaged(f"{file} is not that of a model", fix="personalize again") from None
    raise UserError(
        f"{file} was written by another manyheads",
        given=f"schema {schema}",
        allowed=str(SCHEMA),
        fix="upgrade manyheads",
    )
