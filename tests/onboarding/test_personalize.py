"""A new client's model: trained as the method says, measured honestly, kept whole, exported alike."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import manyheads as mh
from manyheads.core.contract import ALGORITHMS
from manyheads.core.errors import UserError
from manyheads.core.randomness import Purpose, batch_plan, generator
from manyheads.core.sealed import write_json
from manyheads.data import Classes, Digits, LinearTasks, federate
from manyheads.data.encoding import Scaling
from manyheads.data.samples import Samples
from manyheads.data.sites.new_site import new_site, read_new_site
from manyheads.data.sites.source import Sites
from manyheads.onboarding import PersonalModel, save_personal
from manyheads.onboarding import export as exporting
from manyheads.onboarding.held_out import split

FEDERATION = federate(Digits().pool(seed=0), Classes(3), clients=12, seed=0).with_new_clients(2, seed=0)


def samples_of(federation, client=0):
    parts = zip(federation.train.client(client), federation.test.client(client), strict=True)
    return tuple(np.concatenate(p) for p in parts)


X, Y = samples_of(FEDERATION.new)


@pytest.fixture(scope="module")
def fedrep():
    return mh.simulate(mh.FedRep(sgd=mh.SGD(lr=0.05)), "mlp", FEDERATION, rounds=8)


def test_more_samples_are_better_and_the_method_helps(fedrep):
    mine = mh.personalize(fedrep, (X, Y), curve=[5, 20, 50])
    facts = mine.facts
    accuracy = [p["accuracy"] for p in facts["curve"]]
    assert [p["samples"] for p in facts["curve"]] == [5, 20, 50, facts["train"]]
    assert facts["before"]["model"] == "the shared body with an untrained head"
    assert facts["before"]["accuracy"] < accuracy[0] < accuracy[1] < accuracy[2] <= 1
    assert facts["after"]["accuracy"] == accuracy[3] > 0.9 > facts["baseline"]["accuracy"]
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
    run = mh.simulate(ALGORITHMS[name](), model, federation, rounds=2)
    mine = mh.personalize(run, samples_of(federation.new), curve=[4])
    assert mine.facts["after"]["loss"] < mine.facts["before"]["loss"]
    if name in STARTS:
        assert (mine.facts["before"]["model"], mine.facts["finetune"]["scope"]) == STARTS[name]


def test_who_decides_on_the_fine_tuning(fedrep):
    def tuning(run, **given):
        facts = mh.personalize(run, (X, Y), curve=[], **given).facts
        return facts["finetune_chosen_by"], facts["finetune"]

    who, tune = tuning(fedrep)
    assert (who, tune["scope"], tune["steps"], tune["lr"]) == ("default", "head", 300, 0.05)
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


@pytest.mark.parametrize("fraction", [0.01, 0.3, 0.5, 0.99])
def test_every_label_gives_its_part_to_the_held_out_samples(fraction):
    rng = np.random.default_rng(0)
    encoding = FEDERATION.encoding
    for counts in ([1, 1], [2, 9, 31], [1, 1, 1, 1, 1], [40]):
        y = rng.permutation(np.repeat(np.arange(len(counts)), counts))
        train, test = split(y, encoding, fraction, 3)
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(y)))
        assert len(test) == min(max(round(fraction * len(y)), 1), len(y) - 1)
        share = len(test) / len(y) * np.array(counts)
        held = np.bincount(y[test], minlength=len(counts))
        assert (held >= np.floor(share)).all()
        assert (held <= np.ceil(share)).all()


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


# -- the folder ---------------------------------------------------------------------------------------------------------


def test_the_folder_predicts_what_the_model_predicts(fedrep, tmp_path):
    mine = mh.personalize(fedrep, (X, Y), curve=[])
    card = save_personal(mine, tmp_path / "model", exports=[])
    assert {p.name for p in (tmp_path / "model").iterdir()} == {"model.safetensors", "card.json"}
    model = PersonalModel.load(tmp_path / "model")
    found = model.predict(new_site(X, Y, model.encoding))
    fedrep.model.net.bind(mine.params)
    with torch.no_grad():
        out = fedrep.model.module.eval()(torch.from_numpy(X))
    assert found.labels == [str(i) for i in out.argmax(1).tolist()]
    np.testing.assert_allclose(found.probabilities, out.double().softmax(1).amax(1), rtol=1e-6)
    assert found.correct == int((out.argmax(1).numpy() == Y).sum())
    assert card["measured"] == mine.facts
    with pytest.raises(UserError, match="exists already"):
        save_personal(mine, tmp_path / "model")


def test_both_exports_give_the_same_outputs_for_any_batch(fedrep, tmp_path):
    mine = mh.personalize(fedrep, (X, Y), curve=[])
    card = save_personal(mine, tmp_path / "model")
    assert card["exports"].keys() == {"torch", "onnx"}
    assert max(card["exports"].values()) < 1e-5
    model, onnx = (PersonalModel.load(tmp_path / "model", engine) for engine in ("model", "onnx"))
    torch_export = torch.export.load(tmp_path / "model" / "model.pt2").module()
    for rows in (1, 2, len(X)):
        expected = model.outputs(X[:rows])
        np.testing.assert_allclose(onnx.outputs(X[:rows]), expected, atol=1e-5)
        np.testing.assert_allclose(torch_export(torch.from_numpy(X[:rows])).numpy(), expected, atol=1e-5)


def test_an_export_with_other_outputs_is_refused_and_nothing_is_written(fedrep, tmp_path, monkeypatch):
    mine = mh.personalize(fedrep, (X, Y), curve=[])
    right = exporting.onnx_outputs
    monkeypatch.setattr(exporting, "onnx_outputs", lambda path: lambda x: right(path)(x) + 0.01)
    with pytest.raises(UserError, match="gives other outputs"):
        save_personal(mine, tmp_path / "model", exports=["onnx"])
    assert list(tmp_path.iterdir()) == []
    card = save_personal(mine, tmp_path / "model")  # not asked for: left out, with the reason
    assert card["exports"].keys() == {"torch"}
    assert "other outputs" in card["exports_left_out"]["onnx"]
    assert not (tmp_path / "model" / "model.onnx").exists()


def test_damaged_and_foreign_folders_are_refused(fedrep, tmp_path):
    folder = tmp_path / "model"
    save_personal(mh.personalize(fedrep, (X, Y), curve=[]), folder, exports=[])
    with pytest.raises(UserError, match="has no model.onnx"):
        PersonalModel.load(folder, "onnx")
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-1] + b"\x00")
    with pytest.raises(UserError, match="not what was written"):
        PersonalModel.load(folder)
    card = json.loads((folder / "card.json").read_text())
    write_json(folder / "card.json", card | {"schema": 99})
    with pytest.raises(UserError, match="another manyheads"):
        PersonalModel.load(folder)
    (folder / "card.json").write_text("{")
    with pytest.raises(UserError, match="damaged"):
        PersonalModel.load(folder)
    with pytest.raises(UserError, match="holds no model"):
        PersonalModel.load(tmp_path)


def test_killed_before_the_last_step_there_is_no_folder(fedrep, tmp_path):
    """SIGKILL between writing and renaming; then the same call works."""
    run = fedrep.save(tmp_path / "run")
    np.savez(tmp_path / "new.npz", x=X, y=Y)
    code = f"""
