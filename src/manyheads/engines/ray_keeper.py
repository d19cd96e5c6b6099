"""The process that clears up after a Ray instance of our own: ``python -m manyheads.engines.ray_keeper MARK FOLDER``.

It waits until whoever started it closes its standard input, or dies. Then it ends every process that still has the mark
in its environment, and removes the folder. Ray ends its processes itself when asked to, but if its driver is killed, some
stay for minutes.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["MARK", "marked"]

MARK = "MANYHEADS_RAY"
"""the environment variable by which processes of an instance are known"""


def marked(mark: str) -> list[int]:
    """The processes that have the mark in their environment; none where there is no /proc."""
    words, found = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if words in entry.read_bytes().split(b"\0"):
                found.append(int(entry.parent.name))
    return found


def main(mark: str, folder: str) -> None:
    sys.stdin.read()
    while left := marked(mark):
        for process in left:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
