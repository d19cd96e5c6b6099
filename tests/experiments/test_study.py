"""The runs of a comparison: what is damaged is said and done again, and outcomes are of the rounds that were asked for."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest

from manyheads import METRICS, Engine, Metric, load
from manyheads.core.errors import Diverged, UserError
from manyheads.data import Classes, Digits, federate
from manyheads.engines.workbench import tried_on
from manyheads.experiments import ComparisonResult, compare
from manyheads.experiments.methods import methods_of
from manyheads.experiments.verdicts import Evidence, recommend
from manyheads.metrics import Accuracy
from manyheads.metrics.paired import NOTHING, Estimate, Part
from manyheads.run import run_training


def federation():
    return federate(Digits().pool(0), Classes(3), clients=4, seed=0)


def compared(out, rounds=2, seeds=1, **more):
    few = {"folds": 2, "baselines": ["majority", "linear"], "pooled": False, "local_rounds": 10} | more
    return compare(federation(), methods=["fedavg"], rounds=rounds, seeds=seeds, rates=[0.1], out=out, **few)


def numbers(found):
    return {name: (m.score, m.per_seed, m.curve) for name, m in found.methods.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("study") / "whole"
    return out, compared(out)


def damage(path):
    raw = bytearray(path.read_bytes())
    raw[-30] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("outputs-plain.safetensors", "the models are tried again"),
        ("history.jsonl", "falling back to round 1|that run is done again"),
        ("config.toml", "that run is done again"),
        ("checkpoint/round-00000002.safetensors", "falling back|done again"),
    ],
)
def test_damage_is_said_and_done_again(whole, tmp_path, file, said):
    out = shutil.copytree(whole[0], tmp_path / "out")
    (path,) = out.glob(f"runs/fold1-fedavg-lr0.1-r2-s0-*/{file}")
    damage(path)
    with pytest.warns(UserWarning, match=said):
        found = compared(out, resume=True)
    assert numbers(found) == numbers(whole[1])


def test_whose_model_works_where_is_predicted_again_if_it_is_damaged(tmp_path):
    """With the majority as the only other, sites take the networks that they train alone."""
    found = compared(tmp_path / "out", baselines=["majority"])
    for path in (tmp_path / "out").glob("runs/*-local-*/outputs-everywhere.safetensors"):
        damage(path)
    with pytest.warns(UserWarning, match="the models are tried again"):
        assert compared(tmp_path / "out", baselines=["majority"], resume=True).cross == found.cross


def test_runs_that_begin_alike_share_the_trial_of_their_model(tmp_path, monkeypatch):
    tried = []

    def counted(model, federation):
        tried.append(federation)
        return tried_on(model, federation)

    monkeypatch.setattr("manyheads.experiments.study.tried_on", counted)
    monkeypatch.setattr(sys.modules["manyheads.run.simulate"], "tried_on", None)
    compared(tmp_path / "a", seeds=2, engine=Engine(workers=1))
    runs = list((tmp_path / "a" / "runs").iterdir())
    assert len(runs) == 2 * len(tried)  # one for fedavg and one for local, each with the same folds, stages and seeds


def test_damaged_predictions_of_other_models_are_made_again(whole, tmp_path):
    out = shutil.copytree(whole[0], tmp_path / "out")
    damage(out / "alone" / "fold0-linear.safetensors")
    with pytest.warns(UserWarning, match="the models are fitted again"):
        assert numbers(compared(out, resume=True)) == numbers(whole[1])


def test_more_rounds_may_choose_other_rounds(whole, tmp_path):
    out = shutil.copytree(whole[0], tmp_path / "out")
    more, fresh = compared(out, rounds=4, resume=True), compared(tmp_path / "fresh", rounds=4)
    assert numbers(more) == numbers(fresh)
    assert more["fedavg"].rounds > whole[1]["fedavg"].rounds


def test_runs_of_another_comparison_are_refused(whole, tmp_path):
    out = shutil.copytree(whole[0], tmp_path / "out")
    names = {path.name for path in (out / "runs").iterdir()}
    with pytest.raises(UserError, match="participation is not what this run was started with"):
        compared(out, resume=True, participation=0.5)
    with pytest.raises(UserError, match="of other data, or of another division of it"):
        compared(out, resume=True, folds=3)
    assert {path.name for path in (out / "runs").iterdir()} == names


@pytest.mark.parametrize("name", ["fedavg", "local"])
def test_a_method_that_diverges_in_its_final_training_is_left_out(name, monkeypatch):
    def train(algorithm, model, federation, training, config, path, **more):
        if algorithm.name == name and training.seed == 1 and training.evaluate.split == "test":
            path.mkdir(parents=True)
            raise Diverged("nan")
        run_training(algorithm, model, federation, training, config, path, **more)

    monkeypatch.setattr("manyheads.experiments.study.run_training", train)
    found = compared(None, seeds=2)
    assert list(found.methods) == ["alone", "majority", "linear", "local" if name == "fedavg" else "fedavg"]
    assert found.left_out[name] == "diverged in its final training"
    assert (found.recommendation.text == "Nothing to compare.") == (name == "fedavg")
    assert len(found.sites) == (0 if name == "fedavg" else 4)


def test_results_of_other_versions_are_refused_in_one_line(whole):
    table = whole[1].to_json()
    assert ComparisonResult.from_json(table) == whole[1]
    with pytest.raises(UserError, match="of another version; given 2; allowed: 3; compare again"):
        ComparisonResult.from_json(table | {"schema": 2})
    with pytest.raises(UserError, match="upgrade manyheads"):
        ComparisonResult.from_json(table | {"schema": 4})
    with pytest.raises(UserError, match="not that of a comparison"):
        ComparisonResult.from_json({"schema": 3, "methods": {}})
    del table["methods"]["fedavg"]["title"]
    with pytest.raises(UserError, match=r"methods.fedavg.title"):
        ComparisonResult.from_json(table, "compare.json")


class Confidence(Metric):
    """Mean probability of what is predicted; not defined for clients with small labels."""

    name, title, unit, higher_is_better = "confidence", "confidence", "%", None
    needs_classes = True

    def of_client(self, predictions):
        return None if predictions.labels.mean() < 4.5 else float(predictions.probabilities.max(axis=1).mean())


@pytest.fixture
def confidence():
    METRICS.register(Confidence)


def test_further_metrics_are_told_and_change_no_choice(whole, tmp_path, confidence):
    out = shutil.copytree(whole[0], tmp_path / "out")
    found = compared(out, resume=True, metrics=["confidence"])
    assert found.recommendation == whole[1].recommendation
    plain = {
        name: replace(m, metrics={k: v for k, v in m.metrics.items() if k != "confidence"})
        for name, m in found.methods.items()
    }
    assert plain == whole[1].methods  # seconds too: nothing was trained
    for name in ("local", "fedavg"):
        values = np.full((2, 4), np.nan)
        sizes = np.zeros((2, 4))
        for number, fold in enumerate(federation().folds(2, 0)):
            (folder,) = out.glob(f"runs/fold{number}-{name}-lr0.1-r*-s0-*")
            predictions = load(folder).predictions(fold, "test")
            each = [Confidence().of_client(predictions.client(i)) for i in range(4)]
            values[number] = [np.nan if value is None else value for value in each]
            sizes[number] = predictions.sizes
        weights = np.where(np.isnan(values), 0, sizes)
        known = weights.sum(axis=0) > 0
        sites = np.nansum(values * weights, axis=0)[known] / weights.sum(axis=0)[known]
        assert 0 < len(sites) < 4
        assert found[name].metrics["confidence"].mean == pytest.approx(sites.mean())
    assert "confidence" in repr(found).splitlines()[0]
    with pytest.raises(UserError, match="unknown metric; given 'confidnce'.*did you mean 'confidence'"):
        compared(None, metrics=["confidnce"])


def test_any_metric_with_a_direction_can_decide(whole):
    found = compared(None, metric="brier")
    assert (found.score, found.reason) == ("brier", "it was asked for")
    assert found["fedavg"].gain.gain == pytest.approx(found.alone.score - found["fedavg"].score)
    with pytest.raises(UserError, match="rmse is not for classification"):
        compared(None, metric="rmse")


def test_a_method_that_sends_nothing_is_no_reason_to_federate():
    with pytest.raises(UserError, match=r"training alone is trained to its end already; given 'local\+ft'"):
        methods_of(["fedavg", "local+ft"])
    found = compared(None, rounds=2)
    gains = Estimate(0.1, Part(1e-6, 20.0), NOTHING, Part(1e-6, 20.0), 0.0, seeds=3, folds=1)
    silent = replace(found["fedavg"], bytes=0)
    evidence = Evidence(Accuracy, ("fedavg",), gains, {"fedavg": silent}, " (linear)", (), 100, 1, 3)
    assert recommend(evidence).method is None
    assert recommend(evidence).text.startswith("Do not federate: fedavg sends nothing")
    assert recommend(replace(evidence, methods={"fedavg": found["fedavg"]})).method == "fedavg"
