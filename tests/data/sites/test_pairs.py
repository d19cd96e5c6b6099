"""Survival in tables: the label is two columns, and what is wrong with them is told by file, row and column."""

from __future__ import annotations

import numpy as np
import pytest
from commands import error_of, facts_of
from survivors import subjects

from manyheads import UserError
from manyheads.data import source_of
from manyheads.data.sites.new_site import read_new_site
from manyheads.data.sites.source import Sites, check_sites


def written(folder, name, x, y, header="age,dose,noise,time,event"):
    rows = [",".join(f"{v:.6g}" for v in (*a, *b)) for a, b in zip(x, y, strict=True)]
    (folder / f"{name}.csv").write_text("\n".join([header, *rows]) + "\n")


@pytest.fixture
def folder(tmp_path):
    """Three sites, of 30, 20 and 25 patients."""
    (tmp_path / "trial").mkdir()
    rng = np.random.default_rng(0)
    for name, n in {"leeds": 30, "oslo": 20, "turin": 25}.items():
        written(tmp_path / "trial", name, *subjects(rng, n))
    return tmp_path / "trial"


def test_two_label_columns_are_survival(folder):
    federation = Sites(path=str(folder), label="time,event").federation(0)
    assert (federation.task, federation.outputs, federation.columns.label) == ("survival", 1, "time,event")
    assert federation.columns.features == ("age", "dose", "noise")
    assert federation.train.y.shape[1:] == (2,)
    table = np.genfromtxt(folder / "oslo.csv", delimiter=",", skip_header=1)
    mine = np.concatenate([part.client(1)[1] for part in (federation.train, federation.test)])
    assert sorted(mine.tolist()) == sorted(table[:, 3:].astype(np.float32).tolist())  # neither scaled nor mixed
    events = [part.client(0)[1][:, 1].mean() for part in (federation.train, federation.test)]
    assert events[0] == pytest.approx(events[1], abs=0.15)  # each part has its share
    assert Sites(path=str(folder), label=" time , event ").federation(0).task == "survival"


def test_an_event_in_words(folder):
    numbers = Sites(path=str(folder), label="time,event").federation(0)
    for no, yes in (("no", "yes"), ("False", "TRUE")):
        text = (folder / "turin.csv").read_text().splitlines()
        rows = [line.rsplit(",", 1) for line in text[1:]]
        words = [f"{rest},{yes if end in ('1', 'yes') else no}" for rest, end in rows]
        (folder / "turin.csv").write_text("\n".join([text[0], *words]) + "\n")
        federation = Sites(path=str(folder), label="time,event").federation(0)
        assert np.array_equal(federation.train.y, numbers.train.y)


def test_what_check_tells(folder, capsys):
    facts = facts_of(capsys, "data", "check", folder, "--data.label", "time,event")
    assert (facts["task"], facts["label"], facts["ok"]) == ("survival", "time,event", True)
    table = np.genfromtxt(folder / "leeds.csv", delimiter=",", skip_header=1)
    assert facts["sites"][0]["survival"]["events"] == table[:, 4].sum()
    assert facts["sites"][0]["survival"]["median_time"] == pytest.approx(np.median(table[:, 3]))


@pytest.mark.parametrize(
    ("cell", "column", "message"),
    [
        ("-3,1", "time", "row 2, column 'time': a time that is no number from 0 on: '-3.0'"),
        ("soon,1", "time", "row 2, column 'time': a time that is no number from 0 on: 'soon'"),
        (",1", "time", "row 2, column 'time': a time that is no number from 0 on"),
        ("3,2", "event", "row 2, column 'event': an event that is neither 0 nor 1, nor yes or no: '2.0'"),
        ("3,", "event", "row 2, column 'event': an event that is neither 0 nor 1, nor yes or no"),
        ("3,maybe", "event", "row 2, column 'event': an event that is neither 0 nor 1, nor yes or no: 'maybe'"),
    ],
)
def test_a_wrong_label_is_told_with_its_place(folder, cell, column, message):
    lines = (folder / "oslo.csv").read_text().splitlines()
    lines[2] = ",".join([*lines[2].split(",")[:3], cell])
    (folder / "oslo.csv").write_text("\n".join(lines) + "\n")
    (error,) = check_sites(folder, label="time,event").errors
    assert f"oslo.csv, {message}" in str(error)
    assert error.column == column
    with pytest.raises(UserError, match=r"the label is TIME,EVENT"):
        Sites(path=str(folder), label="time,event").federation(0)


