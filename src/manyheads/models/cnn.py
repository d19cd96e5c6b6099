"""The papers' convolutional networks, without batch norm."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from manyheads.core.errors import UserError
from manyheads.core.settings import settings

__all__ = ["CifarCNN", "CifarCNN100", "SixLayerCNN"]


@settings
class CifarCNN:
    """The network of Collins et al. 2021 for CIFAR-10: two 5x5 convolutions and three linear layers."""

    name: ClassVar[str] = "cnn-cifar10"

    def build(self, shape: tuple[int, ...], outputs: int) -> tuple[nn.Module, str]:
        convolutions = [*_block(shape[0], 64, kernel=5), *_block(64, 64, kernel=5)]
        return _chain(self.name, shape, convolutions, (120, 64), [nn.Linear(64, outputs)])


@settings
class CifarCNN100:
    """The network of Collins et al. 2021 for CIFAR-100: wider, and with dropout before the head."""

    name: ClassVar[str] = "cnn-cifar100"
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.6
    """part of the features that is dropped in training"""

    def build(self, shape: tuple[int, ...], outputs: int) -> tuple[nn.Module, str]:
        convolutions = [*_block(shape[0], 64, kernel=5), *_block(64, 128, kernel=5)]
        return _chain(self.name, shape, convolutions, (256, 128), [nn.Dropout(self.dropout), nn.Linear(128, outputs)])


@settings
class SixLayerCNN:
    """The network of Collins et al. 2022: six 3x3 convolutions, pooled after every other, and three linear layers.

    The paper gives the number of layers and the 512 features; the other widths are our choice.
    """

    name: ClassVar[str] = "cnn-6"
    init: Literal["torch", "he"] = "torch"
    """first weights: torch's, through which the signal of an image fades from layer to layer, or those of He et al. 2015 for all
    layers but the head, through which it does not"""
    precision: Literal["float32", "bfloat16"] = "float32"
    """of the products in training; with bfloat16, on processors that have it, twice as fast. Predictions are made in float32"""

    def build(self, shape: tuple[int, ...], outputs: int) -> tuple[nn.Module, str]:
        widths = pairwise((shape[0], 32, 64, 128))
        convolutions = [layer for i, o in widths for layer in _block(i, o, o, kernel=3, padding=1)]
        module, head = _chain(self.name, shape, convolutions, (512, 512), [nn.Linear(512, outputs)])
        if self.init == "he":
            _he(list(module)[:-1])
        return (module if self.precision == "float32" else _Bfloat16(*module)), head


class _Bfloat16(nn.Sequential):
    """Layers that are trained with products in bfloat16, except the last; parameters and predictions stay as they are."""

    def forward(self, x: Tensor) -> Tensor:
        *body, head = self
        before = x.dtype
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.training):
            for layer in body:
                x = layer(x)
        return head(x.to(before))


def _block(*channels: int, kernel: int, padding: int = 0) -> list[nn.Module]:
    """Convolutions with ReLU, then max pooling; the last ReLU comes after the pooling, which is equal and cheaper."""
    layers: list[nn.Module] = []
    for i, o in pairwise(channels):
        layers += [nn.Conv2d(i, o, kernel, padding=padding), nn.ReLU()]
    return [*layers[:-1], nn.MaxPool2d(2), nn.ReLU()]


def _chain(
    name: str, shape: tuple[int, ...], convolutions: list[nn.Module], hidden: tuple[int, ...], top: list[nn.Module]
) -> tuple[nn.Sequential, str]:
    """Convolutions, hidden linear layers sized to their output, and the top layers, of which the last is the head."""
    layers = [*convolutions, nn.Flatten()]
    for i, o in pairwise((_features(name, shape, convolutions), *hidden)):
        layers += [nn.Linear(i, o), nn.ReLU()]
    layers += top
    return nn.Sequential(*layers), str(len(layers) - 1)


def _he(layers: Iterable[nn.Module]) -> None:
    """Weights of variance 2 / inputs and no bias: followed by ReLU, outputs are as large as inputs."""
    for layer in layers:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]


def _features(name: str, shape: tuple[int, ...], convolutions: list[nn.Module]) -> int:
    try:
        with torch.no_grad():
            return math.prod(nn.Sequential(*convolutions)(torch.zeros(1, *shape)).shape[1:])
    except RuntimeError:
        raise UserError(
            "the images do not fit the network",
            where=f"model {name}",
            given=shape,
            allowed="(channels, height, width), as large as its convolutions need: 16 x 16 for the CIFAR networks",
        ) from None
