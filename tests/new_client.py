"""A federation of digits with two new clients, and the samples of one of them."""

from __future__ import annotations

import numpy as np

from manyheads.data import Classes, Digits, federate

__all__ = ["FEDERATION", "X", "Y", "samples_of"]


def samples_of(federation, client=0):
    """All of a client's samples."""
    parts = zip(federation.train.client(client), federation.test.client(client), strict=True)
    return tuple(np.concatenate(p) for p in parts)


FEDERATION = federate(Digits().pool(seed=0), Classes(3), clients=12, seed=0).with_new_clients(2, seed=0)
X, Y = samples_of(FEDERATION.new)
