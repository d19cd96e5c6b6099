"""A new client's model in a folder: weights, a card that tells all about them, exports; and predictions with it.

model.safetensors     all weights, frozen ones and running statistics too
card.json             what it is, how samples become its inputs, what was measured, hashes of the other files
model.pt2, model.onnx the exports, if any
"""

from __future__ import annotations

import copy
import glob
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from manyheads.core.errors import Damaged, UserError
from manyheads.core.files import sync_directory
from manyheads.core.machine import machine_facts
from manyheads.core.sealed import read_json, write_json
from manyheads.core.settings import as_dict, build
from manyheads.data import Encoding, Samples
from manyheads.data.sites.new_site import NewSite
from manyheads.engines.client_data import ClientData
from manyheads.models import MODELS, build_model
from manyheads.onboarding.export import FORMATS, Outputs, available, export, onnx_outputs
from manyheads.onboarding.personalize import Personal

__all__ = ["PersonalModel", "Predictions", "check_place", "save_personal"]

SCHEMA = 1
CARD, WEIGHTS = "card.json", "model.safetensors"
SLICE = 1024
"""samples predicted at once"""


def check_place(out: Path) -> None:
    """Refuse a folder that holds anything."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists already", where="out", fix="choose another --out")


def save_personal(
    personal: Personal, out: str | Path, exports: Sequence[str] | None = None, command: str = ""
) -> dict[str, Any]:
    """Write a new client's model to a folder, whole or not at all; gives its card.

    Without ``exports``, all formats whose packages are installed; one that the model does not allow is then left out,
    and the card says why.
    """
    out = Path(out)
    check_place(out)
    module, config = _module(personal), personal.run.directory.config().table
    weights = {k: v.detach().cpu().contiguous().clone() for k, v in module.state_dict().items()}
    examples = _tensor(personal.held_out, personal.encoding)
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
            "input": _input(personal.encoding, examples),
            "output": "logits of the labels" if personal.encoding.labels else "values, (target - mean) / deviation",
            "encoding": as_dict(personal.encoding),
            "run": {
                "path": str(personal.run.directory.path),
                "rounds": personal.run.rounds,
                **{k: config[k] for k in ("seed", "algorithm", "data", "partition", "clients", "facts") if k in config},
            },
            "measured": personal.facts,
            "exports": made,
            "exports_left_out": left_out,
            "sha256": {name: _sha256(folder / name) for name in files},
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


def _module(personal: Personal) -> nn.Module:
    """The network with the client's parameters, ready to predict."""
    personal.run.model.net.bind(personal.params)
    return copy.deepcopy(personal.run.model.module).eval().requires_grad_(False)


def _portable(model: dict[str, Any], weights: dict[str, Tensor]) -> dict[str, Any]:
    """The model's settings without files that another machine lacks: word vectors are among the weights."""
    if not model.get("vectors"):
        return model
    size, dimension = weights["embedding.weight"].shape
    return model | {"vectors": "", "words": "", "vocabulary_size": size, "dimension": dimension}


def _input(encoding: Encoding, examples: Tensor) -> dict[str, Any]:
    """What an export reads."""
    features = {"features": list(encoding.columns.features)} if encoding.columns else {}
    return {"name": "x", "shape": ["batch", *encoding.shape], "dtype": str(examples.dtype)[6:], **features}


def _tensor(x: np.ndarray, encoding: Encoding) -> Tensor:
    """Encoded samples as the network reads them."""
    like = torch.zeros((), dtype=torch.float64 if encoding.dtype == "float64" else torch.float32)
    nobody = np.zeros(len(x), np.int64)
    return ClientData.of(Samples.of([(x, nobody)]), "classification", like, encoding.pixels).x


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, eq=False)
class Predictions:
    """Of every sample: a label and its probability, or a value in the target's unit; and the score, if labels are known."""

    labels: list[str]
    probabilities: list[float]
    values: np.ndarray
    correct: int | None = None
    rmse: float | None = None

    def rows(self) -> list[dict[str, Any]]:
        """A row a sample, counted from 1."""
        if self.labels:
            pairs = zip(self.labels, self.probabilities, strict=True)
            return [{"row": i, "prediction": n, "probability": p} for i, (n, p) in enumerate(pairs, 1)]
        names = ["value"] if self.values.shape[1] == 1 else [f"value{i}" for i in range(self.values.shape[1])]
        return [{"row": i, **dict(zip(names, v, strict=True))} for i, v in enumerate(self.values.tolist(), 1)]


@dataclass(frozen=True, eq=False)
class PersonalModel:
    """A client's model, read from its folder."""

    card: dict[str, Any]
    encoding: Encoding
    outputs: Outputs

    @classmethod
    def load(cls, folder: str | Path, engine: Literal["model", "onnx"] = "model") -> PersonalModel:
        """Read a folder written by :func:`save_personal`; ``engine`` onnx runs its export instead of the weights.

        The torch export is never read: loading it would unpickle, and a folder may come from anywhere.
        """
        folder = Path(folder)
        card = _read_card(folder)
        encoding = build(Encoding, card["encoding"], where=f"{folder / CARD}: encoding")
        file = WEIGHTS if engine == "model" else FORMATS[engine]
        if file not in card["sha256"]:
            raise UserError(
                f"{folder} has no {file}", where="engine", given=engine, fix="personalize with --export onnx"
            )
        if not (folder / file).is_file() or _sha256(folder / file) != card["sha256"][file]:
            raise UserError(f"{folder / file} is missing or is not what was written", fix="personalize again")
        return cls(
            card, encoding, _network(folder, card, encoding) if engine == "model" else onnx_outputs(folder / file)
        )

    def predict(self, site: NewSite) -> Predictions:
        """Predict a site's samples, and compare with its labels if it has any."""
        x = _tensor(self.encoding.inputs(site.samples), self.encoding).numpy()
        out = np.concatenate([self.outputs(x[i : i + SLICE]) for i in range(0, len(x), SLICE)])
        if self.encoding.task == "regression":
            values = self.encoding.unscaled(out.reshape(len(x), -1))
            error = None if site.y is None else values - self.encoding.unscaled(site.y.reshape(len(x), -1))
            rmse = None if error is None else float(np.sqrt(np.square(error).sum(axis=1).mean()))
            return Predictions([], [], values, rmse=rmse)
        found = out.argmax(axis=1)
        share = torch.from_numpy(out).double().softmax(dim=1).amax(dim=1)
        correct = None if site.y is None else int((found == site.y).sum())
        return Predictions([self.encoding.labels[i] for i in found], share.tolist(), out, correct=correct)


def _read_card(folder: Path) -> dict[str, Any]:
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


def _network(folder: Path, card: dict[str, Any], encoding: Encoding) -> Outputs:
    """The model's own network with the weights of the folder."""
    table = dict(card["model"])
    name = str(table.pop("name"))
    if name == "custom":
        raise UserError(f"{folder} was made with a model of your own", fix="predict with its export: --engine onnx")
    spec = build(MODELS.find(name), table, where=f"{folder / CARD}: model")
    module = build_model(spec, encoding.shape, encoding.outputs, seed=0, dtype=encoding.dtype).module
    try:
        module.load_state_dict(load_file(folder / WEIGHTS))
    except (SafetensorError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{folder / WEIGHTS} does not fit the model of {CARD}: {reason}") from None
    module.eval().requires_grad_(False)
    return lambda x: module(torch.from_numpy(x)).numpy()
