"""Where worker processes can be started: scripts with and without a guard, sessions, other processes. In real interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Pool, current_process, get_context
from pathlib import Path

import pytest

from manyheads.core.errors import UserError
from manyheads.engines.engine import Engine
from manyheads.engines.executor import working
from manyheads.engines.starting import hindrance

SRC = Path(__file__).parents[2] / "src"

WORK = """
import manyheads as mh
import numpy as np
from manyheads.models import MLP
from manyheads.engines import executor
from torch import nn

executor.SPAWNED = 0.0  # seconds of patience: processes even for little work
print("read by", "the script" if __name__ == "__main__" else "a worker")


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(100, 1200), nn.Linear(1200, 2)

    def forward(self, x):
        return self.head(self.body(x).relu())


def federation(clients, size):
    draws = np.random.default_rng(0)
    made = [(draws.normal(size=(40, size)).astype("float32"), np.arange(40) % 2) for _ in range(clients)]
    return mh.Federation.from_clients(made)


def train(net=None, **engine):
    model = net or MLP(hidden=(300, 300))  # more than 110,000 parameters: several chunks
    engine = mh.Engine(start_method="spawn", **engine)
    try:
        print("trained", mh.simulate(mh.FedAvg(), model, federation(8, 100), rounds=1, engine=engine).checksum)
    except ValueError as error:
        print(type(error).__name__, error)

"""
GUARDED = 'def main():\n    train()\n\n\nif __name__ == "__main__":\n    main()\n'


def ran(place: Path, *words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(SRC)}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=place, env=environment, input=given, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> str:
    """The checksum of the same training by one process."""
    place = tmp_path_factory.mktemp("alone")
    (place / "script.py").write_text(WORK + "train(workers=1)\n")
    return ran(place, "script.py").stdout.splitlines()[-1]


@pytest.mark.parametrize("words", [["script.py"], ["-m", "script"]], ids=" ".join)
def test_a_script_with_a_guard_has_a_worker_a_core(tmp_path, alone, words):
    (tmp_path / "script.py").write_text(WORK + GUARDED)
    done = ran(tmp_path, *words)
    read = ["read by the script"] + ["read by a worker"] * min(len(os.sched_getaffinity(0)), 4)
    assert sorted(done.stdout.splitlines()) == sorted([*read, alone]), done.stderr
    assert done.stderr == ""


def test_a_script_without_one_is_told_so_once_and_trained_by_one_process(tmp_path, alone):
    (tmp_path / "script.py").write_text(WORK + "train()\n")
    done = ran(tmp_path, "script.py")
    assert done.stdout.splitlines() == ["read by the script", alone]
    assert done.stderr.count("worker processes import this script, and would run it again") == 1
    assert 'put what it does under `if __name__ == "__main__":`, or use one worker' in done.stderr


def test_a_short_script_needs_no_guard(tmp_path, alone):
    (tmp_path / "script.py").write_text(WORK.replace("SPAWNED = 0.0", "SPAWNED = 60.0") + "train()\n")
    done = ran(tmp_path, "script.py")
    assert (done.stdout.splitlines(), done.stderr) == (["read by the script", alone], "")


def test_workers_that_were_asked_for_without_a_guard_are_one_clear_line(tmp_path):
    (tmp_path / "script.py").write_text(WORK + "train(workers=2)\n")
    done = ran(tmp_path, "script.py")
    assert done.stdout.splitlines()[1:] == [
        "UserError engine.workers: worker processes import this script, and would run it again; "
        'put what it does under `if __name__ == "__main__":`, or use one worker'
    ]
    assert done.stderr == ""


def test_a_session_has_workers_unless_they_need_its_own_classes(tmp_path, alone):
    """python -c has no file that a worker could import, as a notebook or an interactive session."""
    (tmp_path / "tools.py").write_text(WORK)
    done = ran(tmp_path, "-c", "from tools import train; train()")
    assert done.stdout.splitlines()[-1] == alone
    assert done.stderr == ""
    own = ran(tmp_path, "-c", WORK + "train(mh.Model(Own(), head='head'))")
    assert own.stdout.splitlines()[-1].startswith("trained ")
    assert own.stderr.count("worker processes cannot see what was defined in a notebook, a session") == 1
    assert "put your classes into a file and import them" in own.stderr


def test_a_program_on_standard_input_is_trained_by_one_process(tmp_path, alone):
    done = ran(tmp_path, "-", given=WORK + GUARDED)
    assert done.stdout.splitlines()[-1] == alone
    assert done.stderr.count("UserWarning") == 1


def test_a_comparison_without_a_guard_goes_on_in_one_process(tmp_path):
    call = (
        "result = mh.compare(federation(3, 4), model='linear', methods=['fedavg'], rounds=2, rates=[0.1], seeds=1, folds=2,"
        " baselines=[], out='out', engine=mh.Engine(start_method='spawn'))\nprint('compared', len(result.methods))\n"
    )
    (tmp_path / "script.py").write_text(WORK + call)
    done = ran(tmp_path, "script.py")
    assert done.stdout.splitlines()[0] == "read by the script"
    assert done.stdout.splitlines()[-1].startswith("compared"), done.stderr
    assert "a worker" not in done.stdout
    assert done.stderr.count("would run it again") == 1


FORKED_AFTER_THREADS = """
import torch

