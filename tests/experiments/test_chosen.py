"""``manyheads run --from``: what a comparison chose is what is trained."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest
from commands import call, error_of, facts_of

import manyheads as mh
from manyheads.core.errors import UserError
from manyheads.data import Classes, Digits, federate
from manyheads.experiments.chosen import chosen_settings
from manyheads.experiments.results import ComparisonResult

COMPARE = ["compare", "digits", "--partition", "classes:3", "--clients", 4, "--methods", "fedavg,fedavg+ft,fedrep"]
SMALL = ["--rounds", 3, "--seeds", 1, "--folds", 1, "--rates", "0.03,0.3", "--baselines", "majority", "--workers", 1]
SMALL += ["--local-rounds", 3]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chosen") / "comparison"
    assert call(*COMPARE, *SMALL, "--seed", 1, "--out", folder) == 0
    return folder


@pytest.mark.parametrize("method", ["fedavg", "fedavg+ft"])
def test_the_run_is_the_method_with_the_chosen_settings_on_all_training_samples(method, comparison, tmp_path, capsys):
    found = ComparisonResult.read(comparison)[method]
    facts = facts_of(capsys, "run", "--from", comparison, method, "--out", tmp_path / "run", "--workers", 1)
    federation = federate(Digits().pool(seed=1), Classes(3), clients=4, seed=1)
    tune = mh.FineTune(scope="all", lr=found.rate) if found.finetuned else None
    algorithm = mh.FedAvg(sgd=mh.SGD(lr=found.rate))
    same = mh.simulate(algorithm, "mlp", federation, rounds=found.rounds, seed=1, finetune=tune)
    assert facts["checksum"] == same.checksum
    assert facts["rounds"] == found.rounds
    assert [e["accuracy"] for e in facts["final"]] == [e["accuracy"] for e in same.final]
    assert len(same.final) == (method == "fedavg+ft")


def test_its_configuration_is_complete_in_itself_and_flags_override(comparison, tmp_path):
    words = ["run", "--from", comparison, "fedrep", "--algorithm.head-epochs", 2, "--workers", 1]
    assert call(*words, "--out", tmp_path / "run") == 0
    kept = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert kept["algorithm"]["sgd"]["lr"] == ComparisonResult.read(comparison)["fedrep"].rate
    assert (kept["algorithm"]["head_epochs"], kept["validation"], kept["partition"]["per_client"]) == (2, 0, 3)
    assert "compare" not in kept
    assert call("run", tmp_path / "run" / "config.toml", "--out", tmp_path / "again") == 0
    assert mh.load(tmp_path / "again").checksum == mh.load(tmp_path / "run").checksum


def test_a_method_with_a_label_of_its_own(comparison):
    found = ComparisonResult.read(comparison)
    replace(found, methods=found.methods | {"my best": found["fedrep"]}).write(comparison)
    assert chosen_settings(comparison, "my best") == chosen_settings(comparison, "fedrep")
    assert chosen_settings(comparison, "my best")["algorithm"]["name"] == "fedrep"


@pytest.mark.parametrize(("words", "said"), [
    (["alone"], ["nothing is trained together", "'alone'", "fedavg+ft"]),
    (["majority"], ["nothing is trained together"]),
    (["pooled"], ["the data of all sites"]),
    (["fedrap"], ["unknown method of this comparison", "did you mean 'fedrep'?", "local"]),
    ([], ["which of its methods?", "fedavg, fedavg+ft, fedrep"]),
    (["fedrep", "--resume", "--out", "runs/x"], ["starts a new run"]),
])  # fmt: skip
def test_what_cannot_be_trained_is_one_line(comparison, capsys, words, said):
    line = error_of(capsys, "run", "--from", comparison, *words)
    assert all(word in line for word in said), line


def test_a_folder_that_is_no_comparison_or_was_made_in_python(comparison, tmp_path, capsys):
    assert "holds no compare.json" in error_of(capsys, "run", "--from", tmp_path, "fedavg")
    replace(ComparisonResult.read(comparison), described=None).write(tmp_path)
    with pytest.raises(UserError, match="given in Python.*simulate"):
        chosen_settings(tmp_path, "fedavg")
