"""Names of files and sites are printed as they are: no markup, no emoji, no escape sequence."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import numpy as np
import pytest
from commands import call, error_of, facts_of
from processes import all_shown

EVIL = "[bold] :bomb: \x1b[31m"
SHOWN = "[bold] :bomb: \\x1b[31m"


@pytest.fixture
def place(tmp_path):
    """A folder whose path looks like the end of a tag."""
    path = tmp_path / "a[" / "x]"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def sites(place):
    """Two sites in a folder with such a name."""
    folder = place / EVIL
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(2):
        x = rng.normal(size=(30, 2))
        rows = "".join(f"{a:.3f},{b:.3f},{'yes' if a > b else 'no'}\n" for a, b in x)
        (folder / f"{i} {EVIL}.csv").write_text(f"a,b,label\n{rows}")
    return folder


def on_terminal(*arguments: object) -> tuple[int, str]:
    """A command on a terminal, wide enough for every line: bars and spinners are drawn."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "manyheads", *map(str, arguments)]
    with subprocess.Popen(command, stdout=slave, stderr=slave, env=os.environ | {"COLUMNS": "1000"}) as process:
        os.close(slave)
        shown = all_shown(master)
    return process.returncode, shown


def test_evil_names_on_a_terminal(sites, place):
    out = place / f"out {EVIL}"
    code, text = on_terminal("run", "--data", sites, "--rounds", 2, "--workers", 1, "--out", out)
    assert code == 0, text
    assert f"{place}/out {SHOWN}" in text
    assert f"fedavg on {SHOWN}" in text
    assert "\x1b[31m" not in text
    code, text = on_terminal(
        "personalize", out, sites / f"0 {EVIL}.csv", "--out", place / f"model {EVIL}", "--export", "none", "--curve", 5
    )
    assert code == 0, text
    assert f"model {SHOWN}" in text
    assert "\x1b[31m" not in text


def test_evil_names_elsewhere(sites, place, capsys):
    out = place / f"out {EVIL}"
    few = [
        "--methods",
        "fedavg",
        "--rounds",
        2,
        "--seeds",
        1,
        "--rates",
        0.1,
        "--workers",
        1,
        "--local-rounds",
        2,
        "--folds",
        2,
    ]
    assert call("compare", sites, *few, "--out", out) == 0
    printed = capsys.readouterr()
    assert f"{place}/out {SHOWN}/compare.json" in printed.out
    for arguments in (["data", "check", sites], ["data", "describe", "--data", sites], ["report", out]):
        assert call(*arguments) == 0
        printed = capsys.readouterr()
        assert SHOWN in printed.out
        assert "\x1b" not in printed.out + printed.err
    line = error_of(capsys, "report", place / f"nosuch {EVIL}")
    assert "\x1b" not in line


def test_what_is_not_finite_is_null_in_json(capsys, monkeypatch):
    monkeypatch.setattr("manyheads.experiments.describe.total_variation", lambda *_: float("nan"))
    found = facts_of(capsys, "data", "describe", "--data", "digits", "--clients", 3)
    assert found["total_variation"] == {"mean": None, "max": None, "per_client": [None] * 3}
