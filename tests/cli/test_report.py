"""``manyheads report``, as its user meets it."""

from __future__ import annotations

import json

import pytest
from commands import call, error_of, facts_of

from manyheads.data import Classes, Digits, federate
from manyheads.experiments import compare

SMALL = ["run", "--data", "digits", "--partition", "classes:3", "--clients", "5", "--rounds", "3", "--workers", "1"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    for name in ("fedrep", "fedavg"):
        assert call(*SMALL, "--algorithm", name, "--out", place / name, "--json") == 0
    return place


def test_a_comparison_becomes_a_page_and_figures(tmp_path, capsys):
    federation = federate(Digits().pool(0), Classes(3), clients=4, seed=0)
    few = {"rounds": 2, "seeds": 1, "rates": [0.05], "folds": 2, "baselines": ["majority"], "local_rounds": 2}
    compare(federation, methods=["fedavg"], **few, out=tmp_path / "compared")
    assert call("report", tmp_path / "compared", "--figures", tmp_path / "figures", "--format", "svg", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["report"] == str(tmp_path / "compared" / "report.html")
    assert "Should these sites train together?" in (tmp_path / "compared" / "report.html").read_text()
    assert sorted(told["figures"]) == sorted(str(p) for p in (tmp_path / "figures").iterdir())
    assert {p.suffix for p in (tmp_path / "figures").iterdir()} == {".svg"}


def test_a_run_becomes_a_smaller_page(runs, capsys):
    assert call("report", runs / "fedrep") == 0
    out, _ = capsys.readouterr()
    assert str(runs / "fedrep" / "report.html") in out
    text = (runs / "fedrep" / "report.html").read_text()
    last = json.loads((runs / "fedrep" / "history.jsonl").read_text().splitlines()[-1])
    assert f"FedRep: 3 of 3 rounds, test accuracy {100 * last['evaluation']['accuracy']:.1f} %." in text
    assert last["evaluation"]["protocol"].replace("'", "&#39;") in text


def test_several_runs_side_by_side(runs, tmp_path):
    figures = tmp_path / "figures"
    assert (
        call("report", runs / "fedrep", runs / "fedavg", "--out", tmp_path / "x" / "both.html", "--figures", figures)
        == 0
    )
    text = (tmp_path / "x" / "both.html").read_text()
    assert 'data-method="FedRep"' in text
    assert 'data-method="FedAvg"' in text
    assert {p.name for p in figures.iterdir()} == {
        f"{name}.{kind}" for name in ("training-loss", "rounds", "bytes", "loss", "sites") for kind in ("svg", "png")
    }


def test_errors_are_one_line(runs, tmp_path, capsys):
    assert "no such folder" in error_of(capsys, "report", tmp_path / "nowhere")
    assert "holds neither a comparison nor a run" in error_of(capsys, "report", tmp_path)
    assert "needs a file to go to" in error_of(capsys, "report", runs / "fedrep", runs / "fedavg")
    wrong = error_of(capsys, "report", runs / "fedrep", "--figures", tmp_path / "f", "--format", "svg,gif")
    assert "unknown kind of figure" in wrong
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "compare.json").write_text("{")
    assert "is damaged" in error_of(capsys, "report", damaged)
    (damaged / "compare.json").unlink()
    (damaged / "config.toml").write_text("rounds = ")
    assert "config.toml is damaged" in error_of(capsys, "report", damaged)
    (damaged / "config.toml").write_text((runs / "fedrep" / "config.toml").read_text())
    assert "has no evaluation yet" in error_of(capsys, "report", damaged)


def test_a_run_cut_short_by_a_crash_is_reported(runs, tmp_path):
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "config.toml").write_text((runs / "fedrep" / "config.toml").read_text())
    whole = (runs / "fedrep" / "history.jsonl").read_text()
    (tmp_path / "cut" / "history.jsonl").write_text(whole[:-40])
    assert call("report", tmp_path / "cut") == 0
    assert "FedRep: 2 of 3 rounds" in (tmp_path / "cut" / "report.html").read_text()


def test_monitors_of_a_run_are_drawn(tmp_path, capsys):
    out = tmp_path / "run"
    run = [
        "run",
        "--data",
        "digits",
        "--partition",
        "classes:3",
        "--clients",
        4,
        "--algorithm",
        "fedrep",
        "--rounds",
        2,
    ]
    assert call(*run, "--workers", 1, "--monitor", "cka,drift", "--out", out) == 0
    made = facts_of(capsys, "report", out, "--figures", tmp_path / "figures", "--format", "svg")
    drawn = {path.rpartition("/")[2] for path in made["figures"]}
    assert {"monitor-cka.svg", "monitor-drift.svg"} <= drawn
    assert "how much of the initial representation is left" in (out / "report.html").read_text()
