"""Heads of which a method knows more than their names."""

from __future__ import annotations

from torch import Tensor

from manyheads.core.errors import UserError
from manyheads.core.trees import Tree

__all__ = ["linear_weight"]


def linear_weight(head: Tree, why: str) -> Tensor:
    """The weight of a head that is one linear layer, [outputs, features]; an error that says ``why`` if it is not."""
    shapes = sorted(v.ndim for v in head.values())
    if shapes not in ([1, 2], [2]):
        raise UserError(
            f"{why}, which must be a linear layer",
            given=f"a head of {len(shapes)} parameters",
            fix="name the last layer as the head of the model",
        )
    return next(v for v in head.values() if v.ndim == 2)
