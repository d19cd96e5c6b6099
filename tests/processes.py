"""Other processes: waiting for what they do, however long this machine takes, and finding them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 900.0
"""seconds after which nothing is waited for any more: far longer than anything takes"""


def until(happened: Callable[[], object]) -> None:
    """Wait for something to happen."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def all_shown(terminal: int) -> str:
    """What is shown on a terminal until nobody writes to it any more."""
    text = b""
    while True:
        try:
            text += os.read(terminal, 65536)
        except OSError:
            break
    os.close(terminal)
    return text.decode()


def mentioning(text: str) -> list[int]:
    """Processes with this text in their command line, this one left out."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in entry.read_bytes() and int(entry.parent.name) != os.getpid():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found
