"""Predictions with a new client's model, read from its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from manyheads.core.errors import UserError
from manyheads.core.settings import build
from manyheads.core.tasks import Survival, task_named
from manyheads.data import Encoding
from manyheads.data.sites.new_site import NewSite
from manyheads.metrics import CIndex
from manyheads.metrics import Predictions as Measured
from manyheads.models import MODELS, build_model
from manyheads.models.memory import Memory, WithMemory
from manyheads.onboarding.export import FORMATS, Outputs, onnx_outputs
from manyheads.onboarding.model_folder import CARD, MEMORY, WEIGHTS, as_inputs, read_card, sha256

__all__ = ["PersonalModel", "Predictions"]

SLICE = 1024
"""samples predicted at once"""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Of every sample: a label and its probability, a value in the target's unit, or a log risk; and the score, if labels are
    known."""

    labels: list[str]
    probabilities: list[float]
    values: np.ndarray
    correct: int | None = None
    rmse: float | None = None
    c_index: float | None = None
    name: str = "value"
    """of what is predicted, if it is no label"""

    def rows(self) -> list[dict[str, Any]]:
        """A row a sample, counted from 1."""
        if self.labels:
            pairs = zip(self.labels, self.probabilities, strict=True)
            return [{"row": i, "prediction": n, "probability": p} for i, (n, p) in enumerate(pairs, 1)]
        width = self.values.shape[1]
        names = [self.name] if width == 1 else [f"{self.name}{i}" for i in range(width)]
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
        card = read_card(folder)
        encoding = build(Encoding, card["encoding"], where=f"{folder / CARD}: encoding")
        file = WEIGHTS if engine == "model" else FORMATS[engine]
        if file not in card["sha256"]:
            raise UserError(
                f"{folder} has no {file}", where="engine", given=engine, fix="personalize with --export onnx"
            )
        if not (folder / file).is_file() or sha256(folder / file) != card["sha256"][file]:
            raise UserError(f"{folder / file} is missing or is not what was written", fix="personalize again")
        return cls(
            card, encoding, _network(folder, card, encoding) if engine == "model" else onnx_outputs(folder / file)
        )

    def predict(self, site: NewSite) -> Predictions:
        """Predict a site's samples, and compare with its labels if it has any."""
        x = as_inputs(self.encoding.inputs(site.samples), self.encoding).numpy()
        out = np.concatenate([self.outputs(x[i : i + SLICE]) for i in range(0, len(x), SLICE)])
        if self.encoding.task == Survival.name:
            return Predictions([], [], out.reshape(len(x), 1), c_index=_c_index(out, site.y), name="log_risk")
        if not task_named(self.encoding.task).classes:
            values = self.encoding.unscaled(out.reshape(len(x), -1))
            error = None if site.y is None else values - self.encoding.unscaled(site.y.reshape(len(x), -1))
            rmse = None if error is None else float(np.sqrt(np.square(error).mean()))
            return Predictions([], [], values, rmse=rmse)
        found = out.argmax(axis=1)
        share = torch.from_numpy(out).double().softmax(dim=1).amax(dim=1)
        correct = None if site.y is None else int((found == site.y).sum())
        return Predictions([self.encoding.labels[i] for i in found], share.tolist(), out, correct=correct)


def _c_index(out: np.ndarray, y: np.ndarray | None) -> float | None:
    if y is None:
        return None
    return CIndex().of_client(Measured(out, y, np.zeros(len(y)), np.array([len(y)])))


def _network(folder: Path, card: dict[str, Any], encoding: Encoding) -> Outputs:
    """The model's own network with the weights of the folder."""
    table = dict(card["model"])
    name = str(table.pop("name"))
    if name == "custom":
        raise UserError(f"{folder} was made with a model of your own", fix="predict with its export: --engine onnx")
    path = card["run"]["facts"].get("code", {}).get("model", {}).get(name)
    spec = build(MODELS.find(name, str(folder), path), table, where=f"{folder / CARD}: model")
    model = build_model(spec, encoding.shape, encoding.outputs, seed=0, dtype=encoding.dtype)
    module = model.module
    try:
        tensors = load_file(folder / WEIGHTS)
        module.load_state_dict({k: v for k, v in tensors.items() if not k.startswith(MEMORY)})
        if card.get("memory"):
            kept: dict[str, Any] = {k.removeprefix(MEMORY): v for k, v in tensors.items() if k.startswith(MEMORY)}
            module = WithMemory(module, model.head_layer, Memory(**kept, **card["memory"]))
    except (SafetensorError, RuntimeError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{folder / WEIGHTS} does not fit the model of {CARD}: {reason}") from None
    module.eval().requires_grad_(False)
    return lambda x: module(torch.from_numpy(x)).numpy()
