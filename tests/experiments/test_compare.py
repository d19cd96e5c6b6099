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
from manyheads.core.contract import ALGORITHMS
from manyheads.core.errors import UserError
from manyheads.data import Classes, Digits, federate
from manyheads.experiments import ComparisonResult, compare
from manyheads.experiments.candidates import Candidate
from manyheads.experiments.methods import USUAL, methods_of

sys.path.insert(0, str(Path(__file__).parent))
from planted import NAMES, model, noise, planted, strangers

TWO = Engine(workers=2)


FEW = {"folds": 2, "baselines": ["majority", "linear"], "pooled": False, "local_rounds": 10}
"""settings of comparisons that shall be quick"""


def test_a_planted_federation_is_seen_through():
    """Ten sites share a representation, two are unlike the rest, one has plenty of data."""
    found = compare(
        planted(0), model(0), methods=["fedavg", "fedrep"], rounds=150, seeds=3, rates=[0.1], batch=20,
        metric="accuracy", baselines=["majority", "linear"], pooled=False, engine=TWO,
    )  # fmt: skip
    assert found.folds == 1  # they come with a test part
    assert found.recommendation.method == "fedrep"
    assert found["fedrep"].gain.verdict == "gains"
    verdicts = {row.name: row.verdict for row in found["fedrep"].gains}
    assert list(verdicts) == list(NAMES)
    alike = [verdicts[name] for name in NAMES if name.startswith("alike")]
    assert alike.count("gains") >= 7
    assert "loses" not in alike
    assert verdicts["unlike 0"] == verdicts["unlike 1"] == "loses"
    assert verdicts["plenty"] != "gains"
    assert "unlike 0, unlike 1" in found.check
    use = {site.name: site.use for site in found.sites}
    assert use["unlike 0"] == use["unlike 1"] == "alone"
    assert use["alike 0"] == "personal"


def test_folds_test_every_sample_and_make_intervals_smaller():
    federation = planted(0, few=50, plenty=200, test=0)
    many, one = (
        compare(
            federation, model(0), methods=["fedrep"], rounds=10, seeds=1, rates=[0.1], batch=20, metric="accuracy",
            folds=folds, baselines=["majority", "linear"], pooled=False, engine=TWO, local_rounds=10,
        )
        for folds in (5, 1)
    )  # fmt: skip
    assert [row.samples for row in many["fedrep"].gains] == [50] * 12 + [200]
    assert [row.samples for row in one["fedrep"].gains] == [10] * 12 + [40]
    width = [np.mean([row.interval[1] - row.interval[0] for row in r["fedrep"].gains]) for r in (many, one)]
    assert width[0] < 0.7 * width[1]


@pytest.mark.parametrize("seed", [0, 1])
def test_where_labels_are_noise_no_method_is_recommended(seed):
    found = compare(
        noise(seed),
        model(seed, 10, 3, 3),
        methods=["fedavg", "fedrep"],
        rounds=20,
        seeds=2,
        rates=[0.05],
        engine=TWO,
        **FEW,
    )
    assert found.recommendation.method is None
    assert not any(row.verdict == "gains" for name in found.others for row in found[name].gains)


@pytest.mark.parametrize("seed", [0, 1])
def test_ten_sites_with_nothing_in_common_and_ten_rounds_are_not_told_to_federate(seed):
    found = compare(
        strangers(seed), model(seed), methods=["fedavg", "fedavg+ft", "fedrep"], rounds=10, seeds=2, rates=[0.1], batch=20,
        metric="accuracy", engine=TWO, **FEW,
    )  # fmt: skip
    assert len(found.sites) == 10
    assert found.recommendation.method is None
    assert not found.recommendation.text.startswith("Federate")
    assert {site.use for site in found.sites} == {"alone"}
    assert not any(row.verdict == "gains" for name in found.others for row in found[name].gains)


def digits(clients: int = 6) -> Federation:
    return federate(Digits().pool(0), Classes(3), clients=clients, seed=0)


