"""Processes that this one owns: with all that they start, and ended with it."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["Child", "free_port", "owned"]

PATIENCE = 8.0
"""seconds that a process has to end when asked to, before it is killed"""
_WHEN_PARENT_DIES = 1
"""PR_SET_PDEATHSIG of prctl(2)"""


class Child:
    """A process in a group of its own, whose output goes to a file."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        with open(log, "ab") as file:
            self.process = subprocess.Popen(
                command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True, preexec_fn=_end_with_parent,
            )  # fmt: skip

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def last_words(self, lines: int = 3) -> str:
        """The end of its output."""
        with suppress(OSError):
            return " ".join(self.log.read_text(errors="replace").strip().splitlines()[-lines:])
        return ""

    def end(self) -> None:
        """End it and whatever it has started."""
        self._signal(signal.SIGTERM)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and (self.running or self._group_lives()):
            time.sleep(0.1)
        self._signal(signal.SIGKILL)
        self.process.wait()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def _group_lives(self) -> bool:
        try:
            os.killpg(self.process.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def _end_with_parent() -> None:
    """Ask Linux to end this process when its parent is gone, even if that was killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_WHEN_PARENT_DIES, signal.SIGTERM)


@contextmanager
def owned(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[Child]:
    """A process that ends with the block."""
    child = Child(command, environment, log)
    try:
        yield child
    finally:
        child.end()


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def listening(host: str, port: int, seconds: float = 1.0) -> bool:
    """Whether somebody accepts connections there."""
    try:
        with socket.create_connection((host, port), timeout=seconds):
            return True
    except OSError:
        return False
