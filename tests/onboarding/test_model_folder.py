"""A new client's model in its folder: whole or not there, exported alike, predicting as it was measured."""

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
from new_client import FEDERATION, X, Y
from torch import nn

import manyheads as mh
from manyheads.core.errors import UserError
from manyheads.core.sealed import write_json
from manyheads.data.encoding import Scaling
from manyheads.data.samples import Samples
from manyheads.data.sites.new_site import new_site
from manyheads.onboarding import PersonalModel, save_personal
from manyheads.onboarding import export as exporting

pytestmark = pytest.mark.usefixtures("few_baselines")


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


def test_several_targets(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3)).astype(np.float32)
    samples = Samples.of([(x, x[:, :2] * 2)])
    run = mh.simulate(mh.FedAvg(), "mlp", mh.Federation("two", samples, samples, "regression", 2), rounds=2)
    save_personal(mh.personalize(run, (x + 1, x[:, :2] * 2), curve=[]), tmp_path / "model", exports=[])
    model = PersonalModel.load(tmp_path / "model")
    assert model.predict(new_site(x, x[:, :2], model.encoding)).rows()[3].keys() == {"row", "value0", "value1"}