def test_poisoned_test_labels_change_no_choice():
    clean = planted(0)
    poison = np.random.default_rng(0).integers(0, clean.outputs, len(clean.test.y))
    poisoned = replace(clean, test=replace(clean.test, y=poison))
    a, b = (
        compare(
            f, model(0), methods=["fedavg", "fedrep"], rounds=20, seeds=1, rates=[0.03, 0.1], batch=20, engine=TWO,
            baselines=["majority", "linear"], pooled=False, local_rounds=10,
        )
        for f in (clean, poisoned)
    )  # fmt: skip
    assert a.recommendation.chosen == b.recommendation.chosen
    assert a.recommendation.best == b.recommendation.best == "fedrep"
    assert [site.alone_model for site in a.sites] == [site.alone_model for site in b.sites]
    for name, method in a.methods.items():
        other = b[name]
        for key in ("rate", "rounds", "choices", "rates", "curve", "rounds_to_target", "rising"):
            assert getattr(method, key) == getattr(other, key)
        assert method.score != other.score
    assert b.recommendation.method is None


def test_the_same_results_with_one_worker_and_two_and_when_resumed(tmp_path):
    few = {"methods": ["fedavg", "fedavg+ft"], "rounds": 3, "seeds": 2, "rates": [0.05, 0.2], **FEW}
    once = compare(digits(), out=tmp_path / "a", **few)
    twice = compare(digits(), engine=TWO, **few)
    again = compare(digits(), out=tmp_path / "a", resume=True, **few)
    assert results(once.to_json()) == results(twice.to_json())
    assert once.methods == again.methods  # seconds too: nothing was trained anew
    with pytest.raises(UserError, match="exists already"):
        compare(digits(), rounds=1, out=tmp_path / "a")


def results(found):
    methods = {n: {k: v for k, v in m.items() if k != "seconds"} for n, m in found["methods"].items()}
    return methods, found["recommendation"], found["check"], found["target"], found["sites"]


def test_a_finetuned_method_shares_its_tuning_runs_and_differs_in_its_score(tmp_path):
    found = compare(
        digits(), methods=["fedavg", "fedavg+ft"], rounds=3, seeds=1, rates=[0.1], out=tmp_path / "a", **FEW
    )
    tuning = sorted(p.name[:-9] for p in (tmp_path / "a" / "runs").glob("fold0-*-tuning-*"))
    assert tuning == ["fold0-fedavg+ft-lr0.1-tuning-s0", "fold0-local-lr0.1-tuning-s0"]
    plain, tuned = found["fedavg"], found["fedavg+ft"]
    assert tuned.score > plain.score
    assert tuned.bytes > 0
    assert tuned.curve[-1].score != plain.curve[-1].score


def test_scores_are_those_of_the_final_models(tmp_path):
    """Accuracy and per-client gains, computed from scratch with the models that the runs have kept."""
    import torch

    from manyheads import load

    federation = digits()
    found = compare(
        federation, methods=["fedrep"], rounds=3, seeds=2, rates=[0.1], out=tmp_path / "a", folds=2,
        baselines=[], pooled=False, metric="accuracy", local_rounds=3,
    )  # fmt: skip
    accuracy = {}
    for name in ("local", "fedrep"):
        per_seed = []
        for seed in (0, 1):
            right, samples = np.zeros(len(federation)), np.zeros(len(federation))
            for number, fold in enumerate(federation.folds(2, 0)):
                (folder,) = (tmp_path / "a" / "runs").glob(f"fold{number}-{name}-lr0.1-r*-s{seed}-*")
                run = load(folder)
                for client in range(len(federation)):
                    x, y = (torch.from_numpy(v) for v in fold.test.client(client))
                    weights = run.client_model(client)
                    with torch.no_grad():
                        out = torch.func.functional_call(run.model.module, dict(weights), (x.float(),))
                    right[client] += int((out.argmax(1) == y).sum())
                    samples[client] += len(y)
            per_seed.append(right / samples)
        accuracy[name] = np.array(per_seed)
        assert found[name].score == pytest.approx(accuracy[name].mean(), abs=1e-6)
        assert found[name].per_seed == pytest.approx(accuracy[name].mean(axis=1), abs=1e-6)
    gains = [row.gain for row in found["fedrep"].gains]
    assert gains == pytest.approx((accuracy["fedrep"] - accuracy["local"]).mean(axis=0), abs=1e-6)
    assert found["alone"].per_seed == found["local"].per_seed  # nothing else was there to choose from
    rows = dict(zip(found.cross.models, found.cross.scores, strict=True))
    own = [rows[name][site] for site, name in enumerate(found.cross.sites)]
    assert own == pytest.approx(accuracy["local"][0], abs=1e-6)


