"""Actors of Ray on this machine: the same numbers as without, whatever dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import rays
import torch
from commands import error_of
from problems import ragged, small_net
from processes import until

from manyheads import Engine, simulate
from manyheads.algorithms import FedRep
from manyheads.core.errors import UserError
from manyheads.core.trees import Tree
from manyheads.data import Federation
from manyheads.engines.cluster import Actors, Share, on_ray
from manyheads.engines.ray_actor import Setting, code_here
from manyheads.engines.ray_connection import connected
from manyheads.engines.ray_keeper import marked
from manyheads.engines.workbench import Keep, Workbench, at_work, tried_on
from manyheads.experiments.compare import compare
from manyheads.models import Model

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
TWO = Engine(executor="ray", workers=2)
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


@pytest.fixture(scope="module")
def instance():
    """An instance of our own, which all tests share; the mark of its processes."""
    with connected("local", cpus=4):  # two for the actors that some tests share
        yield rays.mark_of_instance(os.getpid())


@pytest.fixture(scope="module")
def actors(instance):
    with on_ray(TWO, 2, rays.Bench, (10,), None) as actors:
        list(actors.map(rays.where, None, range(8)))
        yield actors


def test_results_come_in_the_order_of_the_tasks(actors):
    assert list(actors.map(rays.add, None, range(20))) == [10 + i for i in range(20)]


def test_tasks_are_dealt_as_actors_become_free(actors, tmp_path):
    assert list(actors.map(rays.first_waits_for_last, tmp_path, range(10))) == list(range(10))


def test_what_all_tasks_have_in_common_is_stored_once_and_held_by_each_actor(actors, monkeypatch):
    import ray

    stored, put = [], ray.put
    monkeypatch.setattr(ray, "put", lambda value: stored.append(value) or put(value))
    for number in (100, 200):
        found = list(actors.map(rays.told, [number], range(12)))
        assert [value for *_, value in found] == [number + i for i in range(12)]
        assert len({place[:2] for place in found}) <= 2
    assert stored == [(rays.told, [100]), (rays.told, [200])]


@pytest.mark.parametrize("size", [3, 300_000])
def test_trees_travel_whatever_their_strides_and_can_be_written_to(actors, size):
    """Ray's own arrays are read-only: torch would write to them nevertheless, and crash."""
    given = [torch.arange(2.0 * size).reshape(2, size).T, torch.ones(1).expand(4), torch.tensor(1.5)]
    for value, result in zip(given, actors.map(rays.double, None, [Tree({"w": v}) for v in given]), strict=True):
        assert torch.equal(result["w"], 2 * value)
        assert result["w"].data_ptr() % 64 == 0
        result["w"].add_(1)


def test_an_error_in_an_actor_is_raised_here_with_its_traceback_and_the_actor_goes_on(actors):
    with pytest.raises(UserError, match="no such thing"):
        list(actors.map(rays.fail, None, [UserError("no such thing")]))
    with pytest.raises(KeyError) as caught:
        list(actors.map(rays.fail, None, [KeyError("x")]))
    assert "in fail" in caught.value.__notes__[0]
    assert list(actors.map(rays.add, None, [1, 2, 3])) == [11, 12, 13]


def test_a_task_whose_actor_dies_is_done_by_another_and_the_actor_is_replaced(actors, tmp_path):
    before = set(actors.map(rays.where, None, range(8)))
    assert list(actors.map(rays.die_until, tmp_path, [(i, int(i == 2)) for i in range(6)])) == list(range(6))
    until(lambda: len(set(actors.map(rays.where, None, range(8))) - before) == 1)


def test_a_lock_that_outlasts_its_actor_is_waited_for(actors, tmp_path):
    assert list(actors.map(rays.locked_after_death, tmp_path, [0])) == [3]


def test_a_task_that_kills_its_actors_is_given_up_in_one_line(actors, tmp_path):
    with pytest.raises(UserError, match="3 actors that worked on the same task have died.*--resume"):
        list(actors.map(rays.die_until, tmp_path, [(0, 100)]))
    assert len(list(tmp_path.iterdir())) == 3
    assert list(actors.map(rays.add, None, [1])) == [11]


def test_actors_that_die_when_they_are_started_are_one_line(instance):
    with (
        on_ray(TWO, 1, rays.die_at_once, (), None) as actors,
        pytest.raises(UserError, match="all actors have died while they were started: .*memory"),
    ):
        list(actors.map(rays.add, None, [1]))


def test_the_data_are_not_copied_by_each_actor(instance, tmp_path):
    """They are in the memory that the actors of a node share, also if they were mapped from files."""
    federation = ragged()
    federation.save(tmp_path / "saved")
    both = federation, Federation.load(tmp_path / "saved")
    with on_ray(TWO, 1, rays.Bench, (10, both), None) as actors:
        assert list(actors.map(rays.shared_memory, None, [0, 1])) == [(False, False)] * 2


def test_an_actor_uses_the_device_that_ray_gives_it_one_thread_and_the_driver_s_variables(instance, monkeypatch):
    """Here that is the CPU; nothing on the way knows more of a GPU than this."""
    monkeypatch.setenv("MANYHEADS_OF_A_TEST", "7")
    federation, model = ragged(), Model(small_net())
    bench = Workbench(FedRep(), tried_on(model, federation), federation, "auto", "cpu", Keep())
    with at_work(bench, TWO) as executor:
        assert list(executor.map(rays.device, None, [0])) == [("cpu", "cpu", 1, 0)]
        assert list(executor.map(rays.variable, "MANYHEADS_OF_A_TEST", [0])) == ["7"]
    with pytest.raises(UserError, match="the cluster has no GPU; given 'cuda'; allowed: auto, cpu"):
        Share.of(replace(TWO, device="cuda"), 2, {"CPU": 2})
    with pytest.raises(UserError, match="Ray decides which GPU it is; given 'cuda:1'"):
        replace(TWO, device="cuda:1").check()


