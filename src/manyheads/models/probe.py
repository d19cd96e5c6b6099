"""A copy of a model for its trial, with parameters that differ from the model's own."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from manyheads.core.errors import UserError
from manyheads.core.trees import Tree
from manyheads.models.net import Net

__all__ = ["Probe", "noise"]


class Probe:
    """A copy of a module converted to ``dtype``, a few samples, and two sets of parameters near the module's own."""

    def __init__(
        self, module: nn.Module, params: Tree, statistics: frozenset[str], x: Tensor, dtype: torch.dtype
    ) -> None:
        self.module = copy.deepcopy(module).to(dtype)
        self.net = Net(self.module, statistics=statistics)
        self.x = x.to(dtype) if x.is_floating_point() else x
        self.statistics, self._dtype = statistics, dtype
        self.sets = [self._near(params, seed) for seed in (0, 1)]

    def _near(self, params: Tree, seed: int) -> Tree:
        def moved(name: str, value: Tensor) -> Tensor:
            value = value.to(self.x.device, self._dtype if value.is_floating_point() else None)
            change = noise(seed, value)
            if name in self.statistics:
                return value * (1 + 0.1 * change.abs())  # so that a variance stays positive
            return value + 0.05 * change * (1 + value.abs())

        return Tree({name: moved(name, value) for name, value in params.items()})

    def forward(self, params: Tree, x: Tensor, train: bool) -> tuple[Tensor, bool]:
        """The output of one pass from a copy of ``params`` and a fixed seed, and whether it drew random numbers."""
        self.module.train(train)
        self.net.bind(params.clone(), train=params)
        torch.manual_seed(0)
        before = torch.get_rng_state()
        with torch.no_grad():
            out = self.net(x)
        return out, not torch.equal(before, torch.get_rng_state())

    def gradient(self, params: Tree, x: Tensor, slope: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The outputs, and the gradient of their inner product with ``slope``, by autograd."""
        leaves = self.net.bind(params.clone(), train=params)
        out = self.net(x).reshape(len(x), -1)
        found = torch.autograd.grad((out * slope).sum(), list(leaves.values()), materialize_grads=True)
        for name, gradient in zip(leaves, found, strict=True):
            if gradient.layout != torch.strided:
                raise UserError(f"the gradient of {name} is sparse", fix="use Embedding(sparse=False)")
        return out.detach(), dict(zip(leaves, found, strict=True))

    def close(self, a: Tensor, b: Tensor) -> bool:
        """Whether ``a`` and ``b`` are equal up to rounding, relative to the largest entry of ``b``."""
        if a.shape != b.shape:
            return False
        low, high = map(float, b.aminmax()) if b.numel() else (0.0, 0.0)
        if not (math.isfinite(low) and math.isfinite(high)):
            finite = b[b.isfinite()]
            low, high = map(float, finite.aminmax()) if finite.numel() else (0.0, 0.0)
        largest = max(-low, high)
        tolerance = 1e-7 if self._dtype == torch.float64 else 1e-3
        return torch.allclose(a, b, rtol=0, atol=tolerance * largest + 1e-12, equal_nan=True)

    def all_close(self, a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
        return all(self.close(a[k], b[k]) for k in b)


def noise(seed: int, like: Tensor) -> Tensor:
    """Normal noise of the shape of ``like``, drawn from the seed in double precision."""
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(like.shape, generator=draws, dtype=torch.float64).to(like)
