"""The search over settings: it finds what was planted, every method has the same rounds, and it goes on after a kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from typing import ClassVar

import pytest
from commands import call, error_of, facts_of

import manyheads as mh
from manyheads import SGD, Algorithm, Engine, FedAvg, State, Update, settings
from manyheads.core.contract import ALGORITHMS
from manyheads.core.settings import changed
from manyheads.data import Classes, Digits, federate
from manyheads.experiments import compare
from manyheads.experiments.tune import TuningResult
from manyheads.report import write_report

FEW = {"folds": 1, "baselines": ["majority"], "pooled": False, "local_rounds": 8, "rounds": 8, "seeds": 2}
TUNE = ["tune", "fedprox", "digits", "--partition", "classes:3", "--clients", "4", "--rounds", "8", "--seeds", "2"]
TUNE += ["--rates", "0.05,0.3", "--search", "4"]


def digits():
    return federate(Digits().pool(0), Classes(3), clients=4, seed=0)


@settings
class Forgets(Algorithm):
    """FedAvg, of which the server keeps a part; the less it keeps back, the better."""

    name: ClassVar[str] = "forgets"
    paper: ClassVar[str] = "none"
    travels: ClassVar[str] = "everything"
    stays: ClassVar[str] = "nothing"
    models: ClassVar[tuple[str, ...]] = ("global",)
    knobs: ClassVar[dict[str, tuple[float, ...]]] = {"back": (0.0, 0.5, 0.9)}

    sgd: SGD = SGD()
    back: float = 0.95

    def init_server(self, params, population):
        return State(model=params.all)

    def local(self, cohort, server, client):
        model = cohort.sgd(server.model, opt=self.sgd, batch=10, epochs=1)
        return Update(State(model=model * (1 - self.back)))

    def global_model(self, server):
        return server.model


def test_a_planted_setting_is_found_and_all_methods_have_the_same_rounds(tmp_path):
    few = FEW | {"rates": [0.1, 0.3], "search": 8, "methods": [Forgets(), FedAvg()]}
    found = compare(digits(), engine=Engine(workers=2), out=tmp_path / "a", **few)
    assert found["forgets"].knobs == {"back": 0.0}
    assert found["forgets"].algorithm["back"] == 0.0
    assert found["forgets"].choices[0].knobs == {"back": 0.0}
    plain = compare(digits(), **few | {"search": 0})
    assert plain["forgets"].knobs == {}
    assert plain["forgets"].score < found["forgets"].score - 0.1
    budget, first = 8 * 8 * 2, 6 * 2  # trainings, rounds, seeds; the first comparison of a training
    for name in ("local", "forgets", "fedavg"):
        rounds = [each.rounds for each in found[name].rates]
        assert budget - max(first, 2 * 8) < sum(rounds) <= budget
        assert len(rounds) >= 8
        assert all(0.1 <= each.rate <= 0.3 for each in found[name].rates)
    assert not any(each.knobs for each in found["fedavg"].rates)
    assert {each.rate for each in found["fedavg"].rates} >= {0.1, 0.3}  # it begins with the list
    page = write_report(tmp_path / "a").read_text()
    assert 'data-chart="search"' in page
    assert all(f"back {each.knobs['back']}" in page for each in found["forgets"].rates)
    one = compare(digits(), out=tmp_path / "b", **few)
    again = compare(digits(), out=tmp_path / "a", resume=True, **few)
    assert again.methods == found.methods  # seconds too: nothing was trained
    assert [(m.score, m.rates, m.choices) for m in one.methods.values()] == [
        (m.score, m.rates, m.choices) for m in found.methods.values()
    ]


def test_what_a_search_chooses_does_not_depend_on_test_samples():
    federation = digits()
    poisoned = replace(federation, test=replace(federation.test, y=1 - federation.test.y.clip(0, 1)))
    few = FEW | {"rates": [0.1], "search": 3, "methods": ["fedprox"], "metric": "accuracy"}
    a, b = (compare(each, **few)["fedprox"] for each in (federation, poisoned))
    assert (a.rates, a.choices, a.algorithm) == (b.rates, b.choices, b.algorithm)
    assert a.score != b.score


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if ALGORITHMS[name].knobs])
def test_the_knobs_of_every_method_are_settings_with_values_that_it_takes(name):
    cls = ALGORITHMS[name]
    usual = cls()
    for path, values in cls.knobs.items():
        assert list(values) == sorted(set(values))
        assert len(values) > 1
        for value in values:
            assert changed(usual, {path: value}) == usual or getattr(changed(usual, {path: value}), path) == value


KILLED_LATER = """
import os, signal
from manyheads.cli import main
from manyheads.run.directory import RunDirectory

commit = RunDirectory.commit
def and_die(self, *state):
    commit(self, *state)
    if len(list(self.path.parent.glob("*/checkpoint/round-*.safetensors"))) >= 5:
        os.killpg(0, signal.SIGKILL)
RunDirectory.commit = and_die
main()
"""


def told(table):
    return {key: value for key, value in table.items() if key not in ("out", "report", "machine", "settings", "seal")}


def test_killed_and_resumed_gives_the_same_table_which_can_be_trained(tmp_path, capsys):
    whole = facts_of(capsys, *TUNE, "--out", tmp_path / "whole", "--workers", 1)
    words = [*TUNE, "--out", tmp_path / "broken", "--workers", "2"]
    killed = subprocess.run([sys.executable, "-c", KILLED_LATER, *words], start_new_session=True, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "broken" / "tune.json").exists()
    again = facts_of(capsys, "tune", "fedprox", "--resume", "--out", tmp_path / "broken", "--workers", 1)
    assert told(again) == told(whole)
    assert len(whole["tried"]) >= 4
    assert sum(each["rounds"] for each in whole["tried"]) <= whole["budget"] == 4 * 8 * 2
    assert "mu" in (tmp_path / "whole" / "report.html").read_text()
    run = facts_of(capsys, "run", "--from", tmp_path / "whole", "--out", tmp_path / "run", "--workers", 1)
    found = TuningResult.read(tmp_path / "whole")
    algorithm = mh.FedProx(sgd=SGD(lr=found.rate), mu=found.knobs["mu"])
    federation = federate(Digits().pool(seed=0), Classes(3), clients=4, seed=0)
    assert run["checksum"] == mh.simulate(algorithm, "mlp", federation, rounds=found.rounds).checksum
    assert call("report", tmp_path / "whole", "--figures", tmp_path / "figures", "--format", "svg") == 0
    assert (tmp_path / "figures" / "search.svg").read_text().startswith("<svg")
    assert json.loads((tmp_path / "whole" / "tune.json").read_text())["method"] == "fedprox"


def test_wrong_uses_are_one_line(tmp_path, capsys, monkeypatch):
    assert "did you mean 'fedprox'" in error_of(capsys, "tune", "fedprx", "digits")
    assert "--resume needs --out with a search in it" in error_of(
        capsys, "tune", "fedavg", "--resume", "--out", tmp_path
    )
    assert "unknown" in error_of(capsys, "tune", "fedavg", "digts")
    monkeypatch.setattr("manyheads.experiments.search.find_spec", lambda name: None)
    line = error_of(capsys, *TUNE, "--out", tmp_path / "none")
    assert "a search needs Optuna" in line
    assert "manyheads[tune]" in line
    assert not (tmp_path / "none" / "tune.toml").exists()
    assert find_spec("optuna") is not None


def test_optuna_is_not_imported_unless_it_is_asked_for():
    code = "import sys, manyheads as mh; mh.compare; import manyheads.experiments.tune; print('optuna' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
