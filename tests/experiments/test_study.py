"""The runs of a comparison: what is damaged is said and done again, and outcomes are of the rounds that were asked for."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from manyheads import METRICS, Metric, load
from manyheads.core.errors import Diverged, UserError
from manyheads.data import Classes, Digits, federate
from manyheads.experiments import ComparisonResult, compare
from manyheads.report import page
from manyheads.run import run_training


def federation():
    return federate(Digits().pool(0), Classes(3), clients=4, seed=0)


def compared(out, rounds=2, seeds=1, **more):
    return compare(federation(), methods=["fedavg"], rounds=rounds, seeds=seeds, rates=[0.1], out=out, **more)


def numbers(found):
    return {name: (m.score, m.per_seed, m.curve) for name, m in found.methods.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("study") / "whole"
    return out, compared(out)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("outcomes-plain.safetensors", "the models are tried again"),
        ("history.jsonl", "falling back to round 1|that run is done again"),
        ("config.toml", "that run is done again"),
        ("checkpoint/round-00000002.safetensors", "falling back|done again"),
    ],
)
def test_damage_is_said_and_done_again(whole, tmp_path, file, said):
    out = shutil.copytree(whole[0], tmp_path / "out")
    (path,) = out.glob(f"runs/fedavg-lr0.1-s0-*/{file}")
    raw = bytearray(path.read_bytes())
    raw[-30] ^= 1
    path.write_bytes(raw)
    with pytest.warns(UserWarning, match=said):
        found = compared(out, resume=True)
    assert numbers(found) == numbers(whole[1])


def test_more_rounds_are_judged_anew(whole, tmp_path):
    out = shutil.copytree(whole[0], tmp_path / "out")
    with pytest.warns(UserWarning, match="is of other round than it should be"):
        more = compared(out, rounds=4, resume=True)
    fresh = compared(tmp_path / "fresh", rounds=4)
    for name, method in fresh.methods.items():
        assert more[name].per_seed == method.per_seed


def old_names(out):
    """Runs as they were named before hashes were part of it."""
    for path in (out / "runs").iterdir():
        path.rename(path.with_name(path.name.rpartition("-")[0]))


def test_runs_of_old_names_are_taken_over(whole, tmp_path):
    out = shutil.copytree(whole[0], tmp_path / "out")
    names = {path.name for path in (out / "runs").iterdir()}
    old_names(out)
    assert compared(out, resume=True).methods == whole[1].methods  # seconds too: nothing was trained anew
    assert {path.name for path in (out / "runs").iterdir()} == names


def test_runs_of_old_names_with_other_settings_are_refused(whole, tmp_path):
    out = shutil.copytree(whole[0], tmp_path / "out")
    old_names(out)
    names = {path.name for path in (out / "runs").iterdir()}
    with pytest.raises(UserError, match="algorithm is not what this run was started with"):
        compared(out, resume=True, batch=3)
    assert {path.name for path in (out / "runs").iterdir()} == names


def test_a_method_that_diverges_with_a_later_seed_is_left_out_and_training_alone_is_an_error(monkeypatch):
    def later(name):
        def train(algorithm, model, federation, training, config, path, **more):
            if algorithm.name == name and training.seed == 1:
                path.mkdir(parents=True)
                raise Diverged("nan")
            run_training(algorithm, model, federation, training, config, path, **more)

        return train

    monkeypatch.setattr("manyheads.experiments.study.run_training", later("fedavg"))
    found = compared(None, seeds=2)
    assert list(found.methods) == ["local"]
    assert "later seed" in found.left_out["fedavg"]
    assert found.recommendation.text == "Nothing to compare."
    monkeypatch.setattr("manyheads.experiments.study.run_training", later("local"))
    with pytest.raises(UserError, match="training alone diverged with a later seed"):
        compared(None, seeds=2)


def test_results_of_the_form_before_are_read(whole):
    """Those of schema 1: nothing but the number differs, of what both have."""
    now = whole[1]
    table = now.to_json() | {"schema": 1}
    del table["command"]
    assert ComparisonResult.from_json(table) == replace(now, command="")
    with pytest.raises(UserError, match="of another version"):
        ComparisonResult.from_json(table | {"schema": 3})
    with pytest.raises(UserError, match="not that of a comparison"):
        ComparisonResult.from_json({"schema": 2, "methods": {}})
    del table["methods"]["fedavg"]["seconds"]
    with pytest.raises(UserError, match=r"methods.fedavg.seconds"):
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
    yield
    del METRICS._known["confidence"]


def test_further_metrics_are_told_and_change_no_choice(whole, tmp_path, confidence):
    out = shutil.copytree(whole[0], tmp_path / "out")
    with pytest.warns(UserWarning, match="is of other metrics than it should be, .*the models are tried again"):
        found = compared(out, resume=True, metrics=["confidence", "loss", "accuracy"])
    assert found.recommendation == whole[1].recommendation
    assert {name: replace(m, metrics={}) for name, m in found.methods.items()} == whole[
        1
    ].methods  # nothing was trained
    assert list(found.further) == ["loss", "confidence"]  # accuracy is the score itself
    for name, method in found.methods.items():
        (folder,) = out.glob(f"runs/{name}-*")
        predictions = load(folder).predictions(federation().with_validation(0.2, 0), "test")
        sums = np.bincount(np.repeat(range(4), predictions.sizes), predictions.losses)
        assert method.metrics["loss"].mean == pytest.approx((sums / predictions.sizes).mean())
        each = [Confidence().of_client(predictions.client(i)) for i in range(4)]
        known = [value for value in each if value is not None]
        assert 0 < len(known) < 4
        assert method.metrics["confidence"].per_seed == (pytest.approx(np.mean(known)),)
    assert "confidence" in repr(found).splitlines()[0]
    assert ComparisonResult.from_json(found.to_json()) == found
    text = page(found)
    assert "Further metrics" in text
    shown = [f"{100 * m.metrics['confidence'].mean:.1f}" for m in found.methods.values()]
    assert all(f">{number}</td>" in text for number in shown)
    assert "Confidence (%)" in text
    with pytest.raises(UserError, match="unknown metric; given 'confidnce'.*did you mean 'confidence'"):
        compared(None, metrics=["confidnce"])
