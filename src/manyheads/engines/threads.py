"""A limit on the threads of torch, which uses all cores for the smallest operations unless told not to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["one_thread"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread: with more, small operations are up to 50 times slower and differ in the last bit.

    As a decorator, ``@one_thread()``, it does so in every call of a function.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
