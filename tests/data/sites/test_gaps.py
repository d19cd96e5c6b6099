"""Missing values: their codes, the inputs that tell of them, and numbers that may stand for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from manyheads.core.errors import UserError
from manyheads.core.settings import as_dict, build
from manyheads.data.sites.columns import Columns
from manyheads.data.sites.source import Sites, check_sites

HEART = Path(__file__).parents[4] / "shared" / "data" / "heart"


def folder_of(tmp_path, rows: int = 40, **sites):
    """A folder of tables with a column v of each site's values, over and over."""
    for name, values in sites.items():
        lines = (f"{i * i % 23},{values[i % len(values)]},{i // 2 % 2}\n" for i in range(rows))
        (tmp_path / f"{name}.csv").write_text(f"a,v,label\n{''.join(lines)}")
    return tmp_path


def told(survey, words: str) -> list[str]:
    return [str(p) for p in survey.problems if p.severity == "warning" and words in p.message]


@pytest.mark.parametrize("code", ["", "NA", "n/a", "#N/A", "NaN", "NULL", "?", "-", "."])
def test_texts_that_mean_a_missing_value(tmp_path, code):
    survey = check_sites(folder_of(tmp_path, s=["1.5", code, "2", "4"]))
    assert not survey.errors
    np.testing.assert_array_equal(survey.sites[0].columns["v"][:4], [1.5, np.nan, 2, 4])
    assert len(told(survey, f"{code!r} read as missing, in 'v'")) == bool(code)


def test_a_minus_beside_a_plus_is_a_value(tmp_path):
    survey = check_sites(folder_of(tmp_path, a=["+", "-"], b=["-", "+", "?"]))
    assert survey.categories == ("v",)
    assert {v for s in survey.sites for v in s.columns["v"]} == {"+", "-", None}


def test_codes_hold_when_named_in_all_columns_or_in_one(tmp_path):
    folder = folder_of(tmp_path, s=["-9", "0", "unknown", "5,5", "3"])
    text = (folder / "s.csv").read_text().replace("5,5", '"5,5"')
    (folder / "s.csv").write_text(text)
    assert check_sites(folder).errors
    survey = check_sites(folder, missing_codes=("-9", "v=0", "v=Unknown"))
    assert not survey.errors
    np.testing.assert_array_equal(survey.sites[0].columns["v"][:5], [np.nan, np.nan, np.nan, 5.5, 3])
    assert (survey.sites[0].columns["a"] == 0).any()
    (error,) = check_sites(folder, missing_codes=("w=0",), categories=("v",)).errors
    assert (error.column, error.message) == ("w", "no such column with a missing code")
    assert "a missing label" in check_sites(folder, missing_codes=("0",), categories=("v",)).errors[0].message


def test_an_indicator_is_1_where_a_number_was_missing(tmp_path):
    folder = folder_of(tmp_path, rows=120, a=["", *range(3, 12)], b=[*range(2, 14)])
    made = Sites(path=str(folder), scaling="none").federation(0)
    assert made.columns.features == ("a", "v", "v missing")
    for split in (made.train, made.test):
        v, missing = split.client(0)[0][:, 1:].T
        assert set(missing.tolist()) == {0, 1}
        mean = made.train.client(0)[0][made.train.client(0)[0][:, 2] == 0, 1].mean()
        np.testing.assert_allclose(v[missing == 1], mean, rtol=1e-6)
        assert (split.client(1)[0][:, 2] == 0).all()
    assert Sites(path=str(folder), indicators=False).federation(0).columns.features == ("a", "v")


def test_few_missing_values_have_an_indicator_only_if_told(tmp_path):
    for rows, values in ((100, ["", *range(3, 52)]), (16, ["", *range(3, 10)])):  # 2 %; 2 of 16
        folder = folder_of(tmp_path, rows=rows, a=values, b=[*range(2, 14)])
        assert not told(check_sites(folder), "missing in more than")
        assert Sites(path=str(folder)).federation(0).columns.indicators == ()
        assert Sites(path=str(folder), indicators=True).federation(0).columns.indicators == ("v",)


def test_categories_and_columns_that_do_not_vary_have_none(tmp_path):
    folder = folder_of(tmp_path, a=["x", "", "y"], b=["x", "y"])
    assert Sites(path=str(folder), indicators=True).federation(0).columns.features == ("a", "v=x", "v=y")
    folder = folder_of(tmp_path, a=["7", ""], b=["7"])
    assert Sites(path=str(folder), indicators=True).federation(0).columns.features == ("a",)


