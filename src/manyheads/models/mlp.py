"""Multi-layer perceptrons."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import nn

from manyheads.core.settings import settings

__all__ = ["MLP", "EluMLP", "FemnistMLP"]

_NORMS: dict[str, Callable[[int], nn.Module]] = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}
_ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "elu": nn.ELU, "tanh": nn.Tanh}


@settings
class MLP:
    """Linear layers with an activation between them; the head is the last one. No hidden layer: softmax regression."""

    name: ClassVar[str] = "mlp"
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = (64, 32)
    """widths of the hidden layers"""
    activation: Literal["relu", "elu", "tanh"] = "relu"
    """what stands between the layers"""
    norm: Literal["batch", "layer"] | None = None
    """norm layers before the activations: batch norm, or layer norm; without it none"""
    statistics: ClassVar[str] = "average"

    def build(self, shape: tuple[int, ...], outputs: int) -> tuple[nn.Module, str]:
        widths = [math.prod(shape), *self.hidden]
        layers: list[nn.Module] = [nn.Flatten()] if len(shape) > 1 else []
        for i, o in pairwise(widths):
            normed = [_NORMS[self.norm](o)] if self.norm else []
            layers += [nn.Linear(i, o), *normed, _ACTIVATIONS[self.activation]()]
        layers.append(nn.Linear(widths[-1], outputs))
        return nn.Sequential(*layers), str(len(layers) - 1)


@settings
class FemnistMLP:
    """The MLP of Collins et al. 2021 for FEMNIST: 512, 256 and 64 hidden units, ReLU."""

    name: ClassVar[str] = "femnist-mlp"

    def build(self, shape: tuple[int, ...], outputs: int) -> tuple[nn.Module, str]:
        return MLP(hidden=(512, 256, 64)).build(shape, outputs)


@settings
class EluMLP:
    """The MLP of Fallah et al. 2020 for MNIST: 80 and 60 hidden units, ELU."""

    name: ClassVar[str] = "elu-mlp"

    def build(self, shape: tuple[int, ...], outputs: int) -> tuple[nn.Module, str]:
        return MLP(hidden=(80, 60), activation="elu").build(shape, outputs)
