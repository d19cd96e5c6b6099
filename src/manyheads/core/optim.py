"""Local optimizers, as settings. The engine carries them out."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from manyheads.core.settings import settings

__all__ = ["SGD"]


@settings
class SGD:
    """Stochastic gradient descent with momentum; the momentum starts from zero at every local update.

    ``v <- momentum * v + (gradient + weight_decay * w)``, ``w <- w - lr * v``.
    """

    lr: Annotated[float, Field(gt=0)] = 0.01
    """step size"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """momentum within one local update"""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """pull of the weights to zero; biases are left alone"""
