"""How many test samples or seeds it would take to tell a difference from nothing."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from manyheads.metrics.paired import Estimate, Part

__all__ = ["Needed", "needed"]

MOST_SAMPLES = 1000.0
"""largest multiple of the test samples there are that is worth saying"""
MOST_SEEDS = 100


class Needed(NamedTuple):
    """What would be enough, each without more of the other; None where it alone never would, or is not known."""

    samples: float | None
    """how many times the test samples there are, at least 1"""
    seeds: int | None
    """how many seeds in all"""


def needed(found: Estimate, *, gain: float | None = None, power: float = 0.8) -> Needed:
    """What it takes for a 95 % interval to exclude 0 with this power, if the gain is as large as found (or given).

    Variances are taken as they were found, so the answer is as rough as they are.
    """
    gain = abs(found.value if gain is None else gain)
    times = np.geomspace(1, MOST_SAMPLES, 200).tolist()
    samples = bisect_left(times, True, key=lambda m: _shows(_more_samples(found, m), gain, power))
    counts = range(found.seeds, MOST_SEEDS + 1) if found.seeds > 1 else range(0)
    seeds = bisect_left(counts, True, key=lambda n: _shows(_more_seeds(found, n), gain, power))
    return Needed(
        times[samples] if samples < len(times) else None,
        counts[seeds] if seeds < len(counts) else None,
    )


def _shows(found: Estimate, gain: float, power: float) -> bool:
    """Whether a gain is above the half-width of the interval by as much as it may be underestimated."""
    from scipy.special import ndtri  # slow to import

    low, high = replace(found, largest=np.inf).interval()
    deviation = (found.common.variance + max(found.noise.variance, found.runs.variance)) ** 0.5
    return gain >= (high - low) / 2 + float(ndtri(power)) * deviation


def _more_samples(found: Estimate, times: float) -> Estimate:
    common, noise = (Part(part.variance / times, part.freedom * times) for part in (found.common, found.noise))
    return replace(found, common=common, noise=noise, runs=Part(_beyond(found) + noise.variance, found.runs.freedom))


def _more_seeds(found: Estimate, seeds: int) -> Estimate:
    fewer, runs = found.seeds / seeds, max(_unbiased(found), found.noise.variance)
    if found.folds > 1:
        by_seed = min(found.by_seed, runs)
        return replace(found, runs=Part(runs - by_seed + fewer * by_seed, found.runs.freedom))
    noise = Part(fewer * found.noise.variance, found.noise.freedom)
    return replace(found, noise=noise, runs=Part(fewer * runs, seeds - 1))


def _beyond(found: Estimate) -> float:
    """The variance between runs beyond that of their samples, if chance would give less in 19 of 20 cases."""
    from scipy.special import chdtri  # slow to import

    free, noise = found.runs.freedom, found.noise.variance
    if not found.runs.variance or found.runs.variance <= noise * float(chdtri(free, 0.05)) / free:
        return 0.0
    return _unbiased(found) - noise


def _unbiased(found: Estimate) -> float:
    """The variance between runs; that of few is found too small more often than too large, so it is divided by its median."""
    from scipy.special import chdtri  # slow to import

    free = found.runs.freedom
    return found.runs.variance * free / float(chdtri(free, 0.5)) if found.runs.variance else 0.0
