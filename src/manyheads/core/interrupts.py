"""Interrupts: the signals that stop a program, and blocks of code that they may not interrupt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["STOPS", "held", "leave_to_parent", "noted"]

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, kill, and a closed terminal"""


@contextmanager
def held() -> Iterator[None]:
    """Delay signals that stop the program until the end of the block.

    An exception raised during a fork is lost in Python's fork hooks, and one raised after a process is started but
    before it is recorded leaves the process behind. Processes started in the block inherit blocked signals: see
    :func:`leave_to_parent`.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    with noted():
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextmanager
def noted() -> Iterator[None]:
    """Delay what this program does about signals that stop it until the end of the block.

    Unlike :func:`held`, this is not inherited by processes that are started in the block.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    handlers = {}
    if threading.current_thread() is threading.main_thread():  # Python runs all signal handlers in this thread
        handlers = {stop: handler for stop in STOPS if callable(handler := signal.getsignal(stop))}
    try:
        for stop in handlers:
            signal.signal(stop, note)
        yield
    finally:
        for stop, handler in handlers.items():
            signal.signal(stop, handler)
    if came:
        signal.raise_signal(came[0])


def leave_to_parent() -> None:
    """In a process started while signals were held: ignore them, since the parent decides when to stop."""
    for stop in STOPS:
        signal.signal(stop, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
