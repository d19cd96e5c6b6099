"""``manyheads compare``, as its user meets it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from shutil import copy

import numpy as np
import pytest
from commands import call, error_of, facts_of
from processes import until

from manyheads import UserError, compare
from manyheads.data import Digits, Iid, federate

SMALL = ["compare", "--data", "digits", "--partition", "classes:3", "--clients", 6, "--rounds", 2, "--seeds", 2]
QUICK = ["--folds", 2, "--baselines", "majority,linear", "--pooled", "false", "--local-rounds", 5]
SMALL += ["--methods", "fedavg,fedavg+ft,fedrep", "--rates", "0.05,0.2", "--metric", "accuracy", *QUICK]
FEDERATED = ["fedavg", "fedavg+ft", "fedrep"]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A comparison that several tests look at."""
    out, printed = tmp_path_factory.mktemp("compare") / "out", StringIO()
    with redirect_stdout(printed):
        assert call(*SMALL, "--out", out, "--json") == 0
    (out.parent / "printed.json").write_text(printed.getvalue())
    copy(out / "compare.json", out.parent)  # as it is before tests go on with it
    return out


def test_one_json_object_with_all_that_was_asked_for(done):
    facts, kept = (json.loads((done.parent / name).read_text()) for name in ("printed.json", "compare.json"))
    assert list(facts["methods"]) == ["alone", "majority", "linear", "local", *FEDERATED]
    assert (facts["folds"], facts["score"], facts["reason"]) == (2, "accuracy", "it was asked for")
    for name, method in facts["methods"].items():
        low, high = method["interval"]
        assert low <= method["accuracy"] <= high
        assert method["worst_decile"] <= method["accuracy"]
        assert len(method["per_seed"]) == 2
        assert (method.get("bytes", 0) > 0) == (name in FEDERATED)
        if name in FEDERATED:
            assert [row["client"] for row in method["gains"]] == list(range(6))
            assert all(row["interval"][0] <= row["gain"] <= row["interval"][1] for row in method["gains"])
            assert sum(method["gain"]["clients"].values()) == 6
            assert method["passes"] > 0
            assert [choice["fold"] for choice in method["choices"]] == [0, 1]
    assert [site["client"] for site in facts["sites"]] == list(range(6))
    assert all(site["text"] and site["alone_model"] in ("majority", "linear", "local") for site in facts["sites"])
    assert facts["recommendation"]["text"]
    assert facts["out"] == str(done)
    assert facts["report"] == str(done / "report.html")
    assert all(facts[k] == kept[k] for k in ("methods", "recommendation", "check"))


@pytest.mark.parametrize("flag", [("--clients", 7), ("--seed", 5), ("--validation", 0.3), ("--participation", 0.5)])
def test_a_resume_that_is_refused_leaves_the_comparison_as_it_was(done, flag, capsys):
    before = {p: p.read_bytes() for p in done.rglob("*") if p.is_file()}
    assert "resume" in error_of(capsys, "compare", "--resume", "--out", done, *flag)
    assert {p: p.read_bytes() for p in done.rglob("*") if p.is_file()} == before


def test_further_metrics_and_chosen_monitors(tmp_path, capsys):
    words = [
        "--methods",
        "fedavg",
        "--rates",
        0.1,
        "--metrics",
        "loss",
        "--monitor",
        "drift",
        "--out",
        tmp_path / "out",
    ]
    facts = facts_of(capsys, *SMALL, *words)
    fedavg = facts["methods"]["fedavg"]
    assert list(fedavg["monitors"]) == ["drift"]
    loss = fedavg["metrics"]["loss"]
    assert loss["low"] == min(loss["per_seed"]) < loss["mean"] < max(loss["per_seed"]) == loss["high"]
    assert call("compare", "--resume", "--out", tmp_path / "out") == 0
    rows = capsys.readouterr().out.splitlines()
    assert any("loss" in row.split() for row in rows[:4])
    assert any(row.startswith("fedavg") and f" {loss['mean']:.3g} " in row for row in rows)
    assert any(row.startswith("accuracy decides: it was asked for") for row in rows)
    assert "unknown metric" in error_of(capsys, *SMALL, "--metric", "none", "--out", tmp_path / "b")


def test_methods_that_fine_tune_need_fine_tuning(tmp_path, capsys):
    told = error_of(capsys, *SMALL, "--finetune", "none", "--out", tmp_path / "out")
    assert "fedavg+ft fine-tunes; given 'none'" in told


def test_a_table_a_recommendation_and_where_the_results_are(done, capsys):
    assert call("compare", "--resume", "--out", done) == 0
    out = " ".join(capsys.readouterr().out.split())
    facts = json.loads((done / "compare.json").read_text())
    for name, method in facts["methods"].items():
        assert f"{name} {100 * method['accuracy']:.1f}" in out
    assert facts["recommendation"]["text"] in out
    assert facts["check"] in out
    assert f"report {done / 'report.html'}" in out
    assert (done / "report.html").read_text().startswith("<!doctype html>")


def test_resumed_with_one_more_method_trains_only_that(done, capsys):
    before = {p: p.stat().st_mtime_ns for p in done.glob("runs/*/history.jsonl")}
    facts = facts_of(capsys, "compare", "--resume", "--out", done, "--methods", "fedavg,fedavg+ft,fedrep,fedper")
    assert "fedper" in facts["methods"]
    assert {p: p.stat().st_mtime_ns for p in before} == before


