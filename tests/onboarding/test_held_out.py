"""Samples that a new client's model is measured on: of every label, and none that the run was trained on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from new_client import FEDERATION, X, Y, samples_of

import manyheads as mh
from manyheads.core.errors import UserError
from manyheads.data.sites.source import Sites
from manyheads.onboarding.held_out import split

pytestmark = pytest.mark.usefixtures("few_baselines")


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
    assert len(federation.train.hashes) == len(federation.train.y)
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
