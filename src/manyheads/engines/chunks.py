"""How a cohort is divided into chunks, the tasks of a round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manyheads.engines.ways import DIVIDED_ABOVE, STACK_BELOW, Mode

__all__ = ["chunked", "chunked_to_predict", "predicted_together", "trained_together"]

FEW = 64
"""chunks that keep the processes of a machine busy"""
HELD = 64 * 2**20
"""bytes of personal states and samples in a chunk that is only to predict"""
TOGETHER = 4_000_000
"""parameters, of all clients, that are trained at a time: an algorithm holds some ten copies of them"""


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
    return _divided(clients, sizes, min(count, len(clients)))


def chunked_to_predict(
    clients: Sequence[int], sizes: np.ndarray, parameters: int, mode: Mode, personal: int, sample: int
) -> list[list[int]]:
    """As :func:`chunked`, but of a large population no more chunks than memory needs: predicting gains nothing by them.

    ``personal`` and ``sample`` are the bytes of a client's own state, and of a sample.

    >>> many = chunked_to_predict(range(100_000), np.full(100_000, 5), 4_000, "auto", personal=800, sample=100)
    >>> len(many), max(map(len, many))
    (64, 1563)
    """
    usual = chunked(clients, sizes, parameters, mode)
    held = len(clients) * personal + int(sizes.sum()) * sample
    few = max(FEW, -(-held // HELD))
    return usual if len(usual) <= few else _divided(clients, sizes, few)


def trained_together(parameters: int) -> int:
    """How many clients of a chunk are trained at a time, for the sake of memory; with large models one after another.

    >>> [trained_together(size) for size in (100_000, 1_000_000, 10_000_000)]
    [40, 4, 1]
    """
    return max(1, TOGETHER // max(1, parameters))


def predicted_together(personal: int, parameters: int, tuned: bool) -> int:
    """The same for clients that are evaluated, with ``personal`` bytes of state each; fine-tuning is training."""
    held = max(1, HELD // max(1, personal))
    return min(held, trained_together(parameters)) if tuned else held


def _divided(clients: Sequence[int], sizes: np.ndarray, count: int) -> list[list[int]]:
    if len(set(sizes.tolist())) == 1:  # chunks of neighbours, whose samples are adjacent in memory
        return [part.tolist() for part in np.array_split(np.asarray(clients), count)]
    largest_first = np.argsort(-sizes, kind="stable")
    return [sorted(clients[i] for i in largest_first[start::count]) for start in range(count)]