torch.set_num_threads(4)  # their pool is not there in a forked process
net, x = torch.nn.Linear(1000, 1000), torch.rand(1000, 1000)
for _ in range(3):
    net(x).square().mean().backward()
import manyheads as mh
from tools import MLP, federation

print(mh.simulate(mh.FedAvg(), MLP(hidden=(300, 300)), federation(8, 100), rounds=2).rounds)
print(torch.get_num_threads())
"""


def test_forked_workers_do_not_wait_for_threads_that_their_parent_had(tmp_path):
    (tmp_path / "tools.py").write_text(WORK)
    done = ran(tmp_path, "-c", FORKED_AFTER_THREADS)
    assert done.stdout.splitlines()[-2:] == ["2", "4"], done.stderr


def default_workers(_: int) -> tuple[int, bool]:
    return Engine(device="cpu").resolved_workers(), current_process().daemon


def test_one_of_many_processes_uses_its_own_core_alone():
    """Otherwise a search of the user's own, with a process a core, would have the square of that."""
    context = get_context("fork")
    with context.Pool(1) as pool:
        assert pool.map(default_workers, [0]) == [(1, True)]
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        assert list(pool.map(default_workers, [0])) == [(1, False)]
    assert Engine(device="cpu").resolved_workers() == len(os.sched_getaffinity(0))


def why_not(_: int) -> str:
    return str(hindrance("fork", "model", None))


def test_a_worker_may_not_start_others():
    with Pool(1) as pool:
        assert pool.map(why_not, [0])[0].startswith("engine.workers: this process is a worker itself")


def test_what_cannot_be_pickled_cannot_be_sent():
    found = hindrance("fork", "metrics", lambda: 0)
    assert isinstance(found, UserError)
    assert str(found).startswith("engine.workers: the metrics cannot be sent to worker processes: Can't pickle")
    assert hindrance("fork", "metrics", {"a": 1}) is None


class Bench:
    """What executors hold in these tests."""


def where(bench: Bench, common: float, task: int) -> int:
    time.sleep(common)
    return os.getpid()


def pids(engine: Engine, seconds: float, times: int = 1) -> list[list[int]]:
    with working(engine, 2, Bench(), Bench, lambda: (), short=True) as executor:
        return [list(executor.map(where, seconds, range(4))) for _ in range(times)]


def test_a_short_run_ends_before_a_process_is_started():
    assert pids(Engine(device="cpu"), 0.0, times=3) == [[os.getpid()] * 4] * 3


def test_a_longer_one_is_left_to_processes_where_it_stands():
    assert len(os.sched_getaffinity(0)) > 1
    first, second = pids(Engine(device="cpu"), 0.06, times=2)
    assert first[:2] == [os.getpid()] * 2  # 0.1 s of patience
    assert os.getpid() not in first[2:] + second


def test_processes_that_were_asked_for_are_started_at_once():
    (found,) = pids(Engine(device="cpu", workers=2), 0.0)
    assert os.getpid() not in found
