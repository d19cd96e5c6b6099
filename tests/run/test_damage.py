"""What is damaged or altered on disk is noticed, said in one line, and done again where it can be."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from pathlib import Path

import pytest
from commands import call, error_of, facts_of
from problems import ragged, small_net

from manyheads import FedAvg, UserError, load, simulate
from manyheads.core.errors import Damaged
from manyheads.core.sealed import write_json
from manyheads.data import Encoding

RUN = ["run", "--data", "digits", "--partition", "classes:3", "--clients", "6", "--algorithm", "fedrep"]
RUN += ["--rounds", "6", "--model.hidden", "8", "--checkpoint-seconds", "0", "--workers", "1"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, made by the command."""
    out = tmp_path_factory.mktemp("damage") / "run"
    assert call(*RUN, "--out", out) == 0
    return out


@pytest.fixture
def run(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "run"))


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Everything about the files of a folder."""
    return {
        str(p.relative_to(folder)): (p.read_bytes() if p.is_file() else b"", p.stat().st_mtime_ns)
        for p in (folder, *folder.rglob("*"))
    }


def flip(file: Path, place: int) -> None:
    raw = bytearray(file.read_bytes())
    raw[place] ^= 1
    file.write_bytes(raw)


def replaced(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) >= 1
    file.write_text(text.replace(old, new, 1))


# config.toml


def test_a_digit_of_the_settings_changed_by_hand_is_noticed_on_resume_and_on_load(run, capsys):
    text = (run / "config.toml").read_text()
    places = [i for i, c in enumerate(text[: text.index("# seal")]) if c.isdigit()]
    assert len(places) > 30
    for place in places:
        new = "1" if text[place] != "1" else "2"
        (run / "config.toml").write_text(text[:place] + new + text[place + 1 :])
        with pytest.raises(Damaged, match=r"config\.toml is damaged: .*manyheads run FILE --out NEW"):
            load(run)
    assert "config.toml is damaged" in error_of(capsys, "run", "--resume", "--out", run)
    assert "config.toml is damaged" in error_of(capsys, "report", run)


def test_a_config_edited_by_hand_starts_a_new_run(run, tmp_path, capsys):
    replaced(run / "config.toml", "seed = 0", "seed = 5")
    assert facts_of(capsys, "run", run / "config.toml", "--out", tmp_path / "new")["seed"] == 5


def test_the_settings_of_another_run_do_not_fit_the_checkpoint(run, other):
    shutil.copy(other / "config.toml", run / "config.toml")
    with pytest.raises(Damaged, match="no checkpoint .* can be used: .* is of other settings than it should be"):
        load(run, say=print)


def test_more_rounds_on_resume_are_in_the_config(run, capsys):
    assert facts_of(capsys, "run", "--resume", "--out", run, "--rounds", "8", "--workers", "2")["rounds"] == 8
    config = tomllib.loads((run / "config.toml").read_text())
    assert (config["rounds"], config["engine"]["workers"]) == (8, 2)
    assert call("run", "--resume", "--out", run) == 0
    assert "all its 8 rounds already: nothing to do" in capsys.readouterr().err


def test_fewer_rounds_than_are_done_is_an_error_that_changes_nothing(run, capsys):
    before = content(run)
    line = error_of(capsys, "run", "--resume", "--out", run, "--rounds", "5")
    assert "has 6 rounds already; given 5; allowed: 6 or more" in line
    assert {k: v[0] for k, v in content(run).items()} == {k: v[0] for k, v in before.items()} | {".lock": b""}


# the other files


def test_a_damaged_line_of_the_history_goes_back_to_before_it_or_is_said(run, finished, capsys):
    lines = (run / "history.jsonl").read_text().splitlines(keepends=True)
    last = [*lines[:5], lines[5].replace('"train_loss": ', '"train_loss": 1')]
    (run / "history.jsonl").write_text("".join(last))
    assert "line 6 of" in error_of(capsys, "report", run)
    assert call("run", "--resume", "--out", run, "--json") == 0
    out, err = capsys.readouterr()
    assert "falling back to round 5" in err
    assert json.loads(out)["checksum"] == load(finished).checksum
    (run / "history.jsonl").write_text("".join([lines[0], lines[1].replace("0", "1", 1), *lines[2:]]))
    assert "line 2 of" in error_of(capsys, "run", "--resume", "--out", run)
    with pytest.raises(Damaged, match="no checkpoint .* can be used: line 2 of"):
        load(run, say=print)


def test_a_history_cut_short_of_its_checkpoint_is_no_shorter_run(run, capsys):
    file = run / "history.jsonl"
    file.write_bytes(file.read_bytes()[:-40])
    assert "history.jsonl lacks rounds that the checkpoint has" in error_of(capsys, "report", run)
    assert call("run", "--resume", "--out", run) == 0
    assert call("report", run) == 0


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A finished run that differs by its seed alone."""
    out = tmp_path_factory.mktemp("damage") / "other"
    assert call(*RUN, "--seed", "1", "--out", out) == 0
    return out


