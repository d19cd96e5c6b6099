"""The model of a site that took part: it predicts what the run's own model for the site predicts."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from new_client import FEDERATION
from torch import nn

import manyheads as mh
from manyheads.core.errors import UserError
from manyheads.core.sealed import read_json, write_json
from manyheads.data.sites.new_site import new_site, read_new_site
from manyheads.data.sites.source import Sites
from manyheads.onboarding import PersonalModel, save_personal, site_model, site_names
from manyheads.onboarding.model_folder import CARD

pytestmark = pytest.mark.usefixtures("few_baselines")

NAMES = ("leeds", "oslo", "turin")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three sites whose columns have units of their own, with gaps, a category, and a label that depends on all."""
    rng, place = np.random.default_rng(0), tmp_path_factory.mktemp("units") / "sites"
    place.mkdir()
    for site, name in enumerate(NAMES):
        rows = []
        for a, b, gap in zip(rng.normal(size=60), rng.normal(size=60), rng.random(60), strict=True):
            age = "" if gap < 0.1 else f"{(50 + 9 * a) * 10**site:.3f}"
            rows.append(f"{age},{b + 5 * site:.3f},{'AB'[int(b > 0)]},{'ill' if a + b > 0 else 'well'}")
        (place / f"{name}.csv").write_text("\n".join(["age,dose,ward,outcome", *rows]))
    return place


METHODS = {
    "personal": (mh.FedRep(sgd=mh.SGD(lr=0.05)), None),
    "shared": (mh.FedAvg(sgd=mh.SGD(lr=0.05)), None),
    "adapted": (mh.PerFedAvg(alpha=0.05), None),
    "remembering": (mh.KNNPer(sgd=mh.SGD(lr=0.05), weight=0.5), None),
    "finetuned": (mh.FedAvg(sgd=mh.SGD(lr=0.05)), mh.FineTune(scope="all", epochs=2, lr=0.05)),
}


@pytest.mark.parametrize("scaling", ["client", "federated", "none"])
@pytest.mark.parametrize("method", METHODS)
def test_the_folder_of_a_site_predicts_as_the_run_does(method, scaling, folder, tmp_path):
    federation = Sites(path=str(folder), label="outcome", scaling=scaling).federation(0)
    algorithm, tune = METHODS[method]
    run = mh.simulate(algorithm, "mlp", federation, rounds=3, finetune=tune, out=tmp_path / "run")
    whole = run.predictions(federation, finetuned=tune is not None)
    run = mh.load(tmp_path / "run")
    assert run.adapts == (method not in ("personal", "shared"))
    for client, name in enumerate(NAMES):
        mine = site_model(run, name, federation)
        save_personal(mine, tmp_path / name, exports=[])
        model = PersonalModel.load(tmp_path / name)
        found = model.predict(read_new_site(folder / f"{name}.csv", model.encoding))
        test = federation.test.rows[federation.test.span(client)]
        np.testing.assert_allclose(found.values[test], whole.client(client).outputs, atol=1e-4)
        assert (model.card["memory"] is not None) == (method == "remembering")
        right = (whole.client(client).predicted == whole.client(client).labels).mean()
        assert mine.facts["test"]["accuracy"] == pytest.approx(right, abs=1e-6)


def test_the_training_samples_are_read_again_from_where_the_run_had_them(folder, tmp_path):
    from commands import call

    flags = ["--data", folder, "--data.label", "outcome", "--algorithm", "perfedavg", "--rounds", 2, "--workers", 1]
    assert call("run", *flags, "--out", tmp_path / "run") == 0
    run = mh.load(tmp_path / "run")
    again = site_model(run, "oslo")
    given = site_model(run, "oslo", Sites(path=str(folder), label="outcome").federation(0))
    assert all(v.equal(given.params[k]) for k, v in again.params.items())
    assert not all(v.equal(run.client_model(1)[k]) for k, v in again.params.items())


def test_data_that_changed_or_cannot_be_read_again_are_one_line(folder, tmp_path):
    run = mh.simulate(mh.PerFedAvg(), "mlp", FEDERATION, rounds=1)
    with pytest.raises(UserError, match=r"site_model\(run, site, federation\)"):
        site_model(run, "client 0")
    assert site_model(run, "client 0", FEDERATION).facts["site"] == "client 0"


