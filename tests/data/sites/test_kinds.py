"""Encodings, notations, dates and booleans as people write them: read as they were meant and told, or refused."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyheads.data.sites.source import Sites, check_sites
from manyheads.data.sites.tables import read_table


def days(*when) -> float:
    return (datetime(*when, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / 86400


def table(column: str, values, rows: int = 24) -> str:
    """A table with a column of these values, over and over, beside a number and a label."""
    lines = (f"{i * i % 17};{values[i % len(values)]};{i // 2 % 2}\n" for i in range(rows))
    return f"a;{column};label\n{''.join(lines)}"


def folder_of(tmp_path, **sites: str):
    for name, text in sites.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def messages(survey) -> list[str]:
    return [p.message for p in survey.problems if p.severity == "warning"]


# encodings


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("latin-1", "Windows-1252 (Latin-1), which gives 'Zürich'"),
        ("utf-16", "UTF-16"),
    ],
)
def test_text_in_another_encoding_is_read_and_told(tmp_path, encoding, words):
    (tmp_path / "a.csv").write_bytes("town,label\nZürich,0\nGenève,1".encode(encoding))
    found, problems = read_table(tmp_path / "a.csv")
    assert found.columns["town"].tolist() == ["Zürich", "Genève"]
    assert [words in p.message for p in problems] == [True] * (words is not None)


def test_windows_has_more_letters_than_latin_1(tmp_path):
    (tmp_path / "a.csv").write_bytes("price,label\n5 €,0\n6 €,1\n".encode("cp1252"))
    assert read_table(tmp_path / "a.csv")[0].columns["price"].tolist() == ["5 €", "6 €"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("town,label\nZürich,0\n".encode() + b"Gen\xe8ve,1\n", "row 2: is not text in UTF-8"),
        (b"town,label\nBern,0\nGen\x8fve,1\n", "row 2: is not text in UTF-8, nor in Windows-1252"),
        (b"town,label\nB\x00ern,0\n", "row 1: holds NUL bytes"),
        (b"town,label\n\xe8\x01\x02,0\n", "row 1: is not text in UTF-8"),
        (b"\xff\xfea\x00,\x00b", "begins as text in UTF-16"),
    ],
    ids=["two encodings", "no letter", "NUL", "binary", "half of UTF-16"],
)
def test_bytes_that_are_no_text_are_refused(tmp_path, data, words):
    (tmp_path / "a.csv").write_bytes(data)
    found, (problem,) = read_table(tmp_path / "a.csv")
    assert found is None
    assert words in str(problem)


# numbers


def test_a_decimal_comma_elsewhere_in_the_file_settles_what_could_be_read_in_two_ways(tmp_path):
    rows = "".join(f"{i},5;{i + 1},234;{i + 1}.500;{i + 1}.5;{i % 2}\n" for i in range(8))
    survey = check_sites(folder_of(tmp_path, s=f"clear;comma;points;decimal;label\n{rows}"))
    assert not survey.errors
    first = {name: column[0] for name, column in survey.sites[0].columns.items()}
    assert first == {"clear": 0.5, "comma": 1.234, "points": 1500, "decimal": 1.5, "label": "0"}
    told = {p.column: p.message for p in survey.problems if "read as such" in p.message}
    assert told.keys() == {"clear", "comma", "points"}
    assert "points between thousands" in told["points"]


# dates


@pytest.mark.parametrize(
    ("values", "expected", "way"),
    [
        (["2021-04-03", "1969-12-31"], [days(2021, 4, 3), -1], ""),
        (["2021/4/3", "2021/12/31"], [days(2021, 4, 3), days(2021, 12, 31)], ""),
        (["3.4.2021", "01.02.2021"], [days(2021, 4, 3), days(2021, 2, 1)], " (day first)"),
        (["03/04/2021", "31/12/2021"], [days(2021, 4, 3), days(2021, 12, 31)], " (day first)"),
        (["03/04/2021", "12/31/2021"], [days(2021, 3, 4), days(2021, 12, 31)], " (month first)"),
        (["2021-04-03T18:00:00Z", "2021-04-03 06:00+06:00"], [days(2021, 4, 3, 18), days(2021, 4, 3)], ""),
        (["2021-04-03 00:00:43.2", "NA"], [days(2021, 4, 3) + 0.0005, np.nan], ""),
    ],
)
def test_dates_become_days_and_are_told(tmp_path, values, expected, way):
    survey = check_sites(folder_of(tmp_path, a=table("seen", values), b=table("seen", values)))
    assert not survey.errors
    assert survey.facts()["features"] == {"a": "number", "seen": "date"}
    np.testing.assert_allclose(survey.sites[0].columns["seen"][: len(values)], expected, rtol=0, atol=1e-9)
    assert f"dates, read as days since 1970-01-01: 'seen'{way}" in messages(survey)


def test_each_file_has_its_own_order_of_day_and_month(tmp_path):
    folder = folder_of(tmp_path, uk=table("seen", ["31/12/2020"]), us=table("seen", ["12/31/2020"]))
    survey = check_sites(folder)
    assert not survey.errors
    assert {s.columns["seen"][0] for s in survey.sites} == {days(2020, 12, 31)}
    assert any("'seen' (day first and month first)" in m for m in messages(survey))
    assert Sites(path=str(folder)).federation(0).columns.dropped == ("seen",)  # it is the same day everywhere


@pytest.mark.parametrize("values", [["03/04/2021", "05/06/2021"], ["13/04/2021", "04/13/2021"], ["3-4-2021"]])
def test_days_and_months_that_cannot_be_told_apart_are_not_guessed(tmp_path, values):
    clear = table("seen", ["31/12/2020"])
    errors = check_sites(folder_of(tmp_path, a=clear, b=table("seen", values))).errors
    assert errors[0].file.endswith("b.csv")
    assert errors[0].column == "seen"
    assert "cannot be told apart, such as '" in errors[0].message
    assert "2021-04-03" in errors[0].fix
    assert check_sites(tmp_path, categories=("seen",)).categories == ("seen",)


@pytest.mark.parametrize("wrong", ["31.2.2021", "31.12.21", "soon", "7", "2021-13-01"])
def test_what_is_no_date_among_dates_has_its_place(tmp_path, wrong):
    text = table("seen", ["1.12.2020", "2.12.2020"]).replace("2.12.2020", wrong, 1)
    (error,) = check_sites(folder_of(tmp_path, a=text, b=text.replace(wrong, ""))).errors
    assert str(error).startswith(f"{tmp_path / 'a.csv'}, row 2, column 'seen': not a date: {wrong!r}")


def test_dates_of_programs_are_those_of_people(tmp_path):
    when = [date(2021, 4, 3), None, date(2020, 1, 1)] * 4
    plain = {"v": np.arange(12.0), "label": [0, 1] * 6}
    for name, kind in (("a", pa.date32()), ("b", pa.timestamp("us", "Europe/Paris")), ("c", pa.timestamp("s"))):
        stored = when if kind == pa.date32() else [d and datetime(d.year, d.month, d.day, tzinfo=UTC) for d in when]
        pq.write_table(pa.table({"seen": pa.array(stored, kind), **plain}), tmp_path / f"{name}.parquet")
    rows = "".join(f"{d or ''},{v},{y}\n" for d, v, y in zip(when, plain["v"], plain["label"], strict=True))
    (tmp_path / "d.csv").write_text(f"seen,v,label\n{rows}")
    survey = check_sites(tmp_path)
    assert not survey.errors
    for site in survey.sites:
        np.testing.assert_array_equal(site.columns["seen"][:3], [days(2021, 4, 3), np.nan, days(2020, 1, 1)])


def test_rows_are_divided_by_dates_as_people_write_them(tmp_path):
    dates = [f"{1 + i % 28}/{1 + i % 12}/2021" for i in range(24)]
    folder = folder_of(tmp_path, a=table("seen", dates), b=table("seen", dates))
    made = Sites(path=str(folder), time="seen").federation(0)
    assert made.columns.features == ("a",)
    assert made.columns.dates == {}
    assert sorted(made.train.times[made.train.span(0)]) + sorted(made.test.times[made.test.span(0)]) == sorted(
        days(2021, 1 + i % 12, 1 + i % 28) for i in range(24)
    )
    assert "dates, read as days since 1970-01-01: 'seen' (day first)" in messages(check_sites(folder, time="seen"))


def test_labels_are_no_dates(tmp_path):
    text = "v,label\n" + "".join(f"{i},2021-04-0{i % 3 + 1}\n" for i in range(12))
    (error,) = check_sites(folder_of(tmp_path, a=text, b=text)).errors
    assert (error.column, error.message) == ("label", "the labels are dates")
    assert not check_sites(tmp_path, task="classification").errors


# booleans


@pytest.mark.parametrize(
    "words", [("no", "yes"), ("FALSE", "TRUE"), ("N", "Y"), ("f", "T"), ("nein", "Ja"), ("0", "1")]
)
def test_booleans_are_0_and_1_and_told(tmp_path, words):
    folder = folder_of(tmp_path, a=table("smokes", [*words, "NA"]), b=table("smokes", words[1:]))
    survey = check_sites(folder)
    assert not survey.errors
    np.testing.assert_array_equal(survey.sites[0].columns["smokes"][:3], [0, 1, np.nan])
    assert (survey.sites[1].columns["smokes"] == 1).all()
    told = "booleans, read as 0 and 1: 'smokes'" in messages(survey)
    assert told == (words != ("0", "1"))
    assert Sites(path=str(folder)).federation(0).columns.features == ("a", "smokes", "smokes missing")


def test_sites_may_write_booleans_in_their_own_words_and_numbers(tmp_path):
    sites = {"a": ["yes", "no"], "b": ["True", "False"], "c": ["1", "0"]}
    survey = check_sites(folder_of(tmp_path, **{name: table("smokes", words) for name, words in sites.items()}))
    assert survey.booleans == ("smokes",)
    assert [s.columns["smokes"][:2].tolist() for s in survey.sites] == [[1, 0]] * 3


@pytest.mark.parametrize("words", [("F", "M"), ("F", "N"), ("yes", "no", "unknown"), ("yes", "no", "2")])
def test_other_words_are_categories(tmp_path, words):
    text = table("v", words)
    assert check_sites(folder_of(tmp_path, a=text, b=text)).categories == ("v",)


def test_labels_keep_their_words(tmp_path):
    text = "v,label\n" + "".join(f"{i},{'yes' if i % 3 else 'no'}\n" for i in range(12))
    assert Sites(path=str(folder_of(tmp_path, a=text, b=text))).federation(0).label_names == ("no", "yes")


def test_a_column_named_in_categories_is_one(tmp_path):
    folder = folder_of(tmp_path, a=table("smokes", ["yes", "no"]), b=table("smokes", ["yes", "no"]))
    made = Sites(path=str(folder), categories=("smokes",)).federation(0)
    assert made.columns.categories == {"smokes": ("no", "yes")}
