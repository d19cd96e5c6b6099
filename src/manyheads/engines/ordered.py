"""Results in the order of their tasks, from processes that finish them in any order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import TypeVar

__all__ = ["in_order"]

T = TypeVar("T")
R = TypeVar("R")


def in_order(submit: Callable[[T], Future[R]], tasks: Sequence[T], ahead: int | None) -> Iterator[R]:
    """The results of tasks, which are begun at once; at most ``ahead`` of them, if given, before the first is taken.

    So many results at most are in memory, however slow the first may be.
    """
    left = iter(tasks)
    begun = deque(map(submit, islice(left, ahead)))

    def results() -> Iterator[R]:
        try:
            while begun:
                yield begun.popleft().result()
                begun.extend(map(submit, islice(left, 1)))
        finally:
            for future in begun:
                future.cancel()

    return results()
