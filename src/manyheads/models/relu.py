"""The deep ReLU network of Deng et al. 2022, whose top layer is fixed."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import nn

from manyheads.core.settings import settings

__all__ = ["ReluNet"]


@settings
class ReluNet:
    """``V s(W_L ... s(W_1 x))`` with s the ReLU, no biases and V fixed; all that is trained, W, is shared.

    ``W_l ~ N(0, 2/m)`` for every layer, the first (m x inputs) too, and ``V ~ N(0, 1/d)``.
    """

    name: ClassVar[str] = "relu-net"
    width: Annotated[int, Field(ge=1)] = 50
    """neurons of every hidden layer, m"""
    depth: Annotated[int, Field(ge=1)] = 1
    """number of hidden layers, L"""
    top: Literal["outputs", "inputs"] = "outputs"
    """d in V ~ N(0, 1/d): number of outputs, as in the analysis the paper builds on, or of inputs, as it defines d"""

    def build(self, shape: tuple[int, ...], outputs: int) -> tuple[nn.Module, tuple[str, ...]]:
        inputs = math.prod(shape)
        layers: list[nn.Module] = [nn.Flatten()] if len(shape) > 1 else []
        for i, o in pairwise([inputs, *[self.width] * self.depth]):
            hidden = nn.Linear(i, o, bias=False)
            nn.init.normal_(hidden.weight, std=math.sqrt(2 / self.width))
            layers += [hidden, nn.ReLU()]
        fixed = nn.Linear(self.width, outputs, bias=False)
        nn.init.normal_(fixed.weight, std=1 / math.sqrt(outputs if self.top == "outputs" else inputs))
        fixed.weight.requires_grad_(False)
        return nn.Sequential(*layers, fixed), ()
