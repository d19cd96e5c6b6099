"""Ctrl-C, SIGTERM and SIGHUP: each stops the command, with exit code 130."""

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
"""seconds until a lost interrupt is raised again"""

asked = False
"""whether a signal asked to stop"""

lost = False
"""whether its interrupt was lost and not yet raised again"""


def at_once() -> None:
    """From now on, a signal ends the process: no work has started, and an exception during imports may be lost."""
    _handle(_end)


def by_interrupt() -> None:
    """From now on, a signal is a KeyboardInterrupt, so that work can be cleaned up."""
    _handle(_interrupt)
    signal.signal(signal.SIGALRM, _retry)
    sys.unraisablehook = _unraisable


def check() -> None:
    """Stop if a signal asked for it: its interrupt is lost in a finalizer, or in a library that catches it."""
    if asked:
        _raise()


def stopped() -> int:
    """Print that the command was stopped; returns the exit code."""
    sys.stderr.write("stopped\n")
    return STOPPED


def _handle(handler: Callable[[int, FrameType | None], None]) -> None:
    for stop in STOPS:
        if signal.getsignal(stop) is not signal.SIG_IGN:  # nohup, and jobs in the background of a script
            signal.signal(stop, handler)


def _unraisable(error: Any) -> None:
    """An interrupt in a finalizer is only printed and then lost: raise it again a little later."""
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
    if lost:  # else it was raised in the meantime, and a second one would disturb how the first is handled
        _raise()


def _raise() -> None:
    global lost
    lost = False
    raise KeyboardInterrupt
