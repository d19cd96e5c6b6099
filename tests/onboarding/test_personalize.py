"""A new client's model: fine-tuned as the method says, and measured on held-out samples."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from new_client import FEDERATION, X, Y, samples_of
from torch import nn
from torch.nn import functional

import manyheads as mh
from manyheads.core.contract import ALGORITHMS
from manyheads.core.errors import UserError
from manyheads.core.randomness import Purpose, batch_plan, generator
from manyheads.data import LinearTasks
from manyheads.data.sites.new_site import new_site, read_new_site
from manyheads.data.sites.source import Sites
from manyheads.models import MLP
from manyheads.onboarding import PersonalModel, save_personal
from manyheads.onboarding.held_out import split

pytestmark = pytest.mark.usefixtures("few_baselines")


def test_more_samples_are_better_and_the_method_helps(fedrep):
    mine = mh.personalize(fedrep, (X, Y), curve=[5, 20, 50])
    facts = mine.facts
    accuracy = [p["accuracy"] for p in facts["curve"]]
    assert [p["samples"] for p in facts["curve"]] == [5, 20, 50, facts["train"]]
    assert facts["before"]["model"] == "the shared body with an untrained head"
    assert facts["before"]["accuracy"] < accuracy[0] < accuracy[1] < accuracy[2] <= 1
    assert facts["after"]["accuracy"] == accuracy[3] > 0.9 > facts["alone"]["majority"]["accuracy"]
    assert facts["train"] + facts["held_out"] == len(Y)
    assert json.loads(json.dumps(facts)) == facts


def test_it_is_plain_sgd_on_the_head_from_the_newcomers_model(fedrep):
    """The program that it must agree with: SGD on the head alone, body and first head as the run has them."""
    tune = mh.FineTune(scope="head", epochs=3, batch=10, lr=0.1, momentum=0.5, weight_decay=1e-3)
    mine = mh.personalize(fedrep, (X, Y), finetune=tune, seed=5, curve=[])
    train, test = split(Y, fedrep.encoding, 0.3, 5)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    start = {**fedrep.server.body, **fedrep.model.params.head}
    net.load_state_dict(start)

    def score():
        with torch.no_grad():
            out = net(torch.from_numpy(X[test]))
            return (out.argmax(1).numpy() == Y[test]).mean(), functional.cross_entropy(out, torch.from_numpy(Y[test]))

    accuracy, loss = score()
    assert mine.facts["before"]["accuracy"] == pytest.approx(accuracy)
    assert mine.facts["before"]["loss"] == pytest.approx(float(loss), rel=1e-5)
    head = net[4]
    speed = {name: torch.zeros_like(p) for name, p in head.named_parameters()}
    rng = generator(5, Purpose.FINETUNE, fedrep.rounds, len(FEDERATION), 0)
    for rows in batch_plan(rng, len(train), batch=10, epochs=3):
        chosen = train[rows]
        loss = functional.cross_entropy(net(torch.from_numpy(X[chosen])), torch.from_numpy(Y[chosen]))
        for (name, p), g in zip(head.named_parameters(), torch.autograd.grad(loss, head.parameters()), strict=True):
            decay = 1e-3 if p.ndim > 1 else 0.0
            speed[name] = 0.5 * speed[name] + g + decay * p.data
            p.data -= 0.1 * speed[name]
    accuracy, loss = score()
    for name, value in net.state_dict().items():
        torch.testing.assert_close(mine.params[name], value, rtol=1e-4, atol=1e-5)
    assert mine.facts["after"]["accuracy"] == pytest.approx(accuracy)
    assert mine.facts["after"]["loss"] == pytest.approx(float(loss), rel=1e-4)


STARTS = {
    "fedrep": ("the shared body with an untrained head", "head"),
    "fedper": ("the shared body with an untrained head", "head"),
    "fedavg": ("the shared model", "head"),
    "ditto": ("the shared model", "head"),
    "perfedavg": ("the shared model", "all"),
    "lg-fedavg": ("the shared layers, the others untrained", "all"),
    "local": ("an untrained model", "all"),
}


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_method_has_a_model_for_a_newcomer(name):
    federation, model = FEDERATION, "mlp"
    if name == "fedrep-linear":
        federation = LinearTasks(clients=200, samples=30).federation(0).with_new_clients(1, 0)
        model = "linear"
    if name == "fedbn":
        model = MLP(norm="layer")
    run = mh.simulate(ALGORITHMS[name](), model, federation, rounds=2)
    mine = mh.personalize(run, samples_of(federation.new), curve=[4])
    assert mine.facts["after"]["loss"] < mine.facts["before"]["loss"]
    if name in STARTS:
        words, scope = STARTS[name]
        assert mine.facts["before"]["model"] == words
        assert mine.facts["finetune"]["scope"] == scope or mine.facts["finetune_chosen_by"] == "validation"


def test_who_decides_on_the_fine_tuning(fedrep):
    def tuning(run, **given):
        facts = mh.personalize(run, (X, Y), curve=[], **given).facts
        return facts["finetune_chosen_by"], facts["finetune"]

    who, tune = tuning(fedrep)
    assert (who, tune["scope"], tune["steps"], tune["lr"]) == ("validation", "all", 300, 0.05)
    who, tune = tuning(fedrep, finetune="all:2", lr=0.2)
    assert (who, tune["scope"], tune["epochs"], tune["steps"], tune["lr"]) == ("you", "all", 2, 0, 0.2)
    asked = replace(fedrep, training=replace(fedrep.training, finetune=mh.FineTune(scope="all", steps=7)))
    who, tune = tuning(asked)
    assert (who, tune["scope"], tune["steps"], tune["lr"]) == ("run", "all", 7, 0.01)
    maml = mh.simulate(mh.PerFedAvg(alpha=0.03), "mlp", FEDERATION, rounds=1)
    who, tune = tuning(maml)
    assert (who, tune["scope"], tune["steps"], tune["batch"], tune["lr"]) == ("method", "all", 1, 0, 0.03)
    with pytest.raises(UserError, match="needs some training"):
        tuning(fedrep, finetune="none")
    with pytest.raises(UserError, match="cannot read"):
        tuning(fedrep, finetune="nose:3")
    with pytest.raises(UserError, match="a tenth of the step size"):
        tuning(fedrep, finetune="all:5", lr=1e10)


def test_the_interval_is_wilsons(fedrep):
    facts = mh.personalize(fedrep, (X, Y), curve=[]).facts
    n, p, z = facts["held_out"], facts["before"]["accuracy"], 1.959964
    middle, half = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    expected = [(middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)]
    assert facts["before"]["interval"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("x", "y", "more", "words"), [
    (X[:1], Y[:1], {}, "too few samples"),
    (X[:, :63], Y, {}, "wrong number of inputs per sample; given 63; allowed: 64"),
    (X, Y + 10, {}, "does not know"),
    (X, Y, {"curve": [5, 500]}, "curve: no such number"),
    (X, Y, {"test_fraction": 1.0}, "test_fraction"),
    (X, Y[:-1], {}, "one row per sample"),
])  # fmt: skip
def test_what_cannot_work_is_told(fedrep, x, y, more, words):
    with pytest.raises(UserError, match=words):
        mh.personalize(fedrep, (x, y), **more)


def test_one_class_only_is_a_warning(fedrep):
    same = np.equal(Y, Y[0])
    warnings = mh.personalize(fedrep, (X[same], Y[same]), curve=[]).facts["warnings"]
    assert any("all samples have the label" in w for w in warnings)


def test_a_saved_run_keeps_its_encoding_and_an_old_one_says_what_to_do(fedrep, tmp_path):
    run = mh.load(fedrep.save(tmp_path / "run"))
    assert run.encoding == fedrep.encoding == FEDERATION.encoding
    assert run.encoding.shape == (64,)
    mine, again = (mh.personalize(r, (X, Y), curve=[]) for r in (fedrep, run))
    assert all(torch.equal(v, again.params[k]) for k, v in mine.params.items())
    (tmp_path / "run" / "data.json").unlink()
    with pytest.raises(UserError, match="--resume"):
        mh.personalize(run, (X, Y))


def test_resuming_an_old_run_adds_its_encoding(tmp_path):
    arguments = {"model": "mlp", "federation": FEDERATION, "out": tmp_path / "run"}
    mh.simulate(mh.FedAvg(), **arguments, rounds=1)
    (tmp_path / "run" / "data.json").unlink()
    assert mh.simulate(mh.FedAvg(), **arguments, rounds=2, resume=True).encoding == FEDERATION.encoding


def test_a_regression_is_measured_and_predicted_in_the_targets_unit(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "sites"
    folder.mkdir()
    slope = rng.normal(size=3)
    for name in ("a", "b", "c", "new"):
        x = rng.normal(size=(60, 3))
        np.savez((tmp_path if name == "new" else folder) / f"{name}.npz", x=x, y=500 + 40 * (x @ slope))
    federation = Sites(path=str(folder)).federation(0)
    run = mh.simulate(mh.FedRep(sgd=mh.SGD(lr=0.05)), "mlp", federation, rounds=20)
    mine = mh.personalize(run, tmp_path / "new.npz")
    facts = mine.facts
    assert facts["after"]["rmse"] < 0.3 * facts["alone"]["majority"]["rmse"]
    assert facts["after"]["rmse"] < facts["before"]["rmse"]
    with np.load(tmp_path / "new.npz") as file:
        train, test = split(file["y"], run.encoding, 0.3, 0)
        spread = np.sqrt(np.mean((file["y"][test] - file["y"][train].mean()) ** 2))
        save_personal(mine, tmp_path / "model", exports=[])
        model = PersonalModel.load(tmp_path / "model")
        found = model.predict(read_new_site(tmp_path / "new.npz", model.encoding))
        errors = found.values[:, 0] - file["y"]
    assert facts["alone"]["majority"]["rmse"] == pytest.approx(spread, rel=1e-4)
    assert np.sqrt(np.mean(errors[test] ** 2)) == pytest.approx(facts["after"]["rmse"], rel=1e-4)
    assert found.rmse == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-4)
    assert found.rows()[0].keys() == {"row", "value"}


def test_a_new_client_may_remember_its_samples_instead_of_training(fedrep, tmp_path):
    run = mh.simulate(mh.KNNPer(sgd=mh.SGD(lr=0.05), neighbours=5), "mlp", FEDERATION, rounds=8)
    for number, (trained, given) in enumerate(((run, None), (fedrep, mh.FineTune(scope="knn", weight=0.9)))):
        mine = mh.personalize(trained, (X, Y), finetune=given)
        facts = mine.facts
        assert facts["finetune_chosen_by"] == ("you" if given else "method")
        assert "nearest training samples" in facts["protocol"]
        assert "step size" not in facts["protocol"]
        assert facts["after"]["accuracy"] > facts["before"]["accuracy"]
        assert len(mine.memory.features) == facts["train"]
        assert [p["samples"] for p in facts["curve"]][:2] == [5, 10]
        card = save_personal(mine, tmp_path / str(number))
        _, test = split(Y, trained.encoding, 0.3, 0)
        for engine in ("model", "onnx"):
            found = PersonalModel.load(tmp_path / str(number), engine).predict(
                new_site(X[test], Y[test], mine.encoding)
            )
            assert found.correct == facts["after"]["correct"]
        assert card["memory"]["weight"] == mine.memory.weight
