"""How a cohort is divided into chunks, the tasks of a round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manyheads.engines.ways import DIVIDED_ABOVE, STACK_BELOW, Mode

__all__ = ["chunked"]


def chunked(clients: Sequence[int], sizes: np.ndarray, parameters: int, mode: Mode) -> list[list[int]]:
    """Divide a cohort into chunks of about equal work, the same whatever the number of workers.

    Small models gain from stacking many clients, and a small amount of work is not divided at all; with large models,
    chunks of a few clients keep all workers busy. Each chunk's result has the size of the model, so there are at most
    32 chunks, unless these would grow too large for memory. ``benchmarks/costs.py`` measures the gain from stacking.
    """
    small = parameters <= STACK_BELOW
    if small:
        least, most = 1 if parameters * sizes.sum() < DIVIDED_ABOVE else 2, 1024 if parameters <= 2_000 else 32
    else:
        together = max(4, min(16, 1_600_000 // parameters))  # clients whose stacked weights fit the cache
        least, most = min(-(-len(clients) // together), 32), max(4, min(32, 16_000_000 // parameters))
        least = max(least, 4)
    count = len(clients) if mode == "loop" and not small else max(least, -(-len(clients) // most))
    if count > 2:
        count += -count % 4  # a multiple of 4, so that 2 or 4 workers get equally many
    count = min(count, len(clients))
    if len(set(sizes.tolist())) == 1:  # chunks of neighbours, whose samples are adjacent in memory
        return [part.tolist() for part in np.array_split(np.asarray(clients), count)]
    largest_first = np.argsort(-sizes, kind="stable")
    return [sorted(clients[i] for i in largest_first[start::count]) for start in range(count)]
