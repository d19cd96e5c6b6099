"""A command in a process of its own: forked, so that it starts at once and can be killed, and seen to crash."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import io
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Ended", "command", "in_child"]

LIMIT = 600.0
"""seconds after which what must end by itself is a hang"""
PATIENCE = 3.0
"""seconds that work which may take for ever is given until Ctrl-C"""
MEMORY, FILE_SIZE = 3 << 30, 1 << 28
"""bytes that a case may take beyond what it starts with, and write to one file: one must not end the others"""


class Ended(NamedTuple):
    """How a process ended, and what it said."""

    code: int
    """the exit code, or minus the signal"""
    out: str
    err: str
    hung: bool = False
    stopped: bool = False
    """by Ctrl-C, since it was asked to work for a long time"""


def command(
    arguments: Sequence[str], place: Path, *, endless: bool = False, stdout: str = "", still: bool = False
) -> Ended:
    """``manyheads ARGUMENTS``, run in the folder ``place``; ``endless`` if it may take any time until Ctrl-C.

    A ``still`` clock makes all rounds last 0 seconds, so that every byte written is the same another time.
    """

    def act() -> None:
        from manyheads.cli import main

        if still:
            time.perf_counter = lambda: 0.0
        sys.argv = ["manyheads", *arguments]
        main()

    return in_child(act, place, endless=endless, stdout=stdout)


def in_child(act: Callable[[], None], place: Path, *, endless: bool = False, stdout: str = "") -> Ended:
    """Call a function in a process of its own, as the main program of it."""
    out, err = place / ".stdout", place / ".stderr"
    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # it must not come before the child is one
    child = os.fork()
    if not child:
        _be_the_child(act, place, Path(stdout) if stdout else out, err)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    code, hung, stopped = _awaited(child, endless)
    told, wrote = (file.read_text("utf-8", "backslashreplace") if file.exists() else "" for file in (out, err))
    for file in (out, err):
        file.unlink(missing_ok=True)
    return Ended(code, told, wrote, hung, stopped)


def _be_the_child(act: Callable[[], None], place: Path, out: Path, err: Path) -> None:
    """Become a fresh program with its own streams, and never return."""
    code = 70
    try:
        gc.freeze()  # garbage of the parent may wait for threads that are not here
        os.setsid()  # with all that it starts, it can be ended at once
        os.chdir(place)
        faulthandler.disable()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, path, flags in ((0, "/dev/null", os.O_RDONLY), (1, out, _WRITE), (2, err, _WRITE)):
            opened = os.open(path, flags, 0o600)
            os.dup2(opened, number)
            os.close(opened)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8", "strict")
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "backslashreplace", write_through=True)
        resource.setrlimit(resource.RLIMIT_DATA, (_memory() + MEMORY,) * 2)  # not what is only reserved
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = _code_of(act)
    finally:
        os._exit(code)


_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def _code_of(act: Callable[[], None]) -> int:
    """The exit code of a program that does this; what it lets through is shown as Python does."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        act()
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        sys.stderr.write(f"Exception ignored: {error!r}\n")
        return 120
    return code


def _memory() -> int:
    """The bytes of data that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")


def _awaited(child: int, endless: bool) -> tuple[int, bool, bool]:
    """Wait for a process: its code, whether it had to be killed, and whether it was stopped by Ctrl-C."""
    started, stopped, pause = time.monotonic(), False, 0.001
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        waited = time.monotonic() - started
        if endless and not stopped and waited > PATIENCE:
            os.kill(child, signal.SIGINT)
            stopped = True
        if waited > LIMIT:
            os.killpg(child, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), True, stopped
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # workers that outlive it by a moment
    return os.waitstatus_to_exitcode(status), False, stopped
