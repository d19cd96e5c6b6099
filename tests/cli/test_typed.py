"""Things of a user's own on the command line: package.module:Name, with their settings as flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call, error_of, facts_of
from own_code import forget, own_code

from manyheads.run.config_file import read_run_config

QUICK = ["--clients", 4, "--rounds", 1, "--workers", 1]


def settings_of(folder: Path) -> dict[str, Any]:
    return read_run_config(folder).settings


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with own_code(tmp_path):
        yield tmp_path


@pytest.mark.parametrize(
    ("words", "shows"),
    [
        (["--algorithm", "own_things:Mine"], "--algorithm.part-way"),
        (["--algorithm", "./own_things.py:Mine"], "how far to go"),
        (["--model=own_things:Net"], "--model.units"),
        (["--data", "own_things:Blobs"], "--data.samples"),
    ],
)
def test_the_help_shows_its_settings(here, capsys, words, shows):
    assert call("run", *words, "--help") == 0
    assert shows in capsys.readouterr().out


def test_they_run_with_their_settings(here, capsys):
    words = [
        "--algorithm",
        "own_things:Mine",
        "--algorithm.part-way",
        "0.25",
        "--model",
        "own_things:Net",
        "--model.units",
        "3",
    ]
    facts = facts_of(capsys, "run", *words, "--partition", "own_things:Halves:0.7", *QUICK, "--out", "a")
    assert facts["algorithm"] == "mine"
    config = settings_of(here / "a")
    assert config["algorithm"]["name"] == "mine"
    assert config["algorithm"]["part_way"] == 0.25
    assert config["model"] == {"name": "my-net", "units": 3}
    assert config["partition"] == {"name": "halves", "first": 0.7}
    facts = facts_of(capsys, "run", "--data", "own_things:Blobs", "--data.samples", 30, *QUICK[2:], "--out", "b")
    assert settings_of(here / "b")["data"] == {"name": "blobs", "samples": 30}
    assert facts["accuracy"] > 0.5


def test_data_of_ones_own_is_described_and_compared(here, capsys):
    assert facts_of(capsys, "data", "describe", "--data", "own_things:Blobs")["clients"] == 5
    words = [
        "--methods",
        "fedavg,own_things:Mine,own_things:Mine+ft",
        "--seeds",
        1,
        "--rates",
        0.1,
        *QUICK[2:],
        "--local-rounds",
        2,
    ]
    words += ["--folds", 2, "--baselines", "majority", "--pooled", "false"]
    facts = facts_of(capsys, "compare", "own_things:Blobs", "--data.samples", 40, *words, "--out", "a")
    assert {"alone", "majority", "local", "fedavg", "mine", "mine+ft"} == facts["methods"].keys()
    assert facts["data"]["data"] == "blobs"
    forget(here)
    said = error_of(capsys, "compare", "--resume", "--out", "a")
    assert "--data own_things:Blobs --methods fedavg,own_things:Mine,own_things:Mine+ft" in said
    again = facts_of(capsys, "compare", "own_things:Blobs", "--resume", "--out", "a", *words[:2])
    assert again["methods"]["mine"]["accuracy"] == facts["methods"]["mine"]["accuracy"]
    forget(here)  # as a resume in another process finds it
    told = error_of(capsys, "compare", "--resume", "--out", "a")
    assert "own_things:Mine" in told
    assert "own_things:Blobs" in told
    again = facts_of(capsys, "compare", "own_things:Blobs", "--resume", "--out", "a", *words[:2])
    assert again["methods"] == facts["methods"]


def test_a_method_of_ones_own_is_shown(here, capsys):
    assert call("algorithms", "own_things:Mine") == 0
    assert "--algorithm.part-way" in capsys.readouterr().out


def test_a_path_that_exists_is_a_path(here, capsys):
    rows = "\n".join(f"{i % 7},{i % 3},{i % 2}" for i in range(40))
    for name in ("leeds", "turin"):
        (here / "ward:Oslo").mkdir(exist_ok=True)
        (here / "ward:Oslo" / f"{name}.csv").write_text(f"age,dose,label\n{rows}\n")
    assert facts_of(capsys, "data", "describe", "--data", "ward:Oslo")["clients"] == 2
    assert "no such folder or file" in error_of(capsys, "run", "--data", r"C:\data\sites")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--algorithm", "own_things:Min"], "cannot import the algorithm own_things:Min: module 'own_things' has no"),
        (["--algorithm", "no_such:Mine"], "cannot import the algorithm no_such:Mine: No module named 'no_such'"),
        (["--algorithm", "own_things:Net"], "own_things:Net is no Algorithm"),
        (["--model", "own_things:Mine"], "own_things:Mine lacks build()"),
        (["--data", "own_things:Net"], "own_things:Net lacks model = ..."),
        (["--monitor", "own_things:Net"], "is no Monitor"),
        (
            ["--algorithm", "own_things:Mine", "--algorithm.part-wya", 1],
            "No such option: --algorithm.part-wya (Possible options: --algorithm, --algorithm.part-way",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(here, capsys, words, says):
    assert says in error_of(capsys, "run", *words)


def test_a_file_imports_nothing(here, capsys):
    (here / "bad.py").write_text("raise AssertionError('imported')")
    (here / "a.toml").write_text('[algorithm]\nname = "bad:Mine"\n')
    said = error_of(capsys, "run", "a.toml")
    assert "no algorithm is imported because a file" in said
    assert "--algorithm bad:Mine" in said
    (here / "b.toml").write_text('[data]\nname = "bad:Blobs"\n')
    assert "no data is imported because a file" in error_of(capsys, "run", "b.toml")
    (here / "c.toml").write_text('[algorithm]\nname = "mine"\npart_way = 0.125\n')
    assert "unknown algorithm" in error_of(capsys, "run", "c.toml")
    assert call("run", "c.toml", "--algorithm", "own_things:Mine", *QUICK, "--out", "a") == 0, "named on the line too"
    assert settings_of(here / "a")["algorithm"]["part_way"] == 0.125


def test_a_run_goes_on_when_its_code_is_named_again(here, capsys):
    own = ["--algorithm", "own_things:Mine", "--data", "own_things:Blobs", "--model", "own_things:Net"]
    assert call("run", *own, "--algorithm.part-way", 0.25, "--rounds", 1, "--workers", 1, "--out", "a") == 0
    forget(here)
    said = error_of(capsys, "run", "--resume", "--out", "a", "--rounds", 2)
    assert "a: made with the data 'blobs' (own_things:Blobs), the model 'my-net' (own_things:Net), the alg" in said
    assert "on the command line: --data own_things:Blobs --model own_things:Net --algorithm own_things:Mine" in said
    assert "own_things" not in __import__("sys").modules
    assert call("run", "--resume", "--out", "a", "--rounds", 2, *own) == 0
    assert settings_of(here / "a")["algorithm"]["part_way"] == 0.25


def test_a_new_client_of_a_run_of_ones_own(here, capsys):
    rng = np.random.default_rng(0)
    for name in ("wards/leeds", "wards/turin", "new", "more"):
        rows = [f"{a:.3f},{b:.3f},{int(a > b)}" for a, b in rng.normal(size=(40, 2))]
        (here / "wards").mkdir(exist_ok=True)
        (here / f"{name}.csv").write_text("\n".join(["age,dose,label", *rows]))
    algorithm, model = ["--algorithm", "own_things:Mine"], ["--model", "own_things:Net"]
    assert call("run", "--data", "wards", *algorithm, *model, *QUICK[2:], "--out", "a") == 0
    forget(here)
    words = ["personalize", "a", "new.csv", "--out", "b", "--export", "none"]
    assert "--algorithm own_things:Mine" in error_of(capsys, *words)
    assert "--model own_things:Net" in error_of(capsys, *words, *algorithm)
    assert call(*words, *algorithm, *model) == 0
    forget(here)
    assert "--model own_things:Net" in error_of(capsys, "predict", "b", "more.csv")
    assert facts_of(capsys, "predict", "b", "more.csv", *model)["samples"] == 40