def test_a_signal_to_the_group_of_the_driver_does_not_reach_its_processes(instance, actors):
    """Ray ends a driver whose processes have gone, with words and an exit code of its own."""
    assert os.getpgid(0) not in {os.getpgid(process) for process in marked(instance)}


def test_it_listens_on_this_machine_only(instance, actors):
    processes = marked(instance)
    assert len(processes) > 4
    assert listening_beyond_loopback(processes) == set()
    assert len(rays.listening(processes)) >= 1


def listening_beyond_loopback(processes: list[int]) -> set[str]:
    return rays.listening([*processes, os.getpid()]) - LOOPBACK


@pytest.mark.parametrize("name", [name for name in rays.METHODS if name != "fedrep"])
def test_the_same_numbers_with_two_actors(instance, divided, name):
    things = rays.METHODS[name], Model(small_net()), ragged()
    assert simulate(*things, rounds=4, engine=TWO).checksum == simulate(*things, rounds=4).checksum


def test_the_same_numbers_when_an_actor_is_killed_in_the_middle_of_a_round(instance, divided):
    things = FedRep(), Model(small_net()), ragged()
    with rays.killing_an_actor(os.getpid()) as on_round:
        killed = simulate(*things, rounds=4, engine=TWO, on_round=on_round)
    assert killed.checksum == simulate(*things, rounds=4).checksum


def test_a_comparison_has_the_same_results(instance, tmp_path):
    few = {"methods": ["fedavg"], "rounds": 2, "seeds": 1, "rates": [0.1], "folds": 2, "batch": 8, "pooled": False}
    few |= {"baselines": ["majority"], "local_rounds": 2}
    here = compare(ragged((20, 24)), **few)
    there = compare(ragged((20, 24)), **few, engine=TWO, out=tmp_path / "ray")
    assert {k: m.per_seed for k, m in there.methods.items()} == {k: m.per_seed for k, m in here.methods.items()}
    assert [file.name for file in (tmp_path / "ray").glob(".*.tmp")] == []


def test_a_folder_that_a_node_does_not_see_is_one_line(instance, tmp_path):
    elsewhere = Setting({}, str(tmp_path), tuple(sys.path), tmp_path / "runs" / ".mark", code_here())
    actors = Actors(Share(1, 0), elsewhere, rays.Bench, (10,))
    with pytest.raises(UserError, match="does not see .*runs, where runs are kept; use a folder.* all nodes have"):
        list(actors.map(rays.add, None, [1]))
    actors.close()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("version_of", lambda name: "9.9", "has manyheads .* and this machine 9.9; install the same versions"),
        ("code_here", lambda: "another", "another state of manyheads than this machine, of the same version"),
    ],
)
def test_another_version_at_a_node_is_one_line(instance, monkeypatch, name, value, said):
    monkeypatch.setattr(f"manyheads.engines.cluster.{name}", value)
    with on_ray(TWO, 1, rays.Bench, (10,), None) as actors, pytest.raises(UserError, match=said):
        list(actors.map(rays.add, None, [1]))


RUN = ["run", "--data", "digits", "--partition", "classes:3", "--clients", "12", "--algorithm", "fedrep"]
RUN += ["--checkpoint-seconds", "0", "--rounds", "60", "--evaluate.every", "60"]


def test_what_is_wrong_is_said_in_one_line_before_anything_is_written(capsys, tmp_path, monkeypatch):
    def said(*more: str) -> str:
        return error_of(capsys, *RUN, "--out", tmp_path / "run", "--engine.executor", "ray", *more)

    # other tests have connected this process, perhaps; then it needs no address
    monkeypatch.setattr("manyheads.engines.ray_connection._is_connected", lambda: False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    assert "no token for the cluster" in said("--engine.address", "127.0.0.1:1")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 32)
    assert "no cluster answers there" in said("--engine.address", "127.0.0.1:1")
    assert "no cluster answers there" in said("--engine.address", "nowhere.invalid:6379")
    for wrong in ("nonsense", "ray://head:10001", "head:port"):
        assert "no such address" in said("--engine.address", wrong)
    idle = error_of(capsys, *RUN, "--out", tmp_path / "run", "--engine.address", "auto")
    assert "engine.address: is for Ray; given 'auto'; add --engine.executor ray" in idle
    monkeypatch.setitem(sys.modules, "ray", None)
    assert 'pip install "manyheads[ray]"' in said()
    assert not (tmp_path / "run").exists()


def test_killed_with_its_actors_working_it_leaves_no_process_and_is_gone_on_with_elsewhere(tmp_path):
    """The driver, with an instance of its own, by kill -9 in the middle of a round; then resumed without Ray."""
    command = [sys.executable, "-m", "manyheads", *RUN, "--json"]
    whole = subprocess.run([*command, "--out", tmp_path / "whole"], capture_output=True, text=True, check=True)
    cut, engine = tmp_path / "cut", ["--engine.executor", "ray", "--workers", "2"]
    driver = subprocess.Popen([*command, "--out", cut, *engine])
    until(lambda: (cut / "history.jsonl").exists() and (cut / "history.jsonl").read_text().count("\n") >= 2)
    until(lambda: rays.busy_actors(driver.pid))
    mark = rays.mark_of_instance(driver.pid)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    until(lambda: not marked(mark))
    rest = [*command, "--out", cut, "--resume", "--engine.executor", "local"]
    done = subprocess.run(rest, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["checksum"] == json.loads(whole.stdout)["checksum"]
