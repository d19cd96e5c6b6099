"""The modes of training several clients on one machine, and the sizes from which on one is faster than another.

The thresholds were measured on a CPU by ``benchmarks/costs.py``.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["CHAIN_STACK_BELOW", "CONVOLVED_STACK_BELOW", "DIVIDED_ABOVE", "STACK_BELOW", "Mode"]

Mode = Literal["auto", "loop", "stacked"]
STACK_BELOW = 110_000
"""trained parameters per client up to which stacking the clients is faster"""
CHAIN_STACK_BELOW = 1_000_000
"""the same for plain chains of linear layers, whose gradients are written by hand"""
CONVOLVED_STACK_BELOW = 2_000_000
"""operations in convolutions, of a client's forward pass of one batch and per layer, up to which stacking is faster"""
DIVIDED_ABOVE = 5_000_000
"""parameters times samples of a cohort from which on dividing it is faster; below, calls cost more than arithmetic"""
