"""A new site of a survival run: its own model, measured by the C-index, and log risks for its patients."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from commands import call, facts_of
from survivors import TRUE, sites, subjects

from manyheads import SGD, FedAvg, personalize, simulate
from manyheads.metrics import kaplan_meier
from manyheads.models.mlp import MLP


@pytest.fixture(scope="module")
def run():
    return simulate(FedAvg(batch=20, sgd=SGD(lr=0.3)), MLP(hidden=(4,)), sites((80, 60, 70)), rounds=8)


def test_it_is_measured_by_the_c_index(run):
    mine = personalize(run, subjects(np.random.default_rng(9), 60), curve=[10])
    facts = mine.facts
    assert facts["alone"]["majority"]["c_index"] == 0.5
    assert facts["alone"].keys() == {"majority", "linear"}
    assert facts["after"]["c_index"] > 0.6
    assert facts["curve"][-1]["c_index"] == facts["after"]["c_index"]
    assert facts["curve"][0]["min"] <= facts["curve"][0]["c_index"] <= facts["curve"][0]["max"]


def test_held_out_patients_have_their_share_of_events(run):
    x, y = subjects(np.random.default_rng(8), 50)
    y[:, 1] = np.arange(50) < 5
    mine = personalize(run, (x, y), test_fraction=0.4, curve=[])
    held_out = [np.flatnonzero(np.isclose(x, row).all(axis=1))[0] for row in mine.examples]
    assert y[held_out, 1].sum() == 2


def test_without_an_event_there_is_no_c_index(run):
    x, y = subjects(np.random.default_rng(7), 30)
    facts = personalize(run, (x, y * [1, 0])).facts
    assert facts["after"]["c_index"] is None
    assert facts["curve"][-1]["c_index"] is None


def test_by_command(tmp_path, capsys):
    rng = np.random.default_rng(0)
    (tmp_path / "trial").mkdir()
    for path, n in (("trial/a", 60), ("trial/b", 60), ("new", 80), ("more", 300)):
        rows = [",".join(f"{v:.6g}" for v in (*a, *b)) for a, b in zip(*subjects(rng, n), strict=True)]
        (tmp_path / f"{path}.csv").write_text("\n".join(["age,dose,noise,time,event", *rows]) + "\n")
    flags = ("--data", tmp_path / "trial", "--data.label", "time,event", "--model.hidden", 4, "--rounds", 10)
    facts_of(capsys, "run", *flags, "--algorithm.sgd.lr", 0.3, "--algorithm.batch", 20, "--out", tmp_path / "run")
    assert (
        call("personalize", tmp_path / "run", tmp_path / "new.csv", "--out", tmp_path / "model", "--export", "none")
        == 0
    )
    shown = capsys.readouterr().out
    assert "C-index" in shown
    assert "the same risk for all" in shown
    facts = facts_of(capsys, "predict", tmp_path / "model", tmp_path / "more.csv")
    assert facts["c_index"] > 0.65
    assert call("predict", tmp_path / "model", tmp_path / "more.csv") == 0
    out, err = capsys.readouterr()
    assert f"C-index {facts['c_index']:.3f}, of 300 labelled samples" in err
    risk = np.array([float(row["log_risk"]) for row in csv.DictReader(io.StringIO(out))])
    table = np.genfromtxt(tmp_path / "more.csv", delimiter=",", skip_header=1)
    assert np.corrcoef(risk, table[:, :3] @ TRUE)[0, 1] > 0.5
    low, high = (kaplan_meier(*table[rows, 3:].T) for rows in (risk < np.median(risk), risk >= np.median(risk)))
    at = [np.interp(0.5, curve.times, curve.survival) for curve in (low, high)]
    assert at[0] > at[1] + 0.2  # those of low risk live longer