def test_a_whole_file_of_another_run_is_not_taken_for_this_one_s(run, other, capsys):
    for name, reads in (("history.jsonl", lambda: load(run, say=print)), ("data.json", lambda: load(run).encoding)):
        mine = (run / name).read_bytes()
        shutil.copy(other / name, run / name)
        with pytest.raises(Damaged, match=rf"{name} is damaged: it is not what was written by this run"):
            reads()
        assert f"{name} is damaged" in error_of(capsys, "report", run)
        (run / name).write_bytes(mine)


def test_a_checkpoint_that_is_missing_is_said(run):
    (run / "checkpoint" / "round-00000006.safetensors").unlink()
    with pytest.warns(UserWarning, match="history of 6 rounds, and its last checkpoint is that of round 5"):
        assert load(run).rounds == 5


@pytest.mark.parametrize(
    "name", ["config.toml", "history.jsonl", "data.json", "checkpoint/personal.safetensors", "machine.json"]
)
def test_a_pipe_in_place_of_a_file_is_not_waited_for(run, name, capsys):
    (run / name).unlink()
    os.mkfifo(run / name)
    code = call("report", run)
    assert code == (2 if name in ("config.toml", "history.jsonl") else 0)
    try:
        found = load(run, say=print)
        _ = found.encoding
    except Damaged:
        assert name != "machine.json"


def test_reading_a_run_changes_nothing_and_says_what_is_damaged(run):
    flip(run / "checkpoint" / "round-00000006.safetensors", -3)
    before = content(run)
    with pytest.warns(UserWarning, match="round-00000006.safetensors is damaged; falling back to round 5"):
        found = load(run)
    said: list[str] = []
    assert load(run, say=said.append).rounds == found.rounds == 5
    assert len(said) == 1
    found.client_model(0)
    assert found.checksum
    assert found.encoding.outputs == 10
    assert content(run) == before


def test_a_run_is_read_without_opening_anything_for_writing(run, monkeypatch):
    opened, real = [], os.open
    monkeypatch.setattr(
        os, "open", lambda path, flags, *more, **kw: opened.append(flags) or real(path, flags, *more, **kw)
    )
    load(run)
    assert opened
    assert not any(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) for flags in opened)


def test_a_damaged_encoding_is_said_and_written_anew_by_a_resume(run, capsys):
    replaced(run / "data.json", '"outputs": 10', '"outputs": 11')
    with pytest.raises(Damaged, match=r"data\.json is damaged.*--resume"):
        _ = load(run).encoding
    assert call("run", "--resume", "--out", run) == 0
    assert load(run).encoding.outputs == 10


@pytest.mark.parametrize(
    "change",
    [
        {"nonsense": 1},
        {"pixels": {"mean": [0.0], "std": [1.0], "more": 2}},
        {"columns": {"label": "y", "more": 2}},
        {"columns": 3},
        {"outputs": "ten"},
    ],
)
def test_unknown_keys_in_the_encoding_are_one_line(run, change):
    facts = json.loads((run / "data.json").read_text())
    write_json(run / "data.json", facts | change)
    with pytest.raises(UserError, match=r"data\.json") as error:
        _ = load(run).encoding
    assert "\n" not in str(error.value)