def test_a_step_size_that_diverges_is_left_and_a_method_that_always_does_is_left_out():
    rng = np.random.default_rng(0)
    clients = [(rng.normal(size=(40, 5)).astype(np.float32), rng.normal(size=40).astype(np.float32)) for _ in range(4)]
    federation = Federation.from_clients(clients, name="numbers")
    found = compare(federation, methods=["fedavg", "fedprox"], rounds=3, seeds=1, rates=[0.01, 1e20], **FEW)
    assert found.score == "rmse"
    assert [found[name].rate for name in ("local", "fedavg", "fedprox")] == [0.01] * 3
    assert (found["fedavg"].rates[1].rate, found["fedavg"].rates[1].validation) == (1e20, None)
    left = compare(federation, methods=["fedavg"], rounds=3, seeds=1, rates=[1e20], **FEW)
    assert list(left.methods) == ["alone", "majority", "linear"]
    assert left.left_out["fedavg"] == left.left_out["local"] == "diverged with every step size"
    assert left.recommendation.text == "Nothing to compare."
    with pytest.raises(UserError, match="training alone diverged"):
        compare(federation, methods=["fedavg"], rounds=3, seeds=1, rates=[1e20], **FEW | {"baselines": []})


def test_a_regression_gains_where_the_error_falls():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=5)
    xs = [rng.normal(size=(15, 5)).astype(np.float32) for _ in range(8)]
    clients = [(x, (x @ weights + 0.1 * rng.normal(size=15)).astype(np.float32)) for x in xs]
    federation = Federation.from_clients(clients, name="numbers")
    few = FEW | {"baselines": ["majority"]}
    found = compare(federation, methods=["fedavg"], rounds=20, seeds=2, rates=[0.01, 0.05], batch=4, engine=TWO, **few)
    fedavg, alone = found["fedavg"], found.alone
    assert found.score == "rmse"
    assert fedavg.score < alone.score
    assert fedavg.gain.gain == pytest.approx(alone.score - fedavg.score)
    assert fedavg.interval[0] < fedavg.score < fedavg.interval[1]
    assert fedavg.worst_decile >= fedavg.score
    assert found.to_json()["methods"]["fedavg"]["rmse"] == fedavg.score
    assert ComparisonResult.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found


def test_training_that_is_too_short_is_said_first_and_nothing_is_recommended():
    found = compare(digits(), methods=["fedrep"], rounds=2, seeds=1, rates=[0.1], **FEW | {"local_rounds": 200})
    assert found["fedrep"].rising
    assert found.recommendation.evidence == "too short"
    assert found.recommendation.method is None
    assert found.recommendation.text.startswith("Training was too short to answer: the validation score of fedrep")
    assert found["local"].passes > found["fedrep"].passes  # it is not bound by the rounds of the others


def test_alone_is_about_the_best_of_what_a_site_can_do_alone():
    """Within two points of the best model in hindsight, where a linear model is no better than a guess."""
    rng = np.random.default_rng(0)
    xs = [rng.normal(size=(100, 4)).astype(np.float32) for _ in range(6)]
    clients = [(x, (np.sign(x[:, 0] * x[:, 1]) > 0).astype(int)) for x in xs]
    federation = Federation.from_clients(clients, name="products")
    found = compare(federation, methods=["fedavg"], rounds=5, seeds=1, rates=[0.1], folds=2, pooled=False, engine=TWO)
    family = {name: found[name].score for name in ("majority", "linear", "trees", "local")}
    assert min(family["trees"], family["local"]) > max(family["majority"], family["linear"]) + 0.2
    assert found.alone.score > max(family.values()) - 0.02
    assert {site.alone_model for site in found.sites} <= {"trees", "local"}


