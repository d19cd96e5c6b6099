"""Ray at length: ``make test-cluster``. Clusters of two nodes, drivers that are stopped and killed, wrong set-ups."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import rays
import torch
from processes import mentioning, until

from manyheads.engines.ray_keeper import marked

pytestmark = pytest.mark.skipif(not os.environ.get("MANYHEADS_CLUSTER"), reason="make test-cluster runs it")
MANYHEADS = [sys.executable, "-m", "manyheads"]
RAY = ["--engine.executor", "ray", "--workers", "2"]
DATA = ["--data", "digits", "--partition", "classes:3", "--clients", "12"]
COMPARE = ["compare", "digits", "--partition", "classes:3", "--clients", "6", "--methods", "fedavg,fedrep"]
COMPARE += ["--rates", "0.05,0.1", "--rounds", "10", "--local-rounds", "10", "--seeds", "1", "--folds", "2"]
COMPARE += ["--baselines", "linear", "--pooled", "false", "--json"]


def run(algorithm: str, out: Path, *more: str) -> list[str]:
    words = ["--rounds", "40", "--evaluate.every", "40", "--checkpoint-seconds", "0", "--resume", "--json"]
    return [*MANYHEADS, "run", *DATA, "--algorithm", algorithm, "--out", str(out), *words, *more]


def told(command: list[str], **options) -> dict:
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def error(command: list[str], environment: dict[str, str]) -> str:
    """The line with which a command fails; it writes nothing else but how far it is."""
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 2, done.stderr
    *before, last = done.stderr.splitlines()
    assert all("starting it" in line or line.startswith("round ") for line in before), done.stderr
    assert last.startswith("error: ")
    return last


def table(found: dict) -> dict:
    """What a comparison found, without times."""
    methods = {k: {n: v for n, v in m.items() if n != "seconds"} for k, m in found["methods"].items()}
    return {"methods": methods, "recommendation": found["recommendation"], "sites": found["sites"]}


def rounds_of(out: Path) -> int:
    file = out / "history.jsonl"
    return file.read_text().count("\n") if file.exists() else 0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = rays.Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.start("head")
        made.start("second")
        yield made
    finally:
        made.end()


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> dict:
    return told([*MANYHEADS, *COMPARE, "--out", str(tmp_path_factory.mktemp("here") / "run")])


def on(cluster: rays.Cluster, out: Path) -> list[str]:
    return [*MANYHEADS, *COMPARE, "--out", str(out), *RAY, "--engine.address", cluster.address]


def test_a_comparison_on_two_nodes_has_the_same_table_and_both_work(cluster, compared, tmp_path):
    driver = subprocess.Popen(on(cluster, tmp_path / "run"), env=cluster.environment, stdout=subprocess.PIPE, text=True)
    for node in ("head", "second"):
        until(lambda node=node: cluster.busy(node))
    out, _ = driver.communicate()
    assert table(json.loads(out)) == table(compared)
    until(lambda: not [p for node in cluster.marks for p in cluster.processes(node) if "ray::Actor" in rays.title(p)])


def test_a_run_on_two_nodes_has_the_same_numbers(cluster, tmp_path):
    here = told(run("fedrep", tmp_path / "here"))
    there = told(run("fedrep", tmp_path / "there", *RAY, "--engine.address", cluster.address), env=cluster.environment)
    assert there["checksum"] == here["checksum"]


def test_an_experiment_on_two_nodes_has_the_same_facts(cluster, tmp_path):
    command = [*MANYHEADS, "reproduce", "collins2021.figure4", "--json", "--seeds", "2"]
    parts = ["--out", "results", "--work", "work"]
    found = []
    for place, more in (("here", []), ("there", [*RAY, "--engine.address", cluster.address])):
        (tmp_path / place).mkdir()
        found.append(told([*command, *parts, *more], env=cluster.environment, cwd=tmp_path / place))
    assert found[0]["records"]
    facts = [[{k: v for k, v in r.items() if "seconds" not in k} for r in each["records"]] for each in found]
    assert facts[0] == facts[1]


def test_the_wrong_token_and_other_versions_are_one_line(cluster, tmp_path):
    command = [*run("fedrep", tmp_path / "run"), *RAY, "--engine.address", cluster.address]
    said = error(command, cluster.environment | {"RAY_AUTH_TOKEN": "0" * 32})
    assert "the cluster does not let this machine in" in said
    (tmp_path / "sitecustomize.py").write_text("import ray; ray.__version__ = '2.59.0'\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    said = error(command, cluster.environment | {"PYTHONPATH": path})
    assert "Version mismatch" in said
    assert "install the same versions of Python and Ray on all machines" in said


def test_a_node_with_another_manyheads_is_one_line(cluster, tmp_path):
    """A third node, whose first package of that name says that it is another version."""
    (tmp_path / "manyheads-9.9.dist-info").mkdir()
    (tmp_path / "manyheads-9.9.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: manyheads\nVersion: 9.9\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    cluster.start("other", PYTHONPATH=path)
    try:
        command = [*run("fedrep", tmp_path / "run"), "--engine.executor", "ray", "--workers", "3"]
        said = error([*command, "--engine.address", cluster.address], cluster.environment)
    finally:
        cluster.kill("other")
    assert "has manyheads 9.9, and this machine" in said
    assert "install the same versions on all nodes" in said


def test_a_node_killed_in_the_middle_of_a_comparison_changes_nothing(cluster, compared, tmp_path):
    driver = subprocess.Popen(on(cluster, tmp_path / "run"), env=cluster.environment, stdout=subprocess.PIPE, text=True)
    until(lambda: len(list((tmp_path / "run" / "runs").glob("*/history.jsonl"))) >= 3 and cluster.busy("second"))
    cluster.kill("second")
    out, _ = driver.communicate()
    assert table(json.loads(out)) == table(compared)
    cluster.start("second")


@pytest.mark.parametrize("name", rays.METHODS)
def test_an_actor_killed_and_the_driver_killed_and_resumed(name, tmp_path):
    """An actor by -9 in the middle of a round; later the driver; then resumed, again by Ray."""
    whole, out = told(run(name, tmp_path / "whole")), tmp_path / "cut"
    driver = subprocess.Popen(run(name, out, *RAY), stdout=subprocess.DEVNULL)
    until(lambda: rounds_of(out) >= 2 and rays.busy_actors(driver.pid))
    mark = rays.mark_of_instance(driver.pid)
    for actor in rays.busy_actors(driver.pid)[:1]:
        os.kill(actor, signal.SIGKILL)
    done = rounds_of(out)
    until(lambda: rounds_of(out) > done + 2)
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
    until(lambda: not marked(mark))
    assert told(run(name, out, *RAY))["checksum"] == whole["checksum"]


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopped_it_says_how_to_go_on_and_leaves_nothing(stop, tmp_path):
    out = tmp_path / "run"
    command = [*run("fedrep", out, *RAY), "--rounds", "4000"]
    driver = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until(lambda: rounds_of(out) >= 2)
    mark = rays.mark_of_instance(driver.pid)
    os.killpg(driver.pid, stop)  # as a terminal does: to all that is in the command's group
    _, said = driver.communicate()
    assert driver.returncode == 130
    assert "Go on with: manyheads run --resume" in said
    assert "Traceback" not in said
    assert marked(mark) == []
    assert mentioning(mark) == []  # the keeper


OWN = '''
import os, signal, sys
from pathlib import Path
from typing import ClassVar

tests, place, executor = sys.argv[1:]
sys.path.insert(0, tests)
import ray  # before anything of its settings is known
from problems import ragged, small_net

from manyheads import Algorithm, Engine, FedAvg, State, settings, simulate
from manyheads.models import Model

@settings
class Deadly(Algorithm):
    """FedAvg whose processes die in round 4, as long as a file is there."""

    name: ClassVar[str] = "deadly"
    paper = travels = stays = "none"
    models: ClassVar[tuple[str, ...]] = ("global",)
    folder: str = "."

    def init_server(self, params, population):
        return State(model=params.all)

    def local(self, cohort, server, client):
        if cohort.round.index == 4 and Path(self.folder, "deadly").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return FedAvg().local(cohort, server, client)

    def global_model(self, server):
        return server.model

engine, out = Engine(executor=executor, workers=2 if executor == "ray" else 1), Path(place, executor)
things = Deadly(folder=place), Model(small_net()), ragged()
print(simulate(*things, rounds=6, out=out, resume=True, engine=engine).checksum)
'''


def test_a_method_of_a_script_that_kills_its_actors_is_one_error_and_the_checkpoint_is_kept(tmp_path):
    """The class is of the script itself, which actors cannot import: it travels as code."""

    def script(executor: str) -> subprocess.CompletedProcess:
        (tmp_path / "own.py").write_text(OWN)
        words = [sys.executable, tmp_path / "own.py", Path(__file__).parent.parent, tmp_path, executor]
        return subprocess.run(words, capture_output=True, text=True)

    (tmp_path / "deadly").touch()
    failed = script("ray")
    assert "3 actors that worked on the same task have died one after another" in failed.stderr.splitlines()[-1]
    assert list((tmp_path / "ray" / "checkpoint").iterdir())
    (tmp_path / "deadly").unlink()
    done, here = script("ray"), script("local")
    assert done.stdout == here.stdout != "", done.stderr


GPU = """
import sys
sys.path.insert(0, sys.argv[1])
import ray
from problems import ragged, small_net

from manyheads import Engine, FedAvg, simulate
from manyheads.models import Model

ray.init("local", num_cpus=2, num_gpus=1, include_dashboard=False, log_to_driver=False)
things = FedAvg(), Model(small_net()), ragged()
print(simulate(*things, rounds=2, engine=Engine(executor="ray", device="cpu")).checksum)
print(simulate(*things, rounds=2).checksum)
simulate(*things, rounds=2, engine=Engine(executor="ray"))
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about a node without a GPU")
def test_a_node_that_promises_a_gpu_that_it_lacks_is_one_line(tmp_path):
    """Ray believes what a node says of itself; the actor is given that GPU. A connection of the user's own is used."""
    words = [sys.executable, "-c", GPU, str(Path(__file__).parent.parent)]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"HOME": str(tmp_path)})
    first, second = done.stdout.split()
    assert first == second
    said = next(line for line in done.stderr.splitlines() if "UserError: engine.device" in line)
    assert "Ray has given a GPU of" in said
    assert "use --device cpu" in said
