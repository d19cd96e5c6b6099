"""A new client's model beside what the client can do alone: the same samples, an honest sentence."""

from __future__ import annotations

import numpy as np
import pytest
from new_client import X, Y
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manyheads as mh
from manyheads.baselines import Linear, Trees
from manyheads.baselines.linear import PENALTIES
from manyheads.data import Samples
from manyheads.data.sites.source import Sites
from manyheads.metrics import Predictions
from manyheads.models import LSTM
from manyheads.onboarding.alone import AloneModel, best_alone
from manyheads.onboarding.held_out import split
from manyheads.onboarding.verdict import verdict


def test_each_is_fitted_to_the_training_samples_and_measured_on_the_same_held_out_ones(fedrep):
    facts = mh.personalize(fedrep, (X, Y), curve=[10], seed=2).facts
    train, test = split(Y, fedrep.encoding, 0.3, 2)
    for name, kind in (("linear", Linear), ("trees", Trees)):
        out = kind().fit(X[train], Y[train], "classification", 10, 2)(X[test])
        found = facts["alone"][name]
        assert found["correct"] == (out.argmax(1) == Y[test]).sum()
        assert found["loss"] == pytest.approx(-out[np.arange(len(test)), Y[test]].mean())
    theirs = [
        make_pipeline(StandardScaler(), LogisticRegression(C=1 / p, max_iter=500)).fit(X[train], Y[train])
        for p in PENALTIES
    ]
    assert facts["alone"]["linear"]["correct"] in [(m.predict(X[test]) == Y[test]).sum() for m in theirs]
    most = np.bincount(Y[train]).argmax()
    assert facts["alone"]["majority"]["accuracy"] == pytest.approx((Y[test] == most).mean())
    best = facts["best_alone"]
    assert facts["curve"][-1]["alone"]["accuracy"] == facts["alone"][best]["accuracy"]
    assert facts["curve"][0]["alone"]["min"] <= facts["curve"][0]["alone"]["accuracy"]
    assert facts["verdict"]["gain"] == pytest.approx(facts["after"]["accuracy"] - facts["alone"][best]["accuracy"])


def sites(place, slope, rows=60, names=("a", "b", "c")):
    rng = np.random.default_rng(0)
    place.mkdir()
    for name in names:
        x = rng.normal(size=(rows, 3))
        np.savez(place / f"{name}.npz", x=x, y=500 + 40 * (x @ slope))
    return Sites(path=str(place)).federation(0)


def test_a_client_unlike_the_others_is_told_that_it_does_better_alone(tmp_path):
    """Its target is the others' with the sign changed, and exactly linear; ten steps from their model do not get there."""
    slope = np.array([1.0, -2.0, 0.5])
    run = mh.simulate(mh.FedAvg(sgd=mh.SGD(lr=0.05)), "mlp", sites(tmp_path / "sites", slope), rounds=20)
    x = np.random.default_rng(1).normal(size=(80, 3))
    np.savez(tmp_path / "new.npz", x=x, y=500 - 40 * (x @ slope))
    facts = mh.personalize(run, tmp_path / "new.npz", curve=[], finetune="all:10steps").facts
    found = facts["verdict"]
    assert (facts["best_alone"], found["better"], found["metric"]) == ("linear", False, "rmse")
    assert facts["alone"]["linear"]["rmse"] < 1 < 20 < facts["after"]["rmse"]
    assert found["gain"] == pytest.approx(facts["alone"]["linear"]["rmse"] - facts["after"]["rmse"], rel=1e-6)
    assert found["interval"][1] < 0
    assert "ridge regression on its own samples alone is better than this model" in found["words"]
    assert f"the RMSE of this model is {-found['gain']:.3g} higher" in found["words"]
    assert "too few" not in found["words"]


def predictions(right, classes=2):
    labels = np.zeros(len(right), int)
    outputs = np.eye(classes)[np.where(right, labels, 1)]
    return Predictions(outputs, labels, np.zeros(len(right)), np.array([len(right)]))


def test_cross_validation_decides_and_held_out_samples_only_check():
    """All four of 20 samples on which the two differ are ours: Agresti and Min's interval still reaches below 0."""
    ours, theirs = predictions(np.arange(20) < 18), predictions(np.arange(20) < 14)
    alone = AloneModel("logistic regression", theirs, validation=0.3)
    found = verdict(ours, 0.5, alone, 30, "classification")
    assert not found["better"]
    assert found["gain"] == pytest.approx(0.2)
    assert found["interval"][0] < 0.2 < found["interval"][1]
    assert found["words"] == (
        "By cross-validation on the 30 training samples logistic regression on its own samples alone is better than this "
        "model (loss 0.3 against 0.5). On the 20 held-out samples the accuracy of this model is 20 points higher (95 % "
        f"interval of the gain {100 * found['interval'][0]:+.3g} to {100 * found['interval'][1]:+.3g})"
        f"{': too few to tell' if found['interval'][0] < 0 else ''}."
    )
    assert verdict(ours, 0.2, alone, 30, "classification")["better"]
    same = verdict(ours, 0.2, alone._replace(held_out=ours), 30, "classification")["words"]
    assert "is the same (95 % interval" in same
    assert same.endswith("too few to tell.")


def test_the_best_alone_is_chosen_by_validation():
    made = {name: AloneModel(name, predictions(np.ones(3, bool)), loss) for name, loss in (("a", 2.0), ("b", 1.0))}
    assert best_alone(made) == "b"
    assert best_alone({name: model._replace(validation=None) for name, model in made.items()}) is None


def test_held_out_samples_choose_nothing(fedrep):
    _, test = split(Y, fedrep.encoding, 0.3, 0)
    noisy = X.copy()
    noisy[test] = 16 - noisy[test]
    plain, other = (mh.personalize(fedrep, (x, Y), curve=[]).facts for x in (X, noisy))
    for key in ("finetune", "finetune_chosen_by", "best_alone"):
        assert plain[key] == other[key]
    assert plain["verdict"]["better"] == other["verdict"]["better"]
    assert plain["after"]["validation"] == other["after"]["validation"]
    assert plain["after"]["loss"] != other["after"]["loss"]


def test_too_few_samples_for_cross_validation(fedrep):
    two = np.array([0, np.flatnonzero(Y[0] != Y)[0], 5])
    facts = mh.personalize(fedrep, (X[two], Y[two]), curve=[]).facts
    assert facts["verdict"] is facts["best_alone"] is facts["after"]["validation"] is None
    assert "alone" not in facts["curve"][-1]


def test_words_are_no_quantities():
    """Of a run on tokens only the most frequent label is left alone."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 20, (40, 6)), np.arange(40) % 2
    samples = Samples.of([(x, y)])
    model = LSTM(units=4, vocabulary_size=20, dimension=4)
    run = mh.simulate(mh.FedAvg(), model, mh.Federation("words", samples, samples, "classification", 2), rounds=1)
    assert mh.personalize(run, (19 - x, y), curve=[]).facts["alone"].keys() == {"majority"}
