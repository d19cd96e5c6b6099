"""Excel workbooks, as openpyxl writes them: what is read of them, what is said, and what is refused."""

from __future__ import annotations

import zipfile
from datetime import date, datetime, time, timedelta

import numpy as np
import openpyxl
import pytest

from manyheads.data import content
from manyheads.data.sites.source import Sites, check_sites
from manyheads.data.sites.tables import read_table


def workbook(path, *rows, **sheets):
    """A workbook of a sheet of these rows, and of other sheets."""
    book = openpyxl.Workbook()
    book.active.title = "Patients"
    for row in rows:
        book.active.append(row)
    for title, others in sheets.items():
        sheet = book.create_sheet(title)
        for row in others:
            sheet.append(row)
    book.save(path)
    return path


def rewritten(path, member: str, change):
    """The workbook with one of its parts changed."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts[member] = change(parts[member])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def refusal(path, **how) -> str:
    table, problems = read_table(path, **how)
    assert table is None
    (problem,) = problems
    assert "\n" not in str(problem)
    return str(problem)


def columns_of(path, **how):
    table, problems = read_table(path, **how)
    assert problems == []
    return {name: column.tolist() for name, column in table.columns.items()}


HEAD = ["age", "ward", "label"]


def test_a_workbook_gives_the_samples_of_the_same_csv(tmp_path):
    rng = np.random.default_rng(0)
    for kind in ("xlsx", "csv", "tsv"):
        (tmp_path / kind).mkdir()
    for site in "ab":
        rows = [[float(rng.normal()) if i % 3 else None, "uvw"[i % 3], i % 2] for i in range(30)]
        workbook(tmp_path / "xlsx" / f"{site}.xlsx", HEAD, *rows)
        for kind, mark in (("csv", ","), ("tsv", "\t")):
            lines = [HEAD, *([*("" if v is None else repr(v) if v is row[0] else str(v) for v in row)] for row in rows)]
            (tmp_path / kind / f"{site}.{kind}").write_text("\n".join(mark.join(line) for line in lines))
    made = [Sites(path=str(tmp_path / kind)).federation(1) for kind in ("xlsx", "csv", "tsv")]
    assert made[0].columns.features == ("age", "ward=u", "ward=v", "ward=w", "age missing")
    assert made[0].client_names == ("a", "b")
    assert len({f.train.x.tobytes() + f.test.x.tobytes() + f.train.y.tobytes() for f in made}) == 1


def test_cells_of_every_kind(tmp_path):
    path = workbook(
        tmp_path / "a.xlsx",
        ["n", "mixed", "yes", "when", "share", "text", "label"],
        [1, 1.5, True, date(2021, 4, 3), "23%", " b ", 0],
        [None, "n/a", False, datetime(2021, 4, 3, 12), "4%", "#N/A", 1],
        [3, 7, None, None, "5%", None, 1],
    )
    found = columns_of(path)
    np.testing.assert_array_equal(found["n"], [1, np.nan, 3])
    np.testing.assert_array_equal(found["mixed"], [1.5, np.nan, 7])
    np.testing.assert_array_equal(found["yes"], [1, 0, np.nan])
    assert found["when"] == ["2021-04-03", "2021-04-03 12:00:00", None]
    assert found["share"] == [0.23, 0.04, 0.05]
    assert found["text"] == ["b", None, None]


def test_blank_rows_columns_and_cells_around_the_table_are_not_part_of_it(tmp_path):
    book = openpyxl.Workbook()
    sheet = book.active
    for at, row in ((3, HEAD), (4, [30, "A", 0]), (6, [40, "B", 1])):
        for column, value in enumerate(row, 1):
            sheet.cell(at, column, value)
    sheet.cell(500, 40).font = openpyxl.styles.Font(bold=True)  # formatted, but empty
    book.save(tmp_path / "a.xlsx")
    assert columns_of(tmp_path / "a.xlsx") == {"age": [30, 40], "ward": ["A", "B"], "label": [0, 1]}


def test_of_several_sheets_the_first_is_read_and_told_or_the_named_one(tmp_path):
    path = workbook(
        tmp_path / "a.xlsx", HEAD, [30, "A", 0], Second=[HEAD, [50, "B", 1]], Empty=[], **{"No such": [["x"]]}
    )
    table, (told,) = read_table(path)
    assert table.columns["age"].tolist() == [30]
    assert told.severity == "warning"
    assert "3 sheets hold values, 'Patients', 'Second', 'No such': 'Patients' is read" in told.message
    assert "--data.sheet" in told.fix
    assert columns_of(path, sheet="Second")["age"] == [50]
    assert "has no sheet 'second'; did you mean 'Second'?" in refusal(path, sheet="second")
    assert "has no rows" in refusal(path, sheet="Empty")
    only = workbook(tmp_path / "b.xlsx", Data=[HEAD, [60, "C", 1]])
    assert columns_of(only)["age"] == [60]  # the first sheet is empty


def test_a_formula_is_its_value_and_an_error_without_one(tmp_path):
    path = workbook(tmp_path / "a.xlsx", [], HEAD, [30, "A", 0], [40, "B", 1], ["=A3+20", "C", 1])
    message = refusal(path)
    assert "a.xlsx, row 3, column 'age': the formula in A5 has no value" in message
    assert "Excel" in message
    sheet = "xl/worksheets/sheet1.xml"
    assert b"<f>A3+20</f><v></v>" in zipfile.ZipFile(path).read(sheet) or b"<v />" in zipfile.ZipFile(path).read(sheet)
    computed = lambda part: part.replace(b"<v></v>", b"<v>50</v>").replace(b"<v />", b"<v>50</v>")  # noqa: E731
    assert columns_of(rewritten(path, sheet, computed))["age"] == [30, 40, 50]
    empty = lambda part: part.replace(b'r="A5"', b'r="A5" t="str"').replace(b"<v>50</v>", b"<v></v>")  # noqa: E731
    found = columns_of(rewritten(path, sheet, empty))["age"]  # computed: it is the empty text
    np.testing.assert_array_equal(found, [30, 40, np.nan])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("#DIV/0!", "row 2, column 'age': an error of Excel: '#DIV/0!'"),
        (time(12, 30), "row 2, column 'age': a time without a date"),
        (timedelta(hours=30), "row 2, column 'age': a time without a date"),
    ],
)
def test_cells_that_mean_nothing_are_refused_with_their_place(tmp_path, value, words):
    assert words in refusal(workbook(tmp_path / "a.xlsx", HEAD, [30, "A", 0], [value, "B", 1]))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "has no rows"),
        ([HEAD], "has no rows"),
        ([["Patients of 2021"], HEAD, [30, "A", 0]], "column 2 has no name"),
        ([[61, 61, 1], [50, 40, 0]], "the first row of the sheet seems to hold values"),
        ([["age", None, "label"], [30, "A", 0]], "column 2 has no name"),
        ([["age", "age", "label"], [30, 31, 0]], "column 'age': two columns have this name"),
    ],
)
def test_sheets_that_are_no_tables(tmp_path, rows, words):
    assert words in refusal(workbook(tmp_path / "a.xlsx", *rows))


def test_files_that_are_no_workbooks(tmp_path):
    for data in (b"", b"age,label\n1,0\n", b"PK\x03\x04" + bytes(40)):
        (tmp_path / "a.xlsx").write_bytes(data)
        assert "is not a workbook of Excel" in refusal(tmp_path / "a.xlsx")
    (tmp_path / "a.xlsx").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    assert "has a password" in refusal(tmp_path / "a.xlsx")
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        archive.writestr("hello.txt", "hello")
    assert "is not a workbook of Excel" in refusal(tmp_path / "a.xlsx")


def test_a_workbook_that_unpacks_to_more_than_the_memory_is_refused(tmp_path, monkeypatch):
    path = workbook(tmp_path / "a.xlsx", HEAD, *([30, "A", 0] for _ in range(20)))
    monkeypatch.setattr(content, "largest", lambda: 1_000_000)
    assert read_table(path)[0] is not None
    bomb = rewritten(path, "xl/worksheets/sheet1.xml", lambda part: part + b" " * 5_000_000)
    assert bomb.stat().st_size < 50_000
    assert "too much for the memory" in refusal(bomb)


def test_a_sheet_is_not_as_large_as_it_claims(tmp_path):
    path = workbook(tmp_path / "a.xlsx", HEAD, [30, "A", 0])
    sheet = "xl/worksheets/sheet1.xml"
    rewritten(path, sheet, lambda part: part.replace(b'ref="A1:C2"', b'ref="A1:XFD1048576"'))
    assert columns_of(path)["age"] == [30]
    far = rewritten(path, sheet, lambda part: part.replace(b'<row r="2"', b'<row r="999999999"'))
    assert "more than 1048576 rows" in refusal(far)
    entities = (
        b'<!DOCTYPE x [<!ENTITY a "'
        + b"a" * 1000
        + b'">'
        + b"".join(b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 100) for i in range(6))
        + b"]><worksheet"
    )
    laughs = rewritten(
        workbook(tmp_path / "b.xlsx", HEAD, [30, "A", 0]),
        sheet,
        lambda part: part.replace(b"<worksheet", entities, 1).replace(b"<v>30</v>", b"<v>&g;</v>"),
    )
    assert "is not a workbook of Excel" in refusal(laughs)


def test_damage_anywhere_is_read_or_refused(tmp_path):
    rng = np.random.default_rng(0)
    path = workbook(tmp_path / "a.xlsx", HEAD, *([i, "uv"[i % 2], i % 2] for i in range(20)))
    whole = path.read_bytes()
    for _ in range(100):
        damaged = bytearray(whole[: rng.integers(1, len(whole) + 1)] if rng.random() < 0.3 else whole)
        for at in rng.integers(0, len(damaged), 3):
            damaged[at] = rng.integers(256)
        path.write_bytes(damaged)
        table, problems = read_table(path)
        assert (table is None) == any(p.severity == "error" for p in problems)


def test_a_column_can_be_left_out_whatever_it_holds(tmp_path):
    path = workbook(tmp_path / "a.xlsx", [*HEAD, "t", "f"], [30, "A", 0, time(9), "=A2"], [40, "B", 1, "#REF!", "=A3"])
    assert read_table(path)[0] is None
    assert list(columns_of(path, ignore=("t", "f"))) == HEAD
    assert read_table(path, ignore=("t", "f"))[0].ignored == {"t", "f"}


def test_the_sheet_is_a_setting_of_all_sites(tmp_path):
    for name in "ab":
        workbook(tmp_path / f"{name}.xlsx", ["about"], Data=[["v", "label"], *([i * i % 7, i % 2] for i in range(12))])
    assert check_sites(tmp_path).errors
    survey = check_sites(tmp_path, sheet="Data")
    assert not survey.errors
    assert survey.numbers == ("v",)
    assert Sites(path=str(tmp_path), sheet="Data").federation(0).columns.sheet == "Data"
