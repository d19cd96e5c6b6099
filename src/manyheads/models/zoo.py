"""Named models, built to fit a federation."""

from __future__ import annotations

from functools import partial
from typing import Any

from manyheads.core.randomness import Purpose, torch_seeded
from manyheads.core.registry import Registry, check_declared
from manyheads.models.cnn import CifarCNN, CifarCNN100, SixLayerCNN
from manyheads.models.linear import LinearRepresentation
from manyheads.models.lstm import LSTM
from manyheads.models.mlp import MLP, EluMLP, FemnistMLP
from manyheads.models.model import Model
from manyheads.models.relu import ReluNet

__all__ = ["MODELS", "build_model"]

MODELS: Registry[type[Any]] = Registry("model", partial(check_declared, methods=("build",)))
for _model in (MLP, FemnistMLP, EluMLP, CifarCNN, CifarCNN100, SixLayerCNN, LSTM, ReluNet, LinearRepresentation):
    MODELS.register(_model)


def build_model(spec: Any, shape: tuple[int, ...], outputs: int, seed: int, dtype: str = "float32") -> Model:
    """A named model for samples of this shape, its initial weights drawn from the seed; float64 if the samples are."""
    with torch_seeded(seed, Purpose.MODEL):
        module, head = spec.build(shape, outputs)
    return Model(module.double() if dtype == "float64" else module, head)
