"""Whatever goes wrong is told in one line, with exit code 2; what is our fault says so and where to read on."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from commands import call, error_of
from problems import ragged, small_net

from manyheads import Engine, FedAvg, UserError, compare, simulate
from manyheads.cli.failures import explained

COMMAND = [sys.executable, "-m", "manyheads"]


@pytest.fixture
def broken(monkeypatch, tmp_path):
    """A command that fails in a way nobody thought of."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr("manyheads.cli.algorithms.ALGORITHMS.imported", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return ["algorithms", "fed avg"]


def test_an_unexpected_error_is_one_line_that_names_the_file_with_the_traceback(broken, capsys, tmp_path):
    line = error_of(capsys, *broken)
    assert "a bug in manyheads (ZeroDivisionError: division by zero)" in line
    assert "--resume" in line
    assert "--debug" in line
    (file,) = tmp_path.glob("manyheads-error-*.txt")
    assert str(file) in line
    text = file.read_text()
    assert "Traceback" in text
    assert shlex.join(["manyheads", *broken]) in text
    machine = json.loads(re.search("^machine: (.*)$", text, re.MULTILINE)[1])
    assert machine["packages"]["torch"] == torch.__version__


def test_debug_shows_the_traceback_and_fails_all_the_same(broken, capsys, tmp_path):
    assert call("--debug", *broken) == 2
    assert "in fail" in capsys.readouterr().err
    assert call("--debug", "algorithms", "nosuch") == 2


def test_a_traceback_that_cannot_be_written_is_said(broken, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nosuch"))
    assert "the traceback cannot be written (No such file or directory)" in error_of(capsys, *broken)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "out of memory; use fewer --workers"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "out of memory"),
        (ValueError("array is too big; `arr.size * arr.dtype.itemsize` is larger than"), "out of memory"),
        (ValueError("Maximum allowed dimension exceeded"), "out of memory"),
        (torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "out of memory"),
        (OSError(errno.EMFILE, "Too many open files", "x"), "too many open files; allow more"),
        (PermissionError(errno.EACCES, "Permission denied", "a/b.csv"), "a/b.csv: Permission denied"),
        (OSError(errno.ENOSPC, "No space left on device"), "cannot write: No space left on device; free some space"),
        (RuntimeError("can't start new thread"), "no more threads can be started; allow more"),
        (RuntimeError("value cannot be converted to type float without overflow"), "a number is too large"),
        (OverflowError(34, "Numerical result out of range"), "a number is too large to compute with"),
        (ImportError("libx.so: failed to map segment"), "cannot load what manyheads needs: libx.so"),
    ],
)
def test_what_the_machine_refuses_is_no_bug(error, words):
    assert words in str(explained(error))


def test_memory_that_is_not_there(capsys, monkeypatch):
    monkeypatch.setattr("manyheads.cli.algorithms.ALGORITHMS.imported", lambda _: torch.empty(2**60))
    assert "out of memory" in error_of(capsys, "algorithms", "fedavg")


def shell(line: str) -> subprocess.CompletedProcess:
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(("output", "why"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")])
def test_standard_output_that_takes_nothing_is_one_line(output, why):
    done = shell(f"{shlex.join(COMMAND)} algorithms --json {output}")
    assert done.returncode == 2
    assert done.stderr == f"error: cannot write to standard output: {why}; send it elsewhere\n"


def test_a_reader_that_has_enough_is_no_error():
    done = shell(f"{shlex.join(COMMAND)} algorithms | head -1; exit ${{PIPESTATUS[0]}}")
    assert done.stdout.startswith("method")
    assert done.stderr == ""
    assert done.returncode == 0


def test_nobody_to_tell_is_no_reason_to_stop():
    done = shell(f"{shlex.join(COMMAND)} theory collins2022 --rounds 2 --seeds 2 --json 2>&-")
    assert len(json.loads(done.stdout)["runs"]) == 2
    assert done.returncode == 0


SMALL = ["--data", "digits", "--clients", 4, "--rounds", 1, "--workers", 1]


@pytest.mark.parametrize("device", ["nosuch", "meta", "cuda:99", ""])
def test_a_device_that_is_not_there_is_refused_before_anything_is_written(capsys, tmp_path, device):
    for command in ("run", "compare"):
        line = error_of(capsys, command, *SMALL, "--device", device, "--out", tmp_path / "out")
        assert f"engine.device: there is no such device here; given {device!r}; allowed: auto, cpu" in line
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="no such device"):
        simulate(FedAvg(), small_net(), ragged(), rounds=1, engine=Engine(device=device), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("method", "step"), [("fedavg", "sgd.lr"), ("scaffold", "lr"), ("perfedavg", "alpha"), ("dsgd", "lr")]
)
def test_a_step_size_beyond_all_numbers_is_one_line(capsys, tmp_path, method, step):
    words = ["run", *SMALL, "--algorithm", method, f"--algorithm.{step}", "1e300", "--out", tmp_path / "out"]
    line = error_of(capsys, *words)
    assert f"a number is too large to compute with; likely the step size is too large ({step} = 1e+300" in line


def test_a_comparison_leaves_out_a_step_size_beyond_all_numbers(tmp_path):
    few = {"rounds": 1, "seeds": 1, "rates": [1e300, 0.1], "baselines": ["majority"], "local_rounds": 1}
    found = compare(ragged(), small_net(), methods=["fedavg"], **few, out=tmp_path / "out")
    assert found["fedavg"].rate == 0.1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 5000 + "]" * 5000, "is nested too deeply"),
        ("rounds = " + "9" * 5000, "is not valid TOML: Exceeds the limit"),
        ("[algorithm]\nname = ['x']", "unknown algorithm; given"),
        ("[data]\nname = 3", "unknown data"),
        ("[data]\nname = {a = 1}", "unknown data"),
        ("[model]\nname = true", "unknown model; given"),
        ("[partition]\nname = [1]", "unknown partition; given"),
        ("data = 3", "config.data: bad value; given 3"),
    ],
)
def test_a_file_of_settings_with_anything_in_it_is_one_line(capsys, tmp_path, text, words):
    path = tmp_path / "config.toml"
    path.write_text(text)
    assert words in error_of(capsys, "run", path, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_thousands_of_workers_are_not_started():
    assert Engine(workers=10**6).resolved_workers() <= max(16, 4 * os.cpu_count())
