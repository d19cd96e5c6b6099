"""The uploads of a round as ``merge`` gets them: one from each client, or their weighted mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from manyheads.core.errors import UserError
from manyheads.core.trees import State

__all__ = ["Each", "Mean", "Uploads", "weighted_mean"]


@dataclass(frozen=True)
class Each:
    """The upload of every client, with a leading client dimension."""

    rows: State


@dataclass(frozen=True)
class Mean:
    """The weighted mean of the clients' uploads, without the individual uploads."""

    value: State


@dataclass(frozen=True)
class Uploads:
    """The checked uploads of a round, in client order."""

    clients: Sequence[int]
    weights: Tensor
    received: Each | Mean

    @property
    def values(self) -> State:
        """The upload of each client, for a method that announces ``reads_each``."""
        if isinstance(self.received, Mean):
            raise UserError(
                "the uploads were averaged before they reached the server",
                fix="a method whose merge() reads them one by one must say so: reads_each = True",
            )
        return self.received.rows

    def mean(self) -> State:
        """The weighted mean over clients."""
        if isinstance(self.received, Mean):
            return self.received.value
        return weighted_mean(self.received.rows, self.weights)


def weighted_mean(values: State, weights: Tensor) -> State:
    """The weighted mean over the leading dimension."""
    if len(weights) == 1:
        return values.map(lambda v: v[0])
    share = weights / weights.sum()
    return values.map(lambda v: torch.tensordot(share.to(v), v, dims=1))