def test_runs_with_other_settings_of_a_method_stand_beside_those_that_are_there(done, capsys):
    """And are found again: a trial is named by all its settings."""
    before = {p: p.stat().st_mtime_ns for p in done.glob("runs/*/history.jsonl")}
    small = facts_of(capsys, "compare", "--resume", "--out", done, "--batch", 3)
    assert small["methods"]["fedrep"]["algorithm"]["batch"] == 3
    both = {p: p.stat().st_mtime_ns for p in done.glob("runs/*/history.jsonl")}
    assert len(both) > len(before)
    facts_of(capsys, "compare", "--resume", "--out", done, "--batch", 10)
    again = {p: p.stat().st_mtime_ns for p in done.glob("runs/*/history.jsonl")}
    assert again == both


def test_the_users_own_sites(tmp_path, capsys):
    """A folder of tables as the first word, and a file with settings of a method."""
    folder = tmp_path / "sites"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in ("north", "south", "east"):
        x = rng.normal(size=(50, 3))
        rows = [f"{a:.3f},{b:.3f},{c:.3f},{'yes' if a + b > 0 else 'no'}" for a, b, c in x]
        (folder / f"{name}.csv").write_text("\n".join(["a,b,c,label", *rows]))
    rest = ["--rounds", 2, "--seeds", 1, "--rates", 0.1, "--methods", "fedavg", *QUICK]
    facts = facts_of(capsys, "compare", folder, *rest, "--out", tmp_path / "a")
    assert [row["name"] for row in facts["methods"]["fedavg"]["gains"]] == ["east", "north", "south"]
    assert "150 test samples in 2 folds, 1 seed" in facts["recommendation"]["text"]
    described = tmp_path / "study.toml"
    described.write_text(
        f'rounds = 2\n[data]\nname = "sites"\npath = "{folder}"\n[compare]\nmethods = ["fedrep"]\nseeds = 1\nfolds = 1\nrates = [0.1]\n'
        "[compare.options.fedrep]\nhead_epochs = 3\n"
    )
    facts = facts_of(capsys, "compare", described, "--out", tmp_path / "b")
    assert facts["methods"]["fedrep"]["algorithm"]["head_epochs"] == 3


def test_one_site_has_nothing_to_federate(tmp_path, capsys):
    words = ["compare", "digits", "--clients", 1, "--out", tmp_path / "a"]
    assert "nothing to federate, there is only client 0" in error_of(capsys, *words)
    assert not (tmp_path / "a").exists()
    federation = federate(Digits().pool(seed=0), Iid(), clients=1, seed=0)
    with pytest.raises(UserError, match="nothing to federate"):
        compare(federation, out=tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_mistakes_are_one_line(tmp_path, capsys, done):
    assert "did you mean 'fedrep'" in error_of(capsys, *SMALL, "--methods", "fedrepp", "--out", tmp_path / "a")
    assert "exists already" in error_of(capsys, *SMALL, "--out", done)
    assert "--resume needs --out" in error_of(capsys, "compare", "--resume")
    assert "compare.rates" in error_of(capsys, *SMALL, "--rates", "0.1,-1", "--out", tmp_path / "a")
    assert "of another division" in error_of(
        capsys, "compare", "--resume", "--out", done, "--clients", 7, "--workers", 1
    )
    assert not (tmp_path / "a").exists()


def test_what_a_resume_is_refused_for_does_not_stay_in_the_settings(done, capsys):
    before = (done / "compare.toml").read_bytes()
    error_of(capsys, "compare", "--resume", "--out", done, "--clients", 7, "--workers", 1)
    assert (done / "compare.toml").read_bytes() == before


def test_results_of_other_settings_than_those_beside_them_are_noticed(tmp_path, capsys):
    few = ["compare", "--data", "digits", "--clients", 3, "--rounds", 1, "--seeds", 1, "--methods", "fedavg", *QUICK]
    facts = {}
    for seed in (0, 1):
        arguments = [*few, "--rates", "0.1", "--seed", seed, "--out", tmp_path / f"{seed}", "--workers", 1]
        facts[seed] = facts_of(capsys, *arguments)
    (tmp_path / "0" / "compare.json").write_bytes((tmp_path / "1" / "compare.json").read_bytes())
    assert "compare.json is damaged, or of other settings" in error_of(capsys, "report", tmp_path / "0")
    capsys.readouterr()
    assert call("compare", "--resume", "--out", tmp_path / "0", "--json") == 0
    out, err = capsys.readouterr()
    assert "of other settings than compare.toml has now; it is made again" in err
    assert json.loads(out)["methods"] == facts[0]["methods"]


def test_ctrl_c_says_how_to_go_on(tmp_path):
    out = tmp_path / "out"
    words = [*map(str, SMALL), "--rounds", "100000", "--workers", "2", "--out", str(out)]
    command = [sys.executable, "-m", "manyheads", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        until(lambda: process.poll() is not None or list(out.glob("runs/*/history.jsonl")))
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert f"manyheads compare --resume --out {out}" in err