def test_methods_by_name():
    methods = methods_of(["fedrep"], 32, {"fedrep": {"head_epochs": 3}})
    assert list(methods) == ["local", "fedrep"]
    assert methods["fedrep"].algorithm.head_epochs == 3
    assert methods["fedrep"].algorithm.batch == methods["local"].algorithm.batch == 32
    assert methods["fedrep"].at(Candidate(0.7), 10).sgd.lr == 0.7
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
    few = {"methods": methods, "rounds": 2, "seeds": 2, "rates": [0.05, 0.1], "engine": TWO, **FEW}
    found = compare(digits(4), out=tmp_path / "a", **few)
    names = ["alone", "majority", "linear", "local", "own", "fedavg(sgd.momentum=0.0)", "fedavg"]
    assert list(found.methods) == names
    assert found["own"].rate is None
    assert found["own"].rates == ()
    assert found["own"].algorithm == {"name": "own", "rate": 0.05}
    assert found["fedavg"].score != found["fedavg(sgd.momentum=0.0)"].score
    assert len(list((tmp_path / "a" / "runs").glob("fold0-own-tuning-s*"))) == 2  # no step sizes, a seed each
    assert len(list((tmp_path / "a" / "runs").glob("fold0-own-r*-s*"))) == 2  # a seed each
    assert "methods=[OwnMethod, FedAvg(sgd=SGD(lr=0.01, momentum=0.0, weight_decay=0.0)), 'fedavg']" in found.command
    assert repr(found).splitlines()[0].split()[0] == "method"
    again = compare(digits(4), out=tmp_path / "a", resume=True, **few)
    assert again.methods == found.methods
    assert ComparisonResult.read(tmp_path / "a") == again


def test_all_leaves_out_what_does_not_fit():
    found = compare(digits(4), methods=["all"], rounds=1, seeds=1, rates=[0.05], engine=TWO, **FEW | {"folds": 1})
    assert set(found.left_out) == {"fedrep-linear", "fedbn"}
    assert set(found.others) == {"fedavg+ft", *ALGORITHMS} - {"local", "fedrep-linear", "fedbn"}


COMMAND = [sys.executable, "-m", "manyheads", "compare", "digits", "--partition", "classes:3", "--clients", "8"]
COMMAND += ["--methods", "fedavg,fedrep", "--rounds", "10", "--seeds", "2", "--rates", "0.05,0.1"]
COMMAND += ["--folds", "2", "--baselines", "majority,linear", "--pooled", "false", "--local-rounds", "10"]


KILLED_AFTER_THREE = """
import os, signal
from manyheads.cli import main
from manyheads.run.directory import RunDirectory

commit = RunDirectory.commit
def and_die(self, *state):
    commit(self, *state)
    if len(list(self.path.parent.glob("*-r*-s*/checkpoint/round-*.safetensors"))) >= 3:
        os.killpg(0, signal.SIGKILL)
RunDirectory.commit = and_die
main()
"""


def test_killed_in_the_middle_and_resumed_gives_the_same_table_and_repeats_no_work(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run([*COMMAND, "--workers", "1", "--out", whole, "--json"], check=True, capture_output=True)
    killed = [sys.executable, "-c", KILLED_AFTER_THREE, *COMMAND[3:], "--workers", "2", "--out", broken]
    assert subprocess.run(killed, start_new_session=True).returncode == -signal.SIGKILL
    assert not (broken / "compare.json").exists()
    kept = {p: p.read_bytes() for p in broken.glob("runs/*-tuning-*/history.jsonl")}
    assert len(kept) >= 2 * 3 * (
        2 + 1
    )  # folds, methods with local, step sizes and another seed: all before final models
    answer = subprocess.run([*COMMAND[:4], "--resume", "--out", broken, "--json"], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert results(json.loads(answer.stdout)) == results(json.loads((whole / "compare.json").read_text()))
    for path, before in kept.items():
        assert path.read_bytes() == before  # times of the rounds too
