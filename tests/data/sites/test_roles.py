"""Columns that say how rows are divided: they are obeyed, are no features, and wrong ones are errors with their place."""

from __future__ import annotations

import json
from datetime import date, timedelta

import numpy as np
import pytest

from manyheads.core.errors import UserError
from manyheads.data.sites.new_site import read_new_site
from manyheads.data.sites.source import Sites, check_sites
from manyheads.data.sources import source_of

ROWS = 24


def rows_of(site: int) -> list[dict[str, object]]:
    """Rows that tell who they are: x is the row's number."""
    rng = np.random.default_rng(site)
    days = rng.permutation(ROWS)
    return [
        {
            "x": i,
            "patient": f"p{i // 4}",
            "day": int(days[i]),
            "part": "Test" if i % 6 == site else "train",
            "label": (i // 2) % 2,
        }
        for i in range(ROWS)
    ]


@pytest.fixture
def folder(tmp_path):
    return written(tmp_path / "sites", {f"s{site}": rows_of(site) for site in range(3)})


def written(folder, sites):
    folder.mkdir(exist_ok=True)
    for name, rows in sites.items():
        lines = [",".join(rows[0]), *(",".join(str(v) for v in row.values()) for row in rows)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return folder


def rows_in(part, client) -> list[int]:
    return part.client(client)[0][:, 0].astype(int).tolist()


def made(folder, **how):
    others = [n for n in ("patient", "day", "part") if n not in how.values()]
    return Sites(path=str(folder), scaling="none", ignore=tuple(others), **how).federation(0)


def test_rows_of_a_group_stay_together(folder):
    federation = made(folder, group="patient")
    assert federation.columns.features == ("x",)
    assert federation.division == "by group, evenly by label"
    assert not federation.own_test
    for division in (federation, federation.with_validation(0.3, 0), *federation.folds(3, 0)):
        for client in range(3):
            parts = [p for p in (division.train, division.validation, division.test) if p is not None]
            patients = [{i // 4 for i in rows_in(part, client)} for part in parts]
            assert sum(map(len, patients)) == 6
            assert patients[0]
    assert federation.test.sizes.tolist() == [4, 4, 4]


def test_tests_are_later_than_the_training_rows(folder):
    federation = made(folder, time="day")
    assert federation.division == "in the order of time"
    assert federation.columns.features == ("x",)
    for client in range(3):
        days = np.array([row["day"] for row in rows_of(client)])
        assert sorted(days[rows_in(federation.test, client)]) == [19, 20, 21, 22, 23]
        for k, fold in enumerate(federation.folds(5, 0)):
            assert sorted(days[rows_in(fold.train, client)]) == list(range(4 * (k + 1)))
            assert sorted(days[rows_in(fold.test, client)]) == list(range(4 * (k + 1), 4 * (k + 2)))


def test_times_may_be_dates_as_people_write_them(folder):
    start = date(2021, 3, 20)  # as text, 01/04 is before 20/03
    dated = {
        f"s{site}": [row | {"day": f"{start + timedelta(row['day']):%d/%m/%Y}"} for row in rows_of(site)]
        for site in range(3)
    }
    by_number = made(folder, time="day")
    by_date = made(written(folder, dated), time="day")
    assert by_date.columns.features == ("x",)
    assert by_date.columns.dates == {}
    for client in range(3):
        assert rows_in(by_date.test, client) == rows_in(by_number.test, client)


def test_a_split_of_ones_own_is_kept(folder):
    federation = made(folder, split="part")
    assert federation.own_test
    assert federation.columns.features == ("x",)
    for client in range(3):
        assert rows_in(federation.test, client) == [i for i in range(ROWS) if i % 6 == client]
    divided = federation.with_validation(0.2, 0)
    assert rows_in(divided.test, 0) == rows_in(federation.test, 0)


def test_a_later_table_may_have_the_columns_or_not(folder, tmp_path):
    encoding = made(folder, group="patient").encoding
    for left in ((), ("patient",), ("patient", "day", "part")):
        rows = [{k: v for k, v in row.items() if k not in left} for row in rows_of(7)]
        path = written(tmp_path / "new", {"one": rows}) / "one.csv"
        assert read_new_site(path, encoding).warnings == ()


def test_settings_as_they_are_given_in_a_file(folder):
    source = source_of({"name": str(folder), "group": "patient", "ignore": ["day", "part"]})
    assert source.roles == ("patient",)
    assert source.federation(0).train.groups is not None


def changed(row: int, column: str, value: str):
    def change(rows):
        rows[row][column] = value
        return rows

    return change


@pytest.mark.parametrize(
    ("how", "change", "message"),
    [
        ({"group": "pateint"}, None, "column 'pateint': no such column to divide rows by; did you mean 'patient'?"),
        ({"time": "label"}, None, "column 'label': is chosen for two things; choose another column for one"),
        ({"group": "part", "split": "part"}, None, "column 'part': is chosen for two things"),
        ({"group": "patient", "time": "day"}, None, "rows are divided by group or by time, not by both"),
        ({"group": "patient"}, changed(4, "patient", ""), "s1.csv, row 5, column 'patient': a missing value"),
        ({"time": "day"}, changed(4, "day", ""), "s1.csv, row 5, column 'day': a missing value"),
        ({"time": "day"}, changed(4, "day", "noon"), "s1.csv, row 5, column 'day': text in a column of numbers: 'noon'"),
        ({"time": "patient"}, None, "column 'patient': no time: 'p0'"),
        ({"split": "part"}, changed(4, "part", "valid"), "s1.csv, row 5, column 'part': neither 'train' nor 'test': 'valid'"),
        ({"split": "part"}, lambda rows: [{**r, "part": "test"} for r in rows], "site 's1' has no row for training"),
    ],
)  # fmt: skip
def test_a_wrong_column_is_an_error_that_names_its_place(folder, how, change, message):
    if change:
        written(folder, {"s1": change(rows_of(1))})
    assert message in " ".join(str(p) for p in check_sites(folder, **how).errors)
    with pytest.raises(UserError):
        Sites(path=str(folder), **how).federation(0)


def test_groups_in_both_parts_of_ones_own_split_are_warned_of(folder):
    warnings = [str(p) for p in check_sites(folder, group="patient", split="part").problems]
    assert sum("has 4 groups with rows both for training and for the test" in w for w in warnings) == 3


def test_the_check_knows_the_columns_by_their_flags(folder, capsys):
    from manyheads.cli import main

    with pytest.raises(SystemExit) as done:
        main(["data", "check", str(folder), "--data.group", "patient", "--data.ignore", "day,part", "--json"])
    assert done.value.code == 0
    assert list(json.loads(capsys.readouterr().out)["features"]) == ["x"]
