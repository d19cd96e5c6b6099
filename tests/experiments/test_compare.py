"""Comparisons with known answers, the separation of test samples, and going on after a kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from manyheads import SGD, Algorithm, Engine, FedAvg, Federation, FedRep, Local, Scaffold, State, Update, settings
from manyheads.core.errors import UserError
from manyheads.data import Classes, Digits, federate
from manyheads.data.samples import Samples
from manyheads.experiments import ComparisonResult, compare
from manyheads.experiments.methods import USUAL, methods_of
from manyheads.experiments.results import RateTried

sys.path.insert(0, str(Path(__file__).parent))
from planted import NAMES, model, noise, planted

TWO = Engine(workers=2)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_planted_federation_is_seen_through(seed):
    """Ten sites share a representation, two are unlike the rest, one has plenty of data."""
    found = compare(
        planted(seed), model(seed), methods=["fedavg", "fedrep"], rounds=20, seeds=3, rates=[0.1], batch=20, engine=TWO
    )
    assert found.recommendation.method == "fedrep"
    assert found["fedrep"].gain.verdict == "gains"
    verdicts = {row.name: row.verdict for row in found["fedrep"].gains}
    assert list(verdicts) == list(NAMES)
    alike = [verdicts[name] for name in NAMES if name.startswith("alike")]
    assert alike.count("gains") >= 8
    assert "loses" not in alike
    assert verdicts["unlike 0"] == verdicts["unlike 1"] == "loses"
    assert verdicts["plenty"] != "gains"
    assert "unlike 0, unlike 1" in found.check


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_where_labels_are_noise_no_method_is_recommended(seed):
    found = compare(
        noise(seed), model(seed, 10, 3, 3), methods=["fedavg", "fedavg+ft", "fedrep"], rounds=10, seeds=2, engine=TWO
    )
    assert found.recommendation.method is None
    assert found.recommendation.text.startswith("Not enough evidence")


def digits(clients: int = 6) -> Federation:
    return federate(Digits().pool(0), Classes(3), clients=clients, seed=0)


def test_poisoned_test_labels_change_neither_tuning_nor_recommendation():
    clean = planted(0)
    poison = np.random.default_rng(0).integers(0, clean.outputs, len(clean.test.y))
    poisoned = replace(clean, test=Samples(clean.test.x, poison, clean.test.offsets))
    a, b = (
        compare(f, model(0), methods=["fedavg", "fedrep"], rounds=5, seeds=2, rates=[0.03, 0.1], batch=20, engine=TWO)
        for f in (clean, poisoned)
    )
    assert a.recommendation == b.recommendation
    for name, method in a.methods.items():
        other = b[name]
        for key in ("rate", "rates", "curve", "rounds_to_target"):
            assert getattr(method, key) == getattr(other, key)
        assert method.score != other.score
    assert a.recommendation.method == "fedrep"
    assert b["fedrep"].gain.verdict != "gains"
    assert "do not confirm" in b.check


def test_the_same_results_with_one_worker_and_two_and_when_resumed(tmp_path):
    once = compare(digits(), methods=["fedavg", "fedavg+ft"], rounds=3, seeds=2, rates=[0.05, 0.2], out=tmp_path / "a")
    twice = compare(digits(), methods=["fedavg", "fedavg+ft"], rounds=3, seeds=2, rates=[0.05, 0.2], engine=TWO)
    again = compare(
        digits(), methods=["fedavg", "fedavg+ft"], rounds=3, seeds=2, rates=[0.05, 0.2], out=tmp_path / "a", resume=True
    )
    assert results(once.to_json()) == results(twice.to_json())
    assert once.methods == again.methods  # seconds too: nothing was trained anew
    with pytest.raises(UserError, match="exists already"):
        compare(digits(), rounds=1, out=tmp_path / "a")


def results(found):
    methods = {n: {k: v for k, v in m.items() if k != "seconds"} for n, m in found["methods"].items()}
    return methods, found["recommendation"], found["check"], found["target"]


def test_a_finetuned_method_shares_its_runs_and_differs_in_its_score(tmp_path):
    found = compare(digits(), methods=["fedavg", "fedavg+ft"], rounds=3, seeds=1, rates=[0.1], out=tmp_path / "a")
    runs = sorted(p.name for p in (tmp_path / "a" / "runs").iterdir())
    assert [name[:-9] for name in runs] == ["fedavg+ft-lr0.1-s0", "local-lr0.1-s0"]
    plain, tuned = found["fedavg"], found["fedavg+ft"]
    assert tuned.score > plain.score
    assert tuned.bytes == plain.bytes > 0
    assert tuned.curve[-1].score != plain.curve[-1].score


def test_scores_are_those_of_the_run_itself(tmp_path):
    """Accuracy and per-client gains, computed from scratch with the models that the runs have kept."""
    import torch

    from manyheads import load

    federation = digits()
    found = compare(federation, methods=["fedrep"], rounds=3, seeds=2, rates=[0.1], out=tmp_path / "a")
    accuracy = {}
    for name in ("local", "fedrep"):
        per_seed = []
        for seed in (0, 1):
            (folder,) = (tmp_path / "a" / "runs").glob(f"{name}-lr0.1-s{seed}-*")
            run = load(folder)
            scores = []
            for client in range(len(federation)):
                x, y = (torch.from_numpy(v) for v in federation.test.client(client))
                weights = run.client_model(client)
                with torch.no_grad():
                    out = torch.func.functional_call(run.model.module, dict(weights), (x.float(),))
                scores.append(float((out.argmax(1) == y).float().mean()))
            per_seed.append(scores)
        accuracy[name] = np.array(per_seed)
        assert found[name].score == pytest.approx(accuracy[name].mean(), abs=1e-6)
        assert found[name].per_seed == pytest.approx(accuracy[name].mean(axis=1), abs=1e-6)
    gains = [row.gain for row in found["fedrep"].gains]
    assert gains == pytest.approx((accuracy["fedrep"] - accuracy["local"]).mean(axis=0), abs=1e-6)


def test_a_step_size_that_diverges_is_left_and_a_method_that_always_does_is_left_out():
    rng = np.random.default_rng(0)
    clients = [(rng.normal(size=(40, 5)).astype(np.float32), rng.normal(size=40).astype(np.float32)) for _ in range(4)]
    federation = Federation.from_clients(clients, name="numbers")
    found = compare(federation, methods=["fedavg", "fedprox"], rounds=3, seeds=1, rates=[0.01, 1e20])
    assert found.score == "loss"
    assert [m.rate for m in found.methods.values()] == [0.01] * 3
    assert found["fedavg"].rates[1] == RateTried(1e20, None)
    with pytest.raises(UserError, match="training alone diverged"):
        compare(federation, methods=["fedavg"], rounds=3, seeds=1, rates=[1e20])


def test_a_regression_gains_where_the_loss_falls():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=5)
    xs = [rng.normal(size=(12, 5)).astype(np.float32) for _ in range(8)]
    clients = [(x, (x @ weights + 0.1 * rng.normal(size=12)).astype(np.float32)) for x in xs]
    federation = Federation.from_clients(clients, name="numbers", test_fraction=0.4)
    found = compare(federation, methods=["fedavg"], rounds=20, seeds=2, rates=[0.01, 0.05], batch=4, engine=TWO)
    fedavg, alone = found["fedavg"], found.alone
    assert fedavg.score < alone.score
    assert fedavg.gain.gain == pytest.approx(alone.score - fedavg.score)
    assert fedavg.interval[0] < fedavg.score < fedavg.interval[1]
    assert fedavg.worst_decile >= fedavg.score
    assert found.protocol.endswith("; squared error")
    assert found.to_json()["methods"]["fedavg"]["loss"] == fedavg.score
    assert ComparisonResult.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found


def test_methods_by_name():
    methods = methods_of(["fedrep"], 32, {"fedrep": {"head_epochs": 3}})
    assert list(methods) == ["local", "fedrep"]
    assert methods["fedrep"].algorithm.head_epochs == 3
    assert methods["fedrep"].algorithm.batch == methods["local"].algorithm.batch == 32
    assert methods["fedrep"].at(0.7, 10).sgd.lr == 0.7
    assert set(USUAL) < set(methods_of(["all"]))
    with pytest.raises(UserError, match="did you mean 'fedrep'"):
        methods_of(["fedrepp"])
    with pytest.raises(UserError, match="not compared"):
        methods_of(["fedavg"], None, {"ditto": {"lam": 1}})


def test_methods_as_objects_have_labels_that_tell_them_apart():
    two = FedRep(head_epochs=2)
    assert list(methods_of([two])) == ["local", "fedrep"]
    assert list(methods_of([two, "fedrep", FedRep, two])) == ["local", "fedrep(head_epochs=2)", "fedrep"]
    momentum = FedRep(sgd=SGD(lr=0.5, momentum=0.0))  # the step size is tuned: it tells nothing apart
    assert list(methods_of(["fedrep+ft", momentum])) == ["local", "fedrep+ft", "fedrep(sgd.lr=0.5, sgd.momentum=0.0)"]
    assert list(methods_of([FedRep(sgd=SGD(lr=0.5)), "fedrep"])) == ["local", "fedrep"]
    labelled = methods_of({"two": two, "two+ft": two, "plain": "fedavg"})
    assert [(n, m.finetuned) for n, m in labelled.items()] == [
        ("local", False), ("two", False), ("two+ft", True), ("plain", False),
    ]  # fmt: skip
    assert list(methods_of([("a", two), {"b": FedRep}])) == ["local", "a", "b"]
    assert list(methods_of(["scaffold", Scaffold(server_lr=0.5)])) == ["local", "scaffold", "scaffold(server_lr=0.5)"]
    long = methods_of(["fedavg", Local(epochs=3)])
    assert list(long) == ["local", "fedavg"]
    assert long["local"].algorithm.epochs == 3  # the yardstick is what was asked for
    with pytest.raises(UserError, match="two methods are called a"):
        methods_of([("a", two), ("a", FedRep())])
    with pytest.raises(UserError, match="two methods are called local"):
        methods_of([("local", FedRep())])
    with pytest.raises(UserError, match="not a method"):
        methods_of([3])


@settings
class OwnMethod(Algorithm):
    """FedAvg of a user, who did not register it, with a step size of its own that nothing tunes."""

    name: ClassVar[str] = "own"
    paper: ClassVar[str] = "none"
    travels: ClassVar[str] = "everything"
    stays: ClassVar[str] = "nothing"
    models: ClassVar[tuple[str, ...]] = ("global",)

    rate: float = 0.05

    def init_server(self, params, population):
        return State(model=params.all)

    def local(self, cohort, server, client):
        model = cohort.sgd(server.model, opt=SGD(lr=self.rate), batch=10, epochs=1)
        return Update(State(model=model))

    def global_model(self, server):
        return server.model


def test_a_users_own_class_beside_a_variant_of_ours(tmp_path):
    methods = [OwnMethod, FedAvg(sgd=SGD(momentum=0.0)), "fedavg"]
    found = compare(digits(4), methods=methods, rounds=2, seeds=2, rates=[0.05, 0.1], out=tmp_path / "a", engine=TWO)
    assert list(found.methods) == ["local", "own", "fedavg(sgd.momentum=0.0)", "fedavg"]
    assert found["own"].rate is None
    assert found["own"].rates == ()
    assert found["own"].algorithm == {"rate": 0.05}
    assert found["fedavg"].score != found["fedavg(sgd.momentum=0.0)"].score
    assert len(list((tmp_path / "a" / "runs").glob("own-s*"))) == 2  # a seed each, no step sizes
    assert "methods=[OwnMethod, FedAvg(sgd=SGD(lr=0.01, momentum=0.0, weight_decay=0.0)), 'fedavg']" in found.command
    assert repr(found).splitlines()[0].split()[:2] == ["method", "accuracy"]
    again = compare(
        digits(4), methods=methods, rounds=2, seeds=2, rates=[0.05, 0.1], out=tmp_path / "a", resume=True, engine=TWO
    )
    assert again.methods == found.methods
    assert ComparisonResult.read(tmp_path / "a") == again


def test_all_leaves_out_what_does_not_fit():
    found = compare(digits(4), methods=["all"], rounds=1, seeds=1, rates=[0.05], engine=TWO)
    assert list(found.left_out) == ["fedrep-linear"]
    assert len(found.methods) == 15  # the other 14 algorithms, and FedAvg fine-tuned


COMMAND = [sys.executable, "-m", "manyheads", "compare", "digits", "--partition", "classes:3", "--clients", "8"]
COMMAND += ["--methods", "fedavg,fedrep", "--rounds", "30", "--seeds", "2", "--rates", "0.05,0.1", "--workers", "2"]


KILLED_AFTER_THREE = """
import os, signal
from manyheads.cli import main
from manyheads.run.directory import RunDirectory

