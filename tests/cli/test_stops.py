"""Ctrl-C, SIGTERM and SIGHUP, sent to real commands: exit code 130, no traceback, no worker left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import mentioning, until

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
COMMAND = [sys.executable, "-m", "manyheads", "run", "--data", "digits", "--clients", "8", "--partition", "classes:3"]
COMMAND += ["--rounds", "100000", "--checkpoint-seconds", "0", "--workers", "2", "--engine", "loop"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes and their signals in /proc")


def started(out: Path, **options):
    return subprocess.Popen(
        [*COMMAND, "--out", out], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def handles(process: subprocess.Popen, number: int) -> bool:
    """Whether the process has a handler for a signal."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
    return bool(caught >> (number - 1) & 1)


@pytest.mark.parametrize("number", SIGNALS)
def test_stopped_while_it_is_loading(tmp_path, number):
    with started(tmp_path / "run") as process:
        until(lambda: handles(process, signal.SIGHUP))  # the last one that is installed, before anything is loaded
        process.send_signal(number)
        _, err = process.communicate()
    assert process.returncode == 130
    assert err == "stopped\n"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("number", SIGNALS)
def test_stopped_while_workers_train_says_what_is_saved_and_leaves_no_process(tmp_path, number):
    """The whole group gets it, as from a terminal or a service manager: workers leave it to their parent."""
    out = tmp_path / "run"
    with started(out, start_new_session=True) as process:
        until(lambda: process.poll() is not None or list(out.glob("checkpoint/round-*")))
        os.killpg(process.pid, number)
        _, err = process.communicate()
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert f"rounds are saved. Go on with: manyheads run --resume --out {out}" in err
    assert not mentioning(str(out))


def test_a_hangup_that_is_ignored_stays_ignored(tmp_path):
    """nohup manyheads run ..."""
    out = tmp_path / "run"
    with started(out, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as process:
        until(lambda: process.poll() is not None or list(out.glob("checkpoint/round-*")))
        process.send_signal(signal.SIGHUP)
        seen = max(out.glob("checkpoint/round-*"), default=out)
        until(lambda: process.poll() is not None or max(out.glob("checkpoint/round-*"), default=out) > seen)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()
    assert process.returncode == 130, err


def test_a_stop_that_was_lost_takes_effect_at_the_next_round(tmp_path):
    """Python only prints an exception in a finalizer, and goes on: here, that of the interrupt."""
    lose = """
import os, signal, sys
from manyheads.cli import main
from manyheads.core.history import History

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10): pass  # the handler runs here

append = History.append
def after_append(self, record):
    append(self, record)
    Finalized()
History.append = after_append
main()
"""
    command = [sys.executable, "-c", lose, *COMMAND[3:], "--out", tmp_path / "run"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "Exception ignored" not in done.stderr
    assert "stopped; " in done.stderr
    assert done.returncode == 130


LOSES_ONE = """
import signal, time
from manyheads.cli import stops
class Thing:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)
stops.by_interrupt()
"""


def test_an_interrupt_in_a_finalizer_is_neither_lost_nor_printed():
    program = """
try:
    Thing()
    time.sleep(600)
except KeyboardInterrupt:
    print("stopped")
"""
    done = subprocess.run([sys.executable, "-c", LOSES_ONE + program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("stopped\n", "")


def test_an_interrupt_that_was_lost_is_raised_once():
    """By the check at the end of a round, and not once more while that one is handled."""
    program = """
try:
    Thing()
    stops.check()
except KeyboardInterrupt:
    time.sleep(10 * stops.RETRY_AFTER)
    print("stopped once")
"""
    done = subprocess.run([sys.executable, "-c", LOSES_ONE + program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("stopped once\n", "")