def test_columns_of_earlier_runs_are_read_as_they_were():
    old = {"label": "y", "numbers": ["a"], "mean": [1.0], "deviation": [2.0], "categories": {"c": ["u"]}}
    columns = build(Columns, old, where="test")
    assert columns.features == ("a", "c=u")
    x = columns.inputs({"a": np.array([3.0, np.nan]), "c": np.array(["u", None], object)})
    assert x.tolist() == [[1, 1], [0, 0]]
    new = Columns("y", ("a",), (1.0,), (2.0,), indicators=("a",), dates={"a": "day first"}, missing_codes=("a=0",))
    assert build(Columns, as_dict(new), where="test") == new
    with pytest.raises(UserError, match="columns of numbers"):
        Columns("y", ("a",), (1.0,), (2.0,), indicators=("b",))


def test_a_site_without_any_value_of_a_column_is_told(tmp_path):
    survey = check_sites(folder_of(tmp_path, a=[1, 2, 5], b=[""]))
    (line,) = told(survey, "has no value of 'v'")
    assert line.startswith(f"{tmp_path / 'b.csv'}: site 'b' has no value of 'v'")
    assert told(survey, "missing in more than 5 % of the rows of some site: 'v'")


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([120, 0, *range(85, 150, 3)], "0"),
        ([3, 4, 9, 1, 2], "9"),
        ([999, *range(50, 80)], "999"),
        ([-9, *range(0, 30)], "-9"),
        ([99, 98, 97], None),  # a share, a temperature
        ([*range(0, 40)], None),
        ([0, 1, 2, 3, 4], None),
        ([-9, -5, -1, 4], None),
    ],
)
def test_numbers_that_may_mean_a_missing_value_are_only_hinted_at(tmp_path, values, code):
    folder = folder_of(tmp_path, rows=80, a=values, b=values)
    survey = check_sites(folder)
    hints = [h for h in told(survey, "may mean a missing value") if "'v'" in h]
    assert len(hints) == (code is not None)
    assert not any(np.isnan(s.columns["v"]).any() for s in survey.sites)
    if code is not None:
        assert f"'v' is {code} in " in hints[0]
        assert hints[0].endswith(f"--data.missing-codes v={code}")
        named = check_sites(folder, missing_codes=(f"v={code}",))
        assert not told(named, "'v' is")
        assert np.isnan(named.sites[0].columns["v"]).sum() == (survey.sites[0].columns["v"] == float(code)).sum()


@pytest.mark.skipif(not HEART.is_dir(), reason=f"{HEART} is not there")
def test_the_unknown_cholesterol_of_real_hospitals_is_hinted_at_and_used_when_named():
    survey = check_sites(HEART / "sites", label="disease")
    (hint,) = told(survey, "may mean a missing value")
    assert "'chol' is 0 in 172 of 920 rows, else 85 to 603" in hint
    assert "--data.missing-codes trestbps=0,chol=0" in hint
    made = Sites(path=str(HEART / "sites"), label="disease", missing_codes=("trestbps=0", "chol=0")).federation(0)
    assert not any("may mean a missing value" in w for w in made.doubts)
    assert sum("has no value of 'chol'" in w for w in made.doubts) == 1  # Switzerland
    swiss = made.client_names.index("switzerland")
    at = made.columns.features.index("chol missing")
    assert (made.train.client(swiss)[0][:, at] == 1).all()


@pytest.mark.skipif(not HEART.is_dir(), reason=f"{HEART} is not there")
def test_raw_files_without_a_header_are_told_as_that(tmp_path):
    for name in ("cleveland", "va"):
        (tmp_path / f"{name}.csv").write_bytes((HEART / f"processed.{name}.data").read_bytes())
    errors = check_sites(tmp_path, label="num").errors
    assert len(errors) == 2
    for error in errors:
        assert "the first line seems to hold values, not names" in error.message
        assert "is the header missing?" in error.fix
    names = "age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,num\n"
    for name in ("cleveland", "va"):
        raw = (HEART / f"processed.{name}.data").read_text()
        (tmp_path / f"{name}.csv").write_text(names + raw)
    survey = check_sites(tmp_path, label="num")
    assert not survey.errors
    assert told(survey, "'?' read as missing, in 'ca', 'thal'")
