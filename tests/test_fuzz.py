"""The judge of ``make fuzz`` sees what it must; a small part of its cases; the page tells the counts of the last run."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from fuzz.child import Ended, in_child
from fuzz.damage import damage
from fuzz.record import PAGE, table, with_table
from fuzz.verdict import broken, says_damage

ROOT = Path(__file__).parent.parent


def fine(code: int = 0, out: str = "", err: str = "") -> Ended:
    return Ended(code, out, err)


@pytest.mark.parametrize(
    ("ended", "words", "promise"),
    [
        (fine(err="Traceback (most recent call last):\nKeyError: 'x'\n", code=1), [], "traceback"),
        (fine(2, err="error: this is a bug in manyheads (KeyError)\n"), [], "unexpected"),
        (fine(-11), [], "exit code -11"),
        (fine(1, err="error: x\n"), [], "exit code 1"),
        (fine(130), [], "stopped by itself"),
        (fine(2), [], "not one line"),
        (fine(2, err="error: a\nerror: b\n"), [], "not one line"),
        (fine(2, err="error: a\nand more\n"), [], "not one line"),
        (fine(2, out="{}", err="error: a\n"), ["--json"], "not one line"),
        (fine(0, out='{"loss": NaN}\n'), ["--json"], "NaN"),
        (fine(0, out="{}\n{}\n"), ["--json"], "not one JSON object"),
        (fine(0, out="[]\n"), ["--json"], "no object"),
        (fine(0, out="\x1b[31m"), [], "escape sequence"),
        (Ended(-9, "", "", hung=True), [], "hang"),
    ],
)
def test_a_broken_promise_is_seen(ended, words, promise):
    assert promise in broken(ended, words)


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (fine(0, out="accuracy 0.9\n", err="warning: x\n"), []),
        (fine(0, out='{"loss": null}\n'), ["--json"]),
        (fine(2, err="falling back\nerror: a\n"), ["--json"]),
        (fine(2, out="a.csv: no number\n"), ["data", "check", "x"]),
        (Ended(130, "", "stopped\n", stopped=True), []),
    ],
)
def test_a_kept_promise_is_none(ended, words):
    assert broken(ended, words) == ""


def test_a_child_is_seen_to_crash_to_raise_and_to_print(tmp_path):
    assert in_child(lambda: ctypes.string_at(0) and None, tmp_path).code < 0
    assert broken(in_child(lambda: {}["x"], tmp_path)).startswith("traceback: KeyError")
    assert in_child(lambda: sys.stdout.write("done\n") and None, tmp_path) == Ended(0, "done\n", "")
    assert in_child(lambda: sys.exit(2), tmp_path).code == 2


def test_what_never_ends_is_killed_or_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr("fuzz.child.LIMIT", 1.0)
    assert in_child(lambda: time.sleep(600), tmp_path).hung
    monkeypatch.setattr("fuzz.child.LIMIT", 60.0)
    monkeypatch.setattr("fuzz.child.PATIENCE", 0.0)
    ended = in_child(lambda: time.sleep(600), tmp_path, endless=True)
    assert ended.stopped
    assert "KeyboardInterrupt" in broken(ended)


def test_damage_changes_a_folder_and_says_where(tmp_path):
    for number in range(200):
        folder, twin = tmp_path / f"{number}", tmp_path / f"twin {number}"
        for place, value in ((folder, 1), (twin, 2)):
            (place / "below").mkdir(parents=True)
            (place / "a.json").write_text(json.dumps({"value": value, "name": "x"}))
            (place / "below" / "b.txt").write_text(f"line 1\nline {value}\n")
        before = state(folder)
        assert damage(folder, twin, Random(number)).startswith(("a.json: ", "below/b.txt: "))
        assert state(folder) != before, number


def state(folder: Path) -> dict[Path, object]:
    return {p: p.read_bytes() if p.is_file() else p.is_symlink() or p.is_fifo() for p in folder.rglob("*")}


def test_a_warning_tells_of_damage_or_it_does_not():
    assert says_damage("checkpoint x is damaged; falling back\n")
    assert not says_damage("2 epochs\n")


def test_a_part_of_the_cases():
    """``make fuzz`` tries them all; a failing one is printed with the line that repeats it."""
    command = [sys.executable, "-m", "fuzz", "--cases", "0.004", "--seed", "12"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_has_the_counts_of_the_last_run_and_none_failed():
    facts = json.loads((ROOT / "results" / "fuzz.json").read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page, facts)
    assert table(facts) in page
    counts = facts["kinds"]
    assert facts["failed"] == []
    assert sum(sum(counts[kind].values()) for kind in ("runs", "comparisons", "models")) >= 1000
    assert sum(sum(counts[kind].values()) for kind in ("lines", "configs", "tables")) >= 1000
