"""Randomness with an address.

Every draw comes from a generator identified by (seed, purpose, round, client, ...). A run is therefore the same for any
number of workers, any order of clients, and after a resume; and a real site can compute its own batch order from a few
integers. Global generators are left as they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from itertools import pairwise

import numpy as np
import torch

__all__ = ["Purpose", "batch_plan", "generator", "steps_per_pass", "torch_seeded"]


class Purpose(IntEnum):
    """What a draw is for. The numbers are part of every recorded result: add, never renumber."""

    MODEL = 0
    DATA = 1
    SPLIT = 2
    PARTITION = 3
    NEW_CLIENTS = 4
    SAMPLING = 5
    BATCHES = 6
    NOISE = 7
    COIN = 8
    FINETUNE = 9
    AUGMENT = 10


def generator(seed: int, purpose: Purpose, *address: int) -> np.random.Generator:
    """The generator at an address.

    >>> a, b = (generator(0, Purpose.SAMPLING, 3) for _ in range(2))
    >>> bool(a.random() == b.random())
    True
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(int(purpose), *address))))


@contextmanager
def torch_seeded(seed: int, purpose: Purpose, *address: int) -> Iterator[None]:
    """Seed torch's global generator from an address during the block, for layer initialisation and dropout."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(seed, purpose, *address).integers(2**63)))
        yield


def steps_per_pass(samples: int, batch: int, smallest: int = 1) -> int:
    """The number of batches in one pass over the data; see :func:`batch_plan`.

    >>> [steps_per_pass(11, batch=10, smallest=s) for s in (1, 2)]
    [2, 1]
    """
    if batch <= 0 or batch >= samples:
        return 1
    return samples // batch + (samples % batch >= smallest)


def batch_plan(
    rng: np.random.Generator,
    samples: int,
    *,
    batch: int,
    epochs: int = 0,
    steps: int = 0,
    independent: bool = False,
    smallest: int = 1,
) -> list[np.ndarray]:
    """Which samples each local step uses: shuffled passes over the data, cut into batches.

    ``epochs`` full passes, or exactly ``steps`` steps taken from as many passes as they need. The last batch of a pass
    may be smaller. ``batch`` 0 means all samples in every step. ``independent`` draws every batch afresh from all
    samples instead, as the papers' analyses assume. A last batch of fewer than ``smallest`` joins the one before it.

    >>> [len(b) for b in batch_plan(np.random.default_rng(0), 5, batch=2, epochs=1)]
    [2, 2, 1]
    """
    per_pass = steps_per_pass(samples, batch, smallest)
    if batch <= 0 or batch >= samples:
        return [np.arange(samples)] * (steps or epochs)
    if independent:
        return [rng.choice(samples, batch, replace=False) for _ in range(steps or epochs * per_pass)]
    passes = -(-steps // per_pass) if steps else epochs
    plan = []
    for _ in range(passes):
        order = rng.permutation(samples)
        cuts = [i * batch for i in range(per_pass)] + [samples]
        plan += [order[i:j] for i, j in pairwise(cuts)]
    return plan[:steps] if steps else plan
