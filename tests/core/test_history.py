"""The history of a run in memory and on disk."""

import json

import pytest

from manyheads import UserError
from manyheads.core.errors import Damaged
from manyheads.core.history import History


def record(round: int) -> dict:
    return {"round": round, "train_loss": 1 / round, "evaluation": {"accuracy": round / 10}, "why": "ü\u2028\n"}


@pytest.fixture
def path(tmp_path):
    history = History(tmp_path / "history.jsonl")
    for round in (1, 2, 3):
        history.append(record(round))
    history.sync()
    return history.path


def test_what_was_appended_is_read_back(path):
    assert list(History.read(path)) == [record(r) for r in (1, 2, 3)]


def test_it_is_a_sequence_of_records():
    history = History(records=[record(1), record(2), record(3)])
    assert len(history) == 3
    assert history[-1] == record(3)
    assert history[:2] == [record(1), record(2)]


def test_without_a_path_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    history = History()
    history.append(record(1))
    history.sync()
    assert list(tmp_path.iterdir()) == []


def test_columns_and_evaluations_skip_rounds_that_have_none():
    history = History(records=[record(1), {"round": 2, "train_loss": 0.5}, {**record(3), "train_loss": None}])
    assert history.column("accuracy") == [(1, 0.1), (3, 0.3)]
    assert history.column("train_loss") == [(1, 1.0), (2, 0.5)]
    assert history.column("nothing") == []
    assert list(history.evaluations()) == [{"round": 1, "accuracy": 0.1}, {"round": 3, "accuracy": 0.3}]


def test_reading_up_to_a_round_drops_what_came_later_and_rewrite_puts_exactly_that_on_disk(path):
    history = History.read(path, upto=2)
    assert [r["round"] for r in history] == [1, 2]
    history.rewrite()
    history.append(record(3) | {"again": True})
    found = [{k: v for k, v in json.loads(line).items() if k != "seal"} for line in path.read_text().splitlines()]
    assert found == [record(1), record(2), record(3) | {"again": True}]
    assert [p.name for p in path.parent.iterdir()] == ["history.jsonl"]


def test_a_last_line_cut_short_anywhere_ends_the_history(path):
    whole = path.read_bytes()
    start = whole[:-1].rindex(b"\n") + 1
    for length in range(start, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert [r["round"] for r in History.read(path)] == [1, 2]


def test_bytes_that_a_power_failure_left_empty_end_the_history(path):
    path.write_bytes(path.read_bytes() + b"\0" * 100)
    assert [r["round"] for r in History.read(path, upto=3)] == [1, 2, 3]


def test_a_history_that_lacks_rounds_is_an_error(path):
    with pytest.raises(UserError, match=r"history\.jsonl lacks rounds"):
        History.read(path, upto=4)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + lines[2])
    with pytest.raises(UserError, match="lacks rounds"):
        History.read(path)
    path.unlink()
    with pytest.raises(UserError, match="lacks rounds"):
        History.read(path, upto=1)


def test_a_file_that_is_not_there_is_a_history_of_no_rounds(tmp_path):
    assert len(History.read(tmp_path / "none.jsonl")) == len(History.read(tmp_path / "none.jsonl", upto=0)) == 0


def test_a_history_that_cannot_be_written_is_an_error_that_names_the_file(tmp_path):
    history = History(tmp_path / "missing" / "history.jsonl")
    with pytest.raises(UserError, match=r"cannot write .*missing/history\.jsonl"):
        history.append(record(1))


def test_a_damaged_line_is_said_and_never_taken_for_the_end(path):
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for place in range(len(whole)):
        for new in {ord("7"), whole[place] ^ 1, ord("\n")} - {whole[place]}:
            path.write_bytes(whole[:place] + bytes([new]) + whole[place + 1 :])
            with pytest.raises(Damaged, match=r"line [123] of .*history\.jsonl"):
                History.read(path)
    path.write_bytes(lines[0] + lines[1] + lines[2].replace(b"0.3", b"0.4"))
    assert len(History.read(path, upto=2)) == 2  # what comes after is done again


def test_a_file_without_a_last_line_end_is_whole(path):
    path.write_bytes(path.read_bytes()[:-1])
    assert len(History.read(path)) == 3