commit = RunDirectory.commit
def and_die(self, *state):
    commit(self, *state)
    if len(list(self.path.parent.glob("*/checkpoint/round-00000030.safetensors"))) >= 3:
        os.killpg(0, signal.SIGKILL)
RunDirectory.commit = and_die
main()
"""


def test_killed_in_the_middle_and_resumed_gives_the_same_table_and_repeats_no_work(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run([*COMMAND, "--out", whole, "--json"], check=True, capture_output=True)
    killed = [sys.executable, "-c", KILLED_AFTER_THREE, *COMMAND[3:], "--out", broken]
    assert subprocess.run(killed, start_new_session=True).returncode == -signal.SIGKILL
    assert not (broken / "compare.json").exists()
    done = {p: p.read_bytes() for p in broken.glob("runs/*/history.jsonl") if p.read_bytes().count(b"\n") == 30}
    kept = {p: before for p, before in done.items() if (p.parent / "checkpoint/round-00000030.safetensors").exists()}
    assert len(kept) >= 3
    answer = subprocess.run([*COMMAND[:4], "--resume", "--out", broken, "--json"], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert results(json.loads(answer.stdout)) == results(json.loads((whole / "compare.json").read_text()))
    for path, before in kept.items():
        assert path.read_bytes() == before  # times of the rounds too