def test_the_task_and_the_number_of_columns_must_fit(folder):
    (error,) = check_sites(folder, label="time", task="survival").errors
    assert "survival with 1 label columns; survival has two: --data.label TIME,EVENT" in str(error)
    (error,) = check_sites(folder, label="time,event", task="regression").errors
    assert "regression with 2 label columns" in str(error)
    assert "no label column 'time,death'" in str(check_sites(folder, label="time,death").errors[0])


def test_a_column_whose_name_has_a_comma_is_one_label(tmp_path):
    for site in ("a", "b"):
        (tmp_path / f"{site}.csv").write_text('x,"time,event"\n' + "".join(f"{i},{i % 2}\n" for i in range(8)))
    assert check_sites(tmp_path, label="time,event").task == "classification"


def test_a_new_site_has_the_same_label(folder, tmp_path):
    encoding = Sites(path=str(folder), label="time,event").federation(0).encoding
    x, y = subjects(np.random.default_rng(1), 8)
    written(tmp_path, "new", x, y)
    site = read_new_site(tmp_path / "new.csv", encoding)
    np.testing.assert_allclose(site.y, y, rtol=1e-5)
    assert not site.warnings
    written(tmp_path, "wrong", x, y * [1, 2])
    with pytest.raises(UserError, match=r"wrong.csv, row \d+, column 'time,event': a label that has an event"):
        read_new_site(tmp_path / "wrong.csv", encoding)
    (tmp_path / "bare.csv").write_text("age,dose,noise\n1,2,3\n")
    assert read_new_site(tmp_path / "bare.csv", encoding, labelled=False).y is None
    with pytest.raises(UserError, match="has no labels; add the column 'time,event'"):
        read_new_site(tmp_path / "bare.csv", encoding)


def test_a_run_by_command(folder, capsys):
    flags = ("--data", folder, "--data.label", "time,event", "--model.hidden", "4", "--rounds", 2)
    facts = facts_of(capsys, "run", *flags, "--out", folder.parent / "run")
    assert set(facts["metrics"]) == {"c_index", "loss"}
    assert 0 <= facts["metrics"]["c_index"] <= 1
    assert facts["accuracy"] is None
    assert source_of({"name": str(folder), "label": "time,event"}).federation(0).task == "survival"
    assert "no label column 'time,dead'" in error_of(capsys, "run", "--data", folder, "--data.label", "time,dead")


def test_a_code_of_a_missing_time_is_a_missing_label(folder):
    x, y = subjects(np.random.default_rng(2), 20)
    y[3, 0] = 999
    written(folder, "oslo", x, y)
    (error,) = check_sites(folder, label="time,event", missing_codes=("time=999",)).errors
    assert "row 4, column 'time': a time that is no number" in str(error)
    (error, *_) = check_sites(folder, label="time,event", missing_codes=("tine=999",)).errors
    assert "column 'tine': no such column with a missing code; did you mean 'time'?" in str(error)


@pytest.mark.parametrize("part", ["time", "event"])
def test_a_feature_that_tells_the_time_or_the_event_is_told(tmp_path, part):
    rng = np.random.default_rng(0)
    for name in ("leeds", "oslo"):
        x, y = subjects(rng, 60)
        x[:, 2] = 2 * y[:, 0] if part == "time" else y[:, 1] + rng.uniform(0, 0.5, 60)
        written(tmp_path, name, x, y)
    doubts = [p for p in check_sites(tmp_path, label="time,event").problems if "tells the label" in p.message]
    assert [p.column for p in doubts] == ["noise"]


def test_copies_of_a_patient_are_told(folder):
    x, y = subjects(np.random.default_rng(3), 20)
    written(folder, "oslo", np.concatenate([x, x[:2]]), np.concatenate([y, y[:2]]))
    (doubt,) = (p for p in check_sites(folder, label="time,event").problems if "rows that repeat" in p.message)
    assert "site 'oslo' has rows that repeat others: 2 of 22" in doubt.message
    y[:2, 0] += 1
    written(folder, "oslo", np.concatenate([x, x[:2]]), np.concatenate([y, y[:2] - [1, 0]]))
    assert not [p for p in check_sites(folder, label="time,event").problems if "rows that repeat" in p.message]
