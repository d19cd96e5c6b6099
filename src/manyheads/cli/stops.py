"""Signal handling: Ctrl-C, SIGTERM and SIGHUP stop the command with exit code 130."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from manyheads.core.interrupts import STOPS

__all__ = ["STOPPED", "at_once", "by_interrupt", "check", "stopped"]

STOPPED = 130
"""the exit code"""

RETRY_AFTER = 0.01
"""seconds until a lost KeyboardInterrupt is raised again"""

asked = False
"""whether a signal asked to stop"""

lost = False
"""whether its KeyboardInterrupt was lost and not yet raised again"""


def at_once() -> None:
    """Make signals end the process immediately: during imports, which may swallow exceptions, no work has started."""
    _handle(_end)


def by_interrupt() -> None:
    """Make signals raise KeyboardInterrupt, so that running work can be cleaned up."""
    _handle(_interrupt)
    signal.signal(signal.SIGALRM, _retry)
    sys.unraisablehook = _unraisable


def check() -> None:
    """Raise KeyboardInterrupt if a signal came whose interrupt was swallowed by a finalizer or a library."""
    if asked:
        _raise()


def stopped() -> int:
    """Print that the command was stopped; returns the exit code."""
    sys.stderr.write("stopped\n")
    return STOPPED


def _handle(handler: Callable[[int, FrameType | None], None]) -> None:
    for stop in STOPS:
        if signal.getsignal(stop) is not signal.SIG_IGN:  # ignored under nohup and in background jobs of scripts
            signal.signal(stop, handler)


def _unraisable(error: Any) -> None:
    """Schedule a KeyboardInterrupt raised in a finalizer to be raised again, as Python only prints such exceptions."""
    global lost
    if error.exc_type is KeyboardInterrupt:
        lost = True
        signal.setitimer(signal.ITIMER_REAL, RETRY_AFTER)
    else:
        sys.__unraisablehook__(error)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"stopped\n")
    os._exit(STOPPED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global asked
    asked = True
    _raise()


def _retry(number: int, frame: FrameType | None) -> None:
    if lost:  # otherwise it was already raised again, and a second one would disturb its handling
        _raise()


def _raise() -> None:
    global lost
    lost = False
    raise KeyboardInterrupt
