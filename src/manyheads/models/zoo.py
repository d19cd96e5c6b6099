"""Named models, built to fit a federation."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from pydantic import Field
from torch import nn

from manyheads.core.errors import one_of
from manyheads.core.randomness import Purpose, torch_seeded
from manyheads.core.settings import settings
from manyheads.models.model import Model

__all__ = ["MLP", "MODELS", "LinearRepresentation", "build_model", "model_named"]


@settings
class MLP:
    """Linear layers with ReLU between them; the head is the last one. No hidden layer: softmax or linear regression."""

    name: ClassVar[str] = "mlp"
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = (64, 32)
    """widths of the hidden layers"""

    def build(self, shape: tuple[int, ...], outputs: int) -> tuple[nn.Module, str]:
        widths = [math.prod(shape), *self.hidden]
        layers: list[nn.Module] = [nn.Flatten()] if len(shape) > 1 else []
        for i, o in pairwise(widths):
            layers += [nn.Linear(i, o), nn.ReLU()]
        layers.append(nn.Linear(widths[-1], outputs))
        return nn.Sequential(*layers), str(len(layers) - 1)


@settings
class LinearRepresentation:
    """``w^T B^T x``: a linear representation of a few dimensions and a linear head, without bias (the papers' model)."""

    name: ClassVar[str] = "linear"
    rank: Annotated[int, Field(ge=1)] = 2
    """dimension of the representation, k"""

    def build(self, shape: tuple[int, ...], outputs: int) -> tuple[nn.Module, str]:
        flat: list[nn.Module] = [nn.Flatten()] if len(shape) > 1 else []
        layers = [*flat, nn.Linear(math.prod(shape), self.rank, bias=False), nn.Linear(self.rank, outputs, bias=False)]
        return nn.Sequential(*layers), str(len(layers) - 1)


MODELS: dict[str, type[Any]] = {m.name: m for m in (MLP, LinearRepresentation)}


def model_named(name: str) -> type[Any]:
    if name not in MODELS:
        raise one_of("model", name, MODELS)
    return MODELS[name]


def build_model(spec: Any, shape: tuple[int, ...], outputs: int, seed: int, dtype: str = "float32") -> Model:
    """A named model for samples of this shape, its initial weights drawn from the seed; float64 if the samples are."""
    with torch_seeded(seed, Purpose.MODEL):
        module, head = spec.build(shape, outputs)
    return Model(module.double() if dtype == "float64" else module, head)
