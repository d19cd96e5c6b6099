"""Limits on the threads of numerical libraries."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

__all__ = ["one_thread"]

P = ParamSpec("P")
T = TypeVar("T")


def one_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Run a function with one thread: its problems are small, and every core may have a worker of its own."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> T:
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=1):
            return function(*args, **kwargs)

    return limited
