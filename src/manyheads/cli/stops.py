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
"""seconds until an interrupt that was lost is raised again"""

asked = False
"""whether a stop has been asked for"""

lost = False
"""whether the interrupt for it was lost, and has not been raised again"""


def at_once() -> None:
    """From now on, a stop ends the process: nothing is under way, and what is being imported may lose an exception."""
    _handle(_end)


def by_interrupt() -> None:
    """From now on, a stop is a KeyboardInterrupt, so that what is under way can be put in order."""
    _handle(_interrupt)
    signal.signal(signal.SIGALRM, _retry)
    sys.unraisablehook = _unraisable


def check() -> None:
    """Stop if that was asked for: an interrupt is lost if it comes in a finalizer, or in a library that hides it."""
    if asked:
        _raise()


def stopped() -> int:
    """Say so; the exit code."""
    sys.stderr.write("stopped\n")
    return STOPPED


def _handle(handler: Callable[[int, FrameType | None], None]) -> None:
    for stop in STOPS:
        if signal.getsignal(stop) is not signal.SIG_IGN:  # nohup, and jobs in the background of a script
            signal.signal(stop, handler)


def _unraisable(error: Any) -> None:
    """An interrupt that comes in a finalizer is only printed there, and lost: it is raised again a little later."""
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
