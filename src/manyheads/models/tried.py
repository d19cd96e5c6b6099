"""A model as the engines run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from manyheads.core.trees import Params
from manyheads.models.net import Net

__all__ = ["TriedModel"]


@dataclass(frozen=True, eq=False)
class TriedModel:
    """The parts of a model, and how it may be run; made by :meth:`Model.tried`."""

    module: nn.Module
    net: Net
    params: Params
    statistics: frozenset[str]
    """names of the parameters that are running statistics"""
    norm: str | None
    """how running statistics are treated, if there are any: averaged, or kept by the client"""
    smallest_batch: int
    """least samples in a batch"""
    random: bool
    """whether a pass in training draws random numbers"""
    mixes: bool
    """whether, in training, the output for a sample depends on the others of its batch"""
    unstackable: str
    """why several clients' models cannot be computed at once; empty if they can"""
    head_net: Net | None
    """the head alone, if the model's output is the head applied to features"""
    convolved: float
    """floating-point operations of its convolutions for one sample, divided by the number of its layers"""

    @property
    def stackable(self) -> bool:
        """Whether several clients' models can be computed at once."""
        return not self.unstackable

    @contextmanager
    def seen_features(self) -> Iterator[list[Tensor]]:
        """The inputs of the head in the passes that are made within, one after the other.

        They are of the parameters' type, as the head alone needs them, also where the body ran in a lower precision.
        """
        assert self.head_net is not None
        seen: list[Tensor] = []
        like = next(iter(self.params.all.values()))
        hook = self.head_net.module.register_forward_pre_hook(lambda _m, args: seen.append(args[0].to(like.dtype)))
        try:
            yield seen
        finally:
            hook.remove()

    @torch.no_grad()
    def features(self, body: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """The features of the samples: the input of the head in a model with this body."""
        with self.seen_features() as seen:
            self.net.bind(body)
            self.net(x)
        return seen[0].detach()
