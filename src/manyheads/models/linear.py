"""The linear representation model of the papers' theory."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

from pydantic import Field
from torch import nn

from manyheads.core.settings import settings

__all__ = ["LinearRepresentation"]


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
