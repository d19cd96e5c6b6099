"""Killed with -9 at any instant, a resumed run ends with the very same numbers."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from processes import mentioning, until

from manyheads import load
from manyheads.cli import main
from manyheads.data import Classes, Digits, federate
from manyheads.engines.chunks import chunked
from manyheads.models import MODELS, build_model

ROUNDS = 40
# nine clients a round: enough work to be divided into chunks, and so to be given to workers
RUN = ["run", "--data", "digits", "--partition", "classes:3", "--clients", "12", "--algorithm", "fedrep"]
RUN += ["--algorithm.head-epochs", "2", "--participation", "0.75", "--checkpoint-seconds", "0", "--workers", "1"]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killer(where: str, call: int):
    """Install, in this process, a kill -9 at the given call of a function: before it, after it, or halfway through."""
    import manyheads.core.checkpoint
    import manyheads.core.history
    import manyheads.core.state_file
    import manyheads.run.evaluation
    import manyheads.run.loop

    owner, name, when = {
        "training": (manyheads.run.loop, "train_chunk", "after"),
        "evaluation": (manyheads.run.evaluation, "evaluate_chunk", "after"),
        "merge": (manyheads.run.loop, "server_round", "after"),
        "personal states, some written": (manyheads.core.state_file.StateFile, "write", "after"),
        "personal state, half written": (os, "pwrite", "half"),
        "history": (manyheads.core.history.History, "append", "after"),
        "checkpoint not yet begun": (manyheads.core.checkpoint, "save_file", "before"),
        "checkpoint written, not in place": (manyheads.core.checkpoint, "save_file", "after"),
        "checkpoint half written": (manyheads.core.checkpoint, "save_file", "half"),
        "checkpoint in place, old one still there": (Path, "replace", "after"),
        "old checkpoint being removed": (Path, "unlink", "before"),
        "start": (manyheads.core.history.History, "rewrite", "before"),
    }[where]
    real = getattr(owner, name)
    calls = 0

    def wrapped(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls < call:
            return real(*args, **kwargs)
        if when == "half" and name == "pwrite":
            real(args[0], args[1][: len(args[1]) // 2], args[2])
        elif when == "half":
            real(*args, **kwargs)
            os.truncate(args[1], os.path.getsize(args[1]) // 2)  # noqa: PTH202
        elif when == "after":
            real(*args, **kwargs)
        die()

    setattr(owner, name, wrapped)


PLACES = [
    ("training", 6),
    ("personal state, half written", 9),
    ("evaluation", 5),
    ("checkpoint half written", 3),
    ("checkpoint written, not in place", 2),
    ("start", 1),
    ("merge", 4),
    ("history", 3),
    ("checkpoint in place, old one still there", 4),
    ("personal states, some written", 3),
    ("old checkpoint being removed", 5),
    ("checkpoint not yet begun", 4),
]


def child(arguments: list[str], log: str, where: str | None, call: int) -> None:
    torch.set_num_threads(1)
    sys.stdout, sys.stderr = open(log, "w"), open(log + ".err", "w")  # noqa: SIM115
    if where:
        killer(where, call)
    main(arguments)


def run_child(out: Path, log: Path, where: str | None = None, call: int = 0, after: float | None = None) -> int:
    """Run the command line in a process of its own; its exit code, or minus the signal that ended it."""
    arguments = [*RUN, "--rounds", str(ROUNDS), "--out", str(out), "--resume", "--json"]
    process = multiprocessing.get_context("fork").Process(target=child, args=(arguments, str(log), where, call))
    process.start()
    process.join(after)
    if process.is_alive():
        process.kill()
        process.join()
    return process.exitcode


def without_seconds(out: Path) -> list[dict]:
    records = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]
    return [{k: v for k, v in r.items() if k not in ("seconds", "seal")} for r in records]


def afresh(code: str, *arguments: str, **options) -> subprocess.CompletedProcess:
    """Python code with all of this file, in an interpreter of its own.

    A fork of the tests' own would have what they left: locks that threads hold, garbage that waits for them.
    """
    tests = Path(__file__).parent
    paths = os.pathsep.join([str(tests), str(tests.parent), *sys.path])
    command = [sys.executable, "-c", f"from test_kill import *; {code}", *arguments]
    return subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, **options)


def test_killed_in_every_phase_and_resumed(tmp_path):
    done = afresh("kill_in_every_phase(Path(sys.argv[1]))", str(tmp_path), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def kill_in_every_phase(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with suppress(SystemExit):  # imports what a run needs, which all children then have
        main([*RUN, "--rounds", "1", "--out", str(tmp_path / "first"), "--json"])
    assert run_child(tmp_path / "whole", log) == 0
    whole = json.loads(log.read_text())
    for where, call in PLACES:
        code = run_child(tmp_path / "cut", log, where, call)
        assert code == -signal.SIGKILL, (where, (tmp_path / "log.err").read_text())
    rng = np.random.default_rng(0)
    for _ in range(6):
        assert run_child(tmp_path / "cut", log, after=rng.uniform(0.05, 0.5)) in (-signal.SIGKILL, 0)
    assert run_child(tmp_path / "cut", log) == 0
    cut = json.loads(log.read_text())
    assert cut["checksum"] == whole["checksum"]
    assert cut["accuracy"] == whole["accuracy"]
    assert without_seconds(tmp_path / "cut") == without_seconds(tmp_path / "whole")
    assert load(tmp_path / "cut").checksum == whole["checksum"]


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the workers in /proc")
def test_killed_with_its_workers_running(tmp_path):
    """The real command with two workers: kill -9 ends them too, and the resumed run matches one worker's.

    So it does after a worker was killed while it wrote a personal state.
    """
    federation, model = federate(Digits().pool(seed=0), Classes(3), clients=12, seed=0), MODELS.find("mlp")()
    parameters = build_model(model, federation.sample_shape, federation.outputs, seed=0).params.all.numel
    assert len(chunked(range(9), federation.train.sizes[:9], parameters, "auto")) > 1
    out = tmp_path / "cut"
    whole = json.loads(
        afresh(
            "main()",
            *RUN,
            "--rounds",
            str(ROUNDS),
            "--out",
            str(tmp_path / "whole"),
            "--json",
            capture_output=True,
            text=True,
        ).stdout
    )
    arguments = [*RUN, "--rounds", str(ROUNDS), "--out", str(out), "--resume", "--json", "--workers", "2"]
    assert afresh("killer('history', 5); main()", *arguments).returncode == -signal.SIGKILL
    until(lambda: not mentioning(str(out)))
    ended = afresh("killer('personal state, half written', 4); main()", *arguments, capture_output=True, text=True)
    assert "a worker process ended unexpectedly" in ended.stderr
    finished = afresh("main()", *arguments, capture_output=True, text=True, check=True)
    assert json.loads(finished.stdout)["checksum"] == whole["checksum"]
