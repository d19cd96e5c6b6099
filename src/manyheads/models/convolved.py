"""How much of a model's work is convolutions, which decides whether stacking its clients pays."""

from __future__ import annotations

from manyheads.models.probe import Probe

__all__ = ["convolved"]


def convolved(probe: Probe) -> float:
    """Operations of the convolutions in a forward pass of one sample, divided by the number of layers."""
    if all(p.ndim < 3 for p in probe.module.parameters()):
        return 0.0
    from torch.utils.flop_counter import FlopCounterMode  # takes a while to import

    with FlopCounterMode(display=False) as counter:
        probe.forward(probe.sets[0], probe.x[:1], train=False)
    found = counter.get_flop_counts()["Global"]
    operations = sum(count for op, count in found.items() if "convolution" in str(op))
    layers = sum(any(True for _ in m.parameters(recurse=False)) for m in probe.module.modules())
    return operations / max(layers, 1)
