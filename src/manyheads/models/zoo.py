"""Named models, built to fit a federation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from torch import nn

from manyheads.core.randomness import Purpose, torch_seeded
from manyheads.core.registry import Registry, check_declared
from manyheads.models.cnn import CifarCNN, CifarCNN100, SixLayerCNN
from manyheads.models.linear import LinearRepresentation
from manyheads.models.lstm import LSTM
from manyheads.models.mlp import MLP, EluMLP, FemnistMLP
from manyheads.models.model import Model
from manyheads.models.relu import ReluNet

__all__ = ["MODELS", "ModelSpec", "build_model"]

MODELS: Registry[type[Any]] = Registry("model", partial(check_declared, methods=("build",)))
for _model in (MLP, FemnistMLP, EluMLP, CifarCNN, CifarCNN100, SixLayerCNN, LSTM, ReluNet, LinearRepresentation):
    MODELS.register(_model)


class ModelSpec(Protocol):
    """Says how a model is built to fit a federation; a settings class with a ``name`` is kept in a run's folder.

    If its modules may have running statistics, an attribute ``statistics`` says what becomes of them, as :class:`Model`'s
    argument ``norm`` does.
    """

    def build(self, shape: tuple[int, ...], outputs: int) -> tuple[nn.Module, str | Sequence[str]] | nn.Module | Model:
        """A network for samples of this shape, and the name of its head."""


def build_model(spec: ModelSpec, shape: tuple[int, ...], outputs: int, seed: int, dtype: str = "float32") -> Model:
    """A model for samples of this shape and number type, with initial weights drawn from the seed."""
    with torch_seeded(seed, Purpose.MODEL):
        built = spec.build(shape, outputs)
    if isinstance(built, Model):
        return built
    module, head = built if isinstance(built, tuple) else (built, None)
    return Model(module.double() if dtype == "float64" else module, head, norm=getattr(spec, "statistics", None))
