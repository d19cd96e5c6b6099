"""What ``data check`` warns of is shown wherever the data are used, and kept with the results."""

from __future__ import annotations

import json

import pytest
from commands import call, error_of, facts_of

import manyheads

HINT = "whole numbers, taken for quantities, that may be codes: 'thal'"
ALONE = "'c' has one row: nothing is left to test it with"
UNMEASURED = "1 of 3 clients have too few samples to set some aside for test: 'c'"


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "my_sites"
    place.mkdir()
    for site, rows in (("a", 30), ("b", 40), ("c", 1)):
        text = "".join(f"{20 + i * 7 % 31},{(3, 6, 7)[i % 3]},{i % 2}\n" for i in range(rows))
        (place / f"{site}.csv").write_text(f"age,thal,outcome\n{text}")
    return place


def test_a_run_says_shows_and_keeps_them(folder, tmp_path, capsys):
    out = tmp_path / "run"
    run = ["run", "--data", folder, "--data.label", "outcome", "--rounds", 1, "--workers", 1, "--out", out]
    assert call(*run, "--json") == 0
    said, shown = capsys.readouterr()
    facts = json.loads(said)
    for words in (HINT, ALONE, UNMEASURED):
        assert sum(line.startswith("warning: ") and words in line for line in shown.splitlines()) == 1
        assert sum(words in w for w in facts["warnings"]) == 1
    assert list(manyheads.load(out).warnings) == facts["warnings"]
    assert list(manyheads.load(manyheads.load(out).save(tmp_path / "copy")).warnings) == facts["warnings"]
    assert manyheads.load(out).encoding.columns.label == "outcome"
    assert call("report", out) == 0
    page = (out / "report.html").read_text()
    assert "Warnings about the data" in page
    assert "has one row: nothing is left" in page


def test_a_comparison_says_shows_and_keeps_them(folder, tmp_path, capsys):
    out = tmp_path / "compared"
    few = ["--rounds", 1, "--seeds", 1, "--methods", "fedavg", "--rates", "0.1", "--workers", 1]
    few += ["--folds", 2, "--baselines", "majority", "--pooled", "false"]
    assert call("compare", folder, "--data.label", "outcome", *few, "--out", out, "--json") == 0
    said, shown = capsys.readouterr()
    warnings = json.loads(said)["data"]["warnings"]
    for words in (HINT, ALONE, UNMEASURED):
        assert sum(line.startswith("warning: ") and words in line for line in shown.splitlines()) == 1
        assert sum(words in w for w in warnings) == 1
    assert json.loads((out / "compare.json").read_text())["data"]["warnings"] == warnings
    page = (out / "report.html").read_text()
    assert f"{len(warnings)} warnings" in page
    assert "has one row: nothing is left" in page


def test_a_description_shows_them(folder, capsys):
    facts = facts_of(capsys, "data", "describe", "--data", folder, "--data.label", "outcome")
    assert any(HINT in w for w in facts["warnings"])
    assert call("data", "describe", "--data", folder, "--data.label", "outcome") == 0
    assert HINT in capsys.readouterr().out


def test_data_without_doubts_say_nothing(capsys, tmp_path):
    assert call("run", "--data", "digits", "--clients", 3, "--rounds", 1, "--workers", 1, "--out", tmp_path / "r") == 0
    assert "warning" not in capsys.readouterr().err
    assert manyheads.load(tmp_path / "r").warnings == ()


def test_sites_that_are_too_small_are_not_said_to_diverge(tmp_path, capsys):
    (tmp_path / "tiny").mkdir()
    for site in "abc":
        (tmp_path / "tiny" / f"{site}.csv").write_text("x,label\n1,0\n2,1\n")
    error = error_of(capsys, "compare", tmp_path / "tiny", "--rounds", 1, "--out", tmp_path / "out")
    assert "no site has enough samples to set some aside for tests" in error
    assert "diverged" not in error
    assert not (tmp_path / "out").exists()
    assert call("run", "--data", tmp_path / "tiny", "--rounds", 1, "--workers", 1, "--out", tmp_path / "run") == 0
    out, err = capsys.readouterr()
    assert "nothing to measure" in out
    assert "3 of 3 clients have too few samples" in err


@pytest.mark.parametrize("command", [["compare"], ["run", "--data"], ["data", "describe", "--data"]])
def test_a_mistyped_folder_is_told_as_that(folder, monkeypatch, capsys, command):
    monkeypatch.chdir(folder.parent)
    error = error_of(capsys, *command, "my_site")
    assert "no such folder" in error
    assert "did you mean 'my_sites'?" in error


@pytest.mark.parametrize(
    "command",
    [
        ["compare", "x" * 300],
        ["run", "--data", "x" * 300],
        ["run", "x" * 300 + ".toml"],
        ["run", "--rounds", 1, "--out", "x" * 300],
        ["run", "--resume", "--out", "x" * 300],
        ["compare", "--resume", "--out", "x" * 300],
        ["data", "describe", "--data", "x" * 300],
    ],
)
def test_names_that_no_file_can_have_are_one_line(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert "bug" not in error_of(capsys, *command)


def test_a_folder_with_a_long_name_gives_the_run_a_short_one(folder, monkeypatch, capsys, tmp_path):
    long = folder.rename(folder.with_name("s" * 250))
    monkeypatch.chdir(tmp_path)
    assert call("run", "--data", long, "--data.label", "outcome", "--rounds", 1, "--workers", 1) == 0
    assert len(next((tmp_path / "runs").iterdir()).name) < 120