import os, signal, manyheads as mh
from pathlib import Path
from manyheads.onboarding import model_folder, save_personal
mine = mh.personalize(mh.load({str(run)!r}), {str(tmp_path / "new.npz")!r}, curve=[])
Path.replace = lambda self, target: os.kill(os.getpid(), signal.SIGKILL)
save_personal(mine, {str(tmp_path / "model")!r}, exports=[])
"""
    killed = subprocess.run([sys.executable, "-c", code], env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "model").exists()
    assert any(p.name.startswith(".model.") for p in tmp_path.iterdir())  # it had got that far
    save_personal(mh.personalize(fedrep, (X, Y), curve=[]), tmp_path / "model", exports=[])
    assert PersonalModel.load(tmp_path / "model").card["method"] == "fedrep"


# -- other models and data ----------------------------------------------------------------------------------------------


def federation_of(x, y, classes, **more):
    clients = [(x[i::4], y[i::4]) for i in range(4)]
    return replace(mh.Federation.from_clients(clients, outputs=classes), **more)


def test_images_stored_as_bytes_and_a_model_with_dropout(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    x = (rng.integers(0, 100, (80, 3, 16, 16)) + 100 * y[:, None, None, None]).astype(np.uint8)
    scaling = Scaling((0.5, 0.4, 0.3), (0.2, 0.2, 0.2))
    federation = federation_of(x, y, 2, scaling=scaling, label_names=("dark", "light"))
    run = mh.simulate(mh.FedPer(), "cnn-cifar100", federation, rounds=1)
    mine = mh.personalize(run, (x[:20], y[:20]), finetune="head:2", curve=[])
    card = save_personal(mine, tmp_path / "model")
    assert card["exports"].keys() == {"torch", "onnx"}
    assert card["encoding"]["pixels"]["mean"] == [0.5, 0.4, 0.3]
    found = [
        PersonalModel.load(tmp_path / "model", engine).predict(new_site(x, y, run.encoding))
        for engine in ("model", "model", "onnx")
    ]
    assert found[0].labels == found[1].labels == found[2].labels
    assert set(found[0].labels) <= {"dark", "light"}
    np.testing.assert_allclose(found[2].values, found[0].values, atol=1e-4)
    scaled = (torch.from_numpy(x) / 255 - torch.tensor(scaling.mean).view(3, 1, 1)) / 0.2
    np.testing.assert_allclose(
        PersonalModel.load(tmp_path / "model").outputs(scaled.numpy()), found[0].values, atol=1e-4
    )


def test_frozen_word_vectors_travel_with_the_weights(tmp_path):
    (tmp_path / "words.txt").write_text("<pad>\n<unk>\ngood\nbad\n")
    (tmp_path / "glove.txt").write_text("good 1 0.5 0\nbad -1 -0.5 0\n")
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    x = np.where(rng.random((40, 5)) < 0.8, 2 + y[:, None], 1).astype(np.int64)
    federation = federation_of(x, y, 2)
    from manyheads.models import MODELS, build_model
    from manyheads.run.simulate import run_training
    from manyheads.run.training import Training

    spec = MODELS.find("lstm")(units=8, vectors=str(tmp_path / "glove.txt"), words=str(tmp_path / "words.txt"))
    model = build_model(spec, (5,), 2, 0)
    table = {"data": {"name": "custom"}, "model": {"name": "lstm", **mh.core.settings.as_dict(spec)}}
    run = run_training(mh.FedRep(), model, federation, Training(rounds=1), table, None)
    mine = mh.personalize(run, (x, y), curve=[])
    save_personal(mine, tmp_path / "model", exports=[])
    for file in ("words.txt", "glove.txt"):
        (tmp_path / file).unlink()
    loaded = PersonalModel.load(tmp_path / "model")
    run.model.net.bind(mine.params)
    with torch.no_grad():
        np.testing.assert_allclose(loaded.outputs(x), run.model.module.eval()(torch.from_numpy(x)), atol=1e-6)


def test_a_model_of_ones_own_predicts_by_its_onnx_export(tmp_path):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 10))
    run = mh.simulate(mh.FedPer(), mh.Model(module, head="3", norm="local"), FEDERATION, rounds=2)
    mine = mh.personalize(run, (X, Y), curve=[])
    save_personal(mine, tmp_path / "model", exports=["onnx"])
    with pytest.raises(UserError, match="--engine onnx"):
        PersonalModel.load(tmp_path / "model")
    found = PersonalModel.load(tmp_path / "model", "onnx").predict(new_site(X, Y, mine.encoding))
    run.model.net.bind(mine.params)
    with torch.no_grad():
        assert found.labels == [str(i) for i in run.model.module.eval()(torch.from_numpy(X)).argmax(1).tolist()]


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
    assert facts["after"]["rmse"] < 0.3 * facts["baseline"]["rmse"]
    assert facts["after"]["rmse"] < facts["before"]["rmse"]
    with np.load(tmp_path / "new.npz") as file:
        train, test = split(file["y"], run.encoding, 0.3, 0)
        spread = np.sqrt(np.mean((file["y"][test] - file["y"][train].mean()) ** 2))
        save_personal(mine, tmp_path / "model", exports=[])
        model = PersonalModel.load(tmp_path / "model")
        found = model.predict(read_new_site(tmp_path / "new.npz", model.encoding))
        errors = found.values[:, 0] - file["y"]
    assert facts["baseline"]["rmse"] == pytest.approx(spread, rel=1e-4)
    assert np.sqrt(np.mean(errors[test] ** 2)) == pytest.approx(facts["after"]["rmse"], rel=1e-4)
    assert found.rmse == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-4)
    assert found.rows()[0].keys() == {"row", "value"}


def test_held_out_rows_have_no_part_in_the_model(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "sites"
    folder.mkdir()
    x, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    for name in "ab":
        np.savez(folder / f"{name}.npz", x=x + rng.normal(size=x.shape), y=y)
    federation = Sites(path=str(folder)).federation(0)
    run = mh.simulate(mh.FedRep(), "mlp", federation, rounds=1)
    _, test = split(y, run.encoding, 0.3, 0)
    made = []
    for factor in (1, 1000):
        x[test] *= factor
        np.savez(tmp_path / "new.npz", x=x, y=y)
        made.append(mh.personalize(run, tmp_path / "new.npz"))
    assert made[0].encoding == made[1].encoding
    assert made[0].encoding.columns.mean == pytest.approx(np.delete(x, test, axis=0).mean(axis=0))
    assert all(torch.equal(v, made[1].params[k]) for k, v in made[0].params.items())
    assert made[0].facts["after"]["loss"] != made[1].facts["after"]["loss"]


def test_several_targets(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3)).astype(np.float32)
    samples = Samples.of([(x, x[:, :2] * 2)])
    run = mh.simulate(mh.FedAvg(), "mlp", mh.Federation("two", samples, samples, "regression", 2), rounds=2)
    save_personal(mh.personalize(run, (x + 1, x[:, :2] * 2), curve=[]), tmp_path / "model", exports=[])
    model = PersonalModel.load(tmp_path / "model")
    assert model.predict(new_site(x, x[:, :2], model.encoding)).rows()[3].keys() == {"row", "value0", "value1"}


# -- a client that took part -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", ["client", "federated"])
@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_a_site_that_took_part_is_measured_on_what_the_run_did_not_train_on(kind, scaling, tmp_path):
    """Labels are noise, which a run can only know by heart: on samples that it has not seen it is no better than chance."""
    rng = np.random.default_rng(0)
    for name in ("a", "b", "c"):
        rows = []
        for x, category in zip(rng.normal(size=(60, 12)), rng.integers(0, 3, 60), strict=True):
            y = rng.integers(0, 2) if kind == "classification" else f"{rng.normal():.3f}"
            rows.append(",".join([*(f"{v:.3f}" for v in x), "xy"[category] if category < 2 else "", str(y)]))
        header = ",".join([*(f"x{i}" for i in range(12)), "ward", "label"])
        (tmp_path / f"{name}.csv").write_text("\n".join([header, *rows]))
    source = Sites(path=str(tmp_path), scaling=scaling)
    federation = source.federation(seed=0).with_validation(0.1, seed=0)
    assert np.array_equal(federation.hashes.y, federation.train.y)
    method = mh.FedAvg(epochs=20, sgd=mh.SGD(lr=0.1))
    run = mh.simulate(method, "mlp", federation, rounds=15, evaluate=mh.Evaluate(every=15))
    mine = mh.personalize(run, tmp_path / "b.csv", curve=[])
    trained = int(federation.train.sizes[1])
    assert (mine.facts["seen"], mine.facts["train"] + mine.facts["held_out"]) == (trained, 60)
    assert mine.facts["held_out"] == min(18, 60 - trained)
    assert f"the run was trained on {trained} of these 60 samples" in " ".join(mine.facts["warnings"])
    if kind == "classification":
        assert mine.facts["before"]["accuracy"] < 0.85
    else:
        assert mine.facts["before"]["loss"] > 0.5
    run.save(tmp_path / "kept")
    again = mh.personalize(mh.load(tmp_path / "kept"), tmp_path / "b.csv", curve=[])
    assert (again.facts["seen"], again.facts["held_out"]) == (trained, mine.facts["held_out"])


def test_samples_of_arrays_are_known_again_and_new_clients_are_new(fedrep):
    x, y = samples_of(FEDERATION, 3)
    facts = mh.personalize(fedrep, (x, y), curve=[]).facts
    assert facts["seen"] == FEDERATION.train.sizes[3]
    assert facts["held_out"] == min(round(0.3 * len(y)), FEDERATION.test.sizes[3])
    assert mh.personalize(fedrep, (X, Y), curve=[]).facts["seen"] == 0
    with pytest.raises(UserError, match="trained on all of these"):
        mh.personalize(fedrep, FEDERATION.train.client(3))


def test_samples_that_several_clients_have_tell_nothing_about_who_took_part():
    """Three switches and a label are the same everywhere: a new site with such rows is still measured."""
    rng = np.random.default_rng(0)
    clients = [(x, (x.sum(1) > 1).astype(np.int64)) for x in rng.integers(0, 2, (4, 80, 3)).astype(np.float32)]
    run = mh.simulate(mh.FedAvg(), "mlp", mh.Federation.from_clients(clients[:3]), rounds=1)
    facts = mh.personalize(run, clients[3], curve=[]).facts
    assert (facts["seen"], facts["held_out"], facts["warnings"]) == (0, 24, [])


def test_a_run_that_does_not_tell_its_samples_is_doubted(tmp_path):
    run = mh.simulate(mh.FedAvg(), "mlp", FEDERATION, rounds=1, out=tmp_path / "run")
    kept = tmp_path / "run" / "trained.safetensors"
    whole = kept.read_bytes()
    for content in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:20], b""):
        kept.write_bytes(content)
        facts = mh.personalize(run, (X, Y), curve=[]).facts
        assert facts["seen"] is None
        assert "does not tell what it was trained on" in " ".join(facts["warnings"])
