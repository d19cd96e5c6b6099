"""How many test samples or seeds it would take to know."""

from __future__ import annotations

from typing import NamedTuple

from manyheads.metrics.paired import Estimate

__all__ = ["Needed", "needed"]

MOST = 1000
"""largest multiple of what there is that is worth saying"""


class Needed(NamedTuple):
    """What would give the power asked for, each by itself; None where it would not."""

    samples: float | None
    """how many times the test samples there are"""
    seeds: int | None


def needed(found: Estimate, seeds: int, gain: float | None = None, power: float = 0.8) -> Needed:
    """How much more of samples, or of seeds, shows a gain (by default the one found) as different from 0.

    Two-sided at 5 %. ``seeds`` is how many there were.
    """
    from scipy.special import ndtri  # slow to import

    gain = found.value if gain is None else gain
    allowed = (gain / float(ndtri(0.975) + ndtri(power))) ** 2  # the variance that the estimate may have
    runs = max(found.runs.variance - found.residual.variance, 0.0)  # of shifts alone
    rest = found.samples.variance
    samples = rest / (allowed - runs) if allowed > runs else None
    by_seed = runs + found.residual.variance
    left = allowed - (rest - found.residual.variance)
    more = seeds * by_seed / left if left > 0 else None
    return Needed(
        samples if samples is not None and samples <= MOST else None,
        int(-(-more // 1)) if more is not None and more <= MOST else None,
    )
