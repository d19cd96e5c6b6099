"""Interrupts: which signals ask to stop, and blocks that none of them may interrupt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["STOPS", "held", "leave_to_parent"]

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a polite kill, a terminal that was closed"""


@contextmanager
def held() -> Iterator[None]:
    """Signals that ask to stop wait until the block has ended.

    An exception raised while a process is being forked is lost, in the hooks that run there, and one raised between the
    start of a process and the note of it leaves the process behind. Processes started in the block have the signals
    blocked: see :func:`leave_to_parent`.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    handlers = {}
    if threading.current_thread() is threading.main_thread():  # handlers run here, whichever thread the signal reaches
        handlers = {stop: handler for stop in STOPS if callable(handler := signal.getsignal(stop))}
    try:
        for stop in handlers:
            signal.signal(stop, note)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for stop, handler in handlers.items():
            signal.signal(stop, handler)
    if came:
        signal.raise_signal(came[0])


def leave_to_parent() -> None:
    """In a process started while signals were held: ignore them, since the parent decides when to stop."""
    for stop in STOPS:
        signal.signal(stop, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