def test_clients_without_names_and_pixels(tmp_path, fedrep):
    assert site_names(fedrep) == list(FEDERATION.client_names)
    mine = site_model(fedrep, site_names(fedrep)[3])
    card = save_personal(mine, tmp_path / "model")
    assert card["exports"].keys() == {"torch", "onnx"}
    x, y = FEDERATION.test.client(3)
    found = PersonalModel.load(tmp_path / "model", "onnx").predict(new_site(x, y, mine.encoding))
    np.testing.assert_allclose(found.values, fedrep.predictions(FEDERATION).client(3).outputs, atol=1e-4)


@pytest.mark.parametrize("shape", ["mlp", nn.Linear(64, 10)], ids=["features", "inputs"])
def test_a_memory_is_exported_and_warned_of(shape, tmp_path):
    run = mh.simulate(mh.KNNPer(neighbours=4, weight=0.8), shape, FEDERATION, rounds=2)
    mine = site_model(run, site_names(run)[3], FEDERATION)
    card = save_personal(mine, tmp_path / "model")
    x, y = FEDERATION.test.client(3)
    assert card["exports"].keys() == {"torch", "onnx"}
    assert card["memory"] == {"neighbours": 4, "scale": 1.0, "weight": 0.8, "classes": True}
    count = FEDERATION.train.sizes[3]
    assert f"the features and labels of {count} training samples" in card["measured"]["warnings"][0]
    engines = ("model", "onnx") if shape == "mlp" else ("onnx",)
    for engine in engines:
        found = PersonalModel.load(tmp_path / "model", engine).predict(new_site(x, y, mine.encoding))
        np.testing.assert_allclose(found.values, run.predictions(FEDERATION).client(3).outputs, atol=1e-4)


def test_a_damaged_memory_is_one_line(folder, tmp_path):
    federation = Sites(path=str(folder), label="outcome").federation(0)
    run = mh.simulate(mh.KNNPer(), "mlp", federation, rounds=1)
    save_personal(site_model(run, "oslo", federation), tmp_path / "model", exports=[])
    card = read_json(tmp_path / "model" / CARD, fix="")
    for wrong in ({"neighbours": 3}, {"kind": 1}):
        write_json(tmp_path / "model" / CARD, card | {"memory": wrong})
        with pytest.raises(UserError, match="does not fit the model of card.json"):
            PersonalModel.load(tmp_path / "model")


def test_a_saved_run_and_a_resumed_one_keep_the_scaling_of_each_site(folder, tmp_path):
    federation = Sites(path=str(folder), label="outcome").federation(0)
    run = mh.simulate(mh.FedAvg(), "mlp", federation, rounds=1, out=tmp_path / "run")
    means = [run.directory.site_encoding(i).columns.mean for i in range(3)]
    assert means[2][0] == pytest.approx(100 * means[0][0], rel=0.2)
    assert [c.mean for c in federation.site_columns] == means
    run.save(tmp_path / "copy")
    assert [mh.load(tmp_path / "copy").directory.site_encoding(i).columns.mean for i in range(3)] == means
    facts = json.loads((tmp_path / "run" / "data.json").read_text())
    write_json(
        tmp_path / "run" / "data.json", {k: v for k, v in facts.items() if k != "sites"}, of=run.directory.settings
    )
    with pytest.raises(UserError, match="does not tell how the columns of each site were scaled.*--resume"):
        site_model(mh.load(tmp_path / "run"), "oslo")
    mh.simulate(mh.FedAvg(), "mlp", federation, rounds=1, out=tmp_path / "run", resume=True)
    assert site_model(mh.load(tmp_path / "run"), "oslo").encoding.columns.mean == means[1]


def test_a_site_that_does_not_exist(fedrep):
    with pytest.raises(UserError, match="no such site; given 'client 33'.*did you mean 'client 3'"):
        site_model(fedrep, "client 33")


def test_nothing_measured_is_told_as_such(fedrep):
    quiet = replace(fedrep, history=type(fedrep.history)())
    assert site_model(quiet, "client 3").facts["test"] == {}