def test_stray_files_in_the_checkpoint_folder_are_left_alone(run, finished):
    for name in (
        "round-new.safetensors",
        "round-.safetensors",
        "round-7.safetensors",
        "notes.txt",
        "round-٣.safetensors",
    ):
        (run / "checkpoint" / name).write_bytes(b"mine")
    (run / "checkpoint" / "round-00000099.safetensors").mkdir()
    assert load(run).checksum == load(finished).checksum
    assert call("run", "--resume", "--out", run, "--rounds", "7") == 0
    assert (run / "checkpoint" / "notes.txt").read_bytes() == b"mine"


def test_a_missing_checkpoint_folder_is_called_that(run, capsys):
    shutil.rmtree(run / "checkpoint")
    line = error_of(capsys, "run", "--resume", "--out", run)
    assert "checkpoint is missing; restore it" in line
    assert "space" not in line
    with pytest.raises(UserError, match="checkpoint is missing"):
        load(run)


def test_a_lock_that_cannot_be_written_is_one_line(run, capsys):
    (run / ".lock").unlink(missing_ok=True)
    (run / ".lock").mkdir()
    assert "cannot write" in (line := error_of(capsys, "run", "--resume", "--out", run, "--rounds", "7"))
    assert ".lock" in line
    assert "space" not in line


def test_what_a_killed_run_left_half_written_is_removed_by_a_resume(run):
    left = [run / ".history.jsonl.41.tmp", run / "checkpoint" / ".round-00000007.safetensors.41.tmp"]
    for file in left:
        file.write_bytes(b"half")
    assert call("run", "--resume", "--out", run, "--rounds", "7") == 0
    assert not list(run.rglob("*.tmp"))


def test_an_encoding_that_contradicts_itself_is_refused():
    columns = {"label": "y", "numbers": ("a", "b"), "mean": (0.0,), "deviation": (1.0, 1.0)}
    with pytest.raises(UserError, match="numbers"):
        Encoding(task="classification", outputs=2, shape=(2,), columns=columns)
    with pytest.raises(UserError, match="label_names"):
        Encoding(task="classification", outputs=2, shape=(2,), label_names=("a",))
    with pytest.raises(UserError, match="dtype"):
        Encoding(task="classification", outputs=2, shape=(2,), dtype="object")


def test_a_lasting_run_in_python_warns_as_well(tmp_path):
    simulate(FedAvg(), small_net(), ragged(), rounds=2, out=tmp_path / "run")
    with pytest.raises(UserError, match="has 2 rounds already"):
        simulate(FedAvg(), small_net(), ragged(), rounds=1, out=tmp_path / "run", resume=True)


# two at once


def test_two_runs_begun_in_the_same_second_have_folders_of_their_own(tmp_path, monkeypatch, capsys):
    import manyheads.cli.compare as comparing
    import manyheads.cli.run as running

    class Stopped:
        @staticmethod
        def now():
            from datetime import datetime

            return datetime(2026, 1, 1)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "datetime", Stopped)
    monkeypatch.setattr(comparing, "datetime", Stopped)
    first, second = (facts_of(capsys, *RUN, "--rounds", "1")["out"] for _ in range(2))
    assert second == f"{first}-2"
    small = [
        "compare",
        "digits",
        "--clients",
        "3",
        "--methods",
        "fedavg",
        "--rounds",
        "1",
        "--seeds",
        "1",
        "--rates",
        "0.1",
    ]
    small += ["--folds", "1", "--baselines", "majority", "--local-rounds", "1", "--pooled", "false"]
    first, second = (facts_of(capsys, *small, "--workers", "1")["out"] for _ in range(2))
    assert second == f"{first}-2"


def test_a_refused_run_leaves_no_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    error_of(capsys, *RUN, "--cohort", "99")
    assert not list(tmp_path.glob("runs/*"))


def test_a_resume_of_what_is_no_run_touches_nothing_that_is_there(tmp_path, capsys):
    """A mistyped --out: the folder is somebody's, and so is what is in it."""
    for name in ("checkpoint/mine.pt", ".notes.txt.draft.tmp", "thesis.tex"):
        file = tmp_path / "work" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("years of work")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert call(*RUN, "--resume", "--out", tmp_path / "work") == 2
    assert "exists already" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
