"""How much of a model's work is convolutions, which decides whether stacking its clients pays."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from manyheads.models.probe import Probe

__all__ = ["convolved"]

_FORWARD = {torch.conv1d, torch.conv2d, torch.conv3d}
_TRANSPOSED = {torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d}


class _Counting(TorchFunctionMode):
    """Counts the floating-point operations of convolutions; torch's own counter takes two seconds to import."""

    operations = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in _FORWARD | _TRANSPOSED:
            given = dict(zip(("input", "weight"), args, strict=False)) | (kwargs or {})
            places = out if func in _FORWARD else given["input"]  # each of its numbers meets a whole filter
            self.operations += 2 * places.numel() * given["weight"][0].numel()
        return out


def convolved(probe: Probe) -> float:
    """Operations of the convolutions in a forward pass of one sample, divided by the number of layers."""
    if all(p.ndim < 3 for p in probe.module.parameters()):
        return 0.0
    with _Counting() as counting:
        probe.forward(probe.sets[0], probe.x[:1], train=False)
    layers = sum(any(True for _ in m.parameters(recurse=False)) for m in probe.module.modules())
    return counting.operations / max(layers, 1)
