"""Published tables of real sites: the embedded ones are UCI's, copies are read as the same data, tests in time are later."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from commands import facts_of
from real_data import DATA, real

from manyheads.core.errors import UserError
from manyheads.data import name_of_path, source_of
from manyheads.data.public.hospitals import HEART, Heart, Parkinsons
from manyheads.data.public.hub import fetch, is_there

HOSPITALS = {"Cleveland": "cleveland", "Hungary": "hungarian", "Switzerland": "switzerland", "VA": "va"}


def test_heart_comes_with_the_package_as_four_hospitals(monkeypatch):
    monkeypatch.delenv("MANYHEADS_DATA", raising=False)
    federation = source_of({"name": "heart"}).federation(0)
    assert is_there("heart")
    assert (federation.name, federation.task, federation.label_names) == ("heart", "classification", ("0", "1"))
    assert federation.client_names == ("Cleveland", "Hungary", "Switzerland", "VA")
    sick = []
    for client, rows in enumerate((303, 294, 123, 200)):
        y = np.concatenate([part.client(client)[1] for part in (federation.train, federation.test)])
        assert len(y) == rows
        sick.append(round(100 * y.mean()))
    assert sick == [46, 36, 93, 74]  # per cent, as UCI has them
    assert set(federation.columns.categories) == {"cp", "restecg", "slope", "thal"}
    assert not any("may be codes" in doubt for doubt in federation.doubts)  # codes are known
    assert any("'0' read as missing, in 'chol', 'trestbps'" in doubt for doubt in federation.doubts)
    assert len(federation.columns.features) == 22  # without indicators, which would tell of the hospital alone
    assert not federation.own_test
    assert not any(str(HEART.parent) in doubt for doubt in federation.doubts)


@real("heart")
@pytest.mark.parametrize("name", HOSPITALS)
def test_the_embedded_tables_are_those_of_uci(name):
    theirs = np.genfromtxt(DATA / "heart" / f"processed.{HOSPITALS[name]}.data", delimiter=",", missing_values="?")
    ours = np.genfromtxt(HEART / f"{name}.csv", delimiter=",", skip_header=1)
    theirs[:, -1] = theirs[:, -1] > 0
    np.testing.assert_array_equal(ours, theirs)


def test_the_tables_say_whose_they_are():
    words = (HEART / "ATTRIBUTION.md").read_text()
    assert all(name in words for name in ("Janosi", "Steinbrunn", "Pfisterer", "Detrano", "CC BY 4.0", "1989"))


def test_a_copy_of_the_hospitals_is_the_same_data_by_its_path(tmp_path, capsys):
    facts = facts_of(capsys, "data", "get", "heart", "--out", tmp_path)
    assert sorted(Path(f["file"]).name for f in facts["files"]) == ["ATTRIBUTION.md", *(f"{n}.csv" for n in HOSPITALS)]
    copy = source_of({"name": str(tmp_path / "heart")})
    assert (copy.name, copy.federation(3).fingerprint) == ("heart", Heart().federation(3).fingerprint)
    kept = facts_of(capsys, "data", "get", "heart", "--out", tmp_path)
    assert all(f["kept"] for f in kept["files"])
    checked = facts_of(capsys, "data", "check", tmp_path / "heart", "--data.label", "disease")
    assert not [p for p in checked["problems"] if "left out" in p["message"]]


def test_a_folder_of_that_name_with_other_tables_is_ones_own(tmp_path):
    (tmp_path / "heart").mkdir()
    (tmp_path / "heart" / "leeds.csv").write_text("age,label\n1,0\n2,1\n")
    assert name_of_path(str(tmp_path / "heart")) == "sites"


# -- parkinsons --------------------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder with a file like UCI's: the score rises with the day."""
    monkeypatch.delenv("MANYHEADS_DATA", raising=False)
    (tmp_path / "parkinsons").mkdir()
    rng = np.random.default_rng(0)
    lines = ["subject#,age,sex,test_time,motor_UPDRS,total_UPDRS,PPE"]
    for subject in (1, 2, 10):
        for day in rng.permutation(20):
            lines.append(f"{subject},{60 + subject},0,{day}.5,{10 + day / 4},99,{rng.normal():.4f}")
    (tmp_path / "parkinsons" / "parkinsons_updrs.data").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_the_file_of_all_patients_becomes_a_table_for_each(root, capsys):
    facts_of(capsys, "data", "get", "parkinsons", "--out", root)
    made = sorted(f.name for f in (root / "parkinsons").glob("*.csv"))
    assert made == ["subject01.csv", "subject02.csv", "subject10.csv"]
    table = (root / "parkinsons" / made[0]).read_text().splitlines()
    assert table[0] == "age,sex,test_time,motor_UPDRS,PPE"
    assert len(table) == 21
    federation = source_of({"name": str(root / "parkinsons")}).federation(0)
    assert (federation.name, federation.task, len(federation)) == ("parkinsons", "regression", 3)
    assert federation.client_names == ("subject01", "subject02", "subject10")


def test_recordings_are_divided_at_random_or_in_time_and_this_is_told(root):
    fetch("parkinsons", root)
    folder = str(root / "parkinsons")
    random, later = (Parkinsons(path=folder, division=d).federation(0) for d in ("random", "time"))
    assert (random.division, later.division) == ("at random", "in the order of time")
    assert sum("divided at random" in doubt for doubt in random.doubts) == 1
    assert not any("divided at random" in doubt for doubt in later.doubts)
    assert "test_time" in random.columns.numbers
    assert "test_time" not in later.columns.numbers
    for client in range(3):  # the score rises with the day
        assert later.train.client(client)[1].max() < later.test.client(client)[1].min()
        assert random.train.client(client)[1].max() > random.test.client(client)[1].min()


def test_a_copy_elsewhere_is_used_and_without_one_it_says_what_to_put_where(root, tmp_path, monkeypatch):
    empty = tmp_path / "empty"
    with pytest.raises(
        UserError, match=r"parkinsons is not there; put parkinsons_updrs.data into .*empty/parkinsons; it is"
    ):
        fetch("parkinsons", empty)
    monkeypatch.setenv("MANYHEADS_DATA", str(root))
    with pytest.raises(
        UserError, match="put subject01.csv, .* into .*made of UCI's parkinsons_updrs.data: manyheads data"
    ):
        Parkinsons().federation(0)
    assert len(fetch("parkinsons", empty)["files"]) == 3
    assert is_there("parkinsons", empty)


@pytest.mark.parametrize(
    "text", ["", "name,status\nx,1\n", "subject#,age,total_UPDRS\n1,70,3\n1,7", "subject#,age,total_UPDRS\n/,7,3\n"]
)
def test_another_table_of_that_name_is_an_error(root, text):
    (root / "parkinsons" / "parkinsons_updrs.data").write_text(text)
    with pytest.raises(UserError, match="is not UCI's table of all patients"):
        fetch("parkinsons", root)


@real("parkinsons")
def test_the_real_recordings_are_5875_of_42_patients(tmp_path, monkeypatch):
    monkeypatch.setenv("MANYHEADS_DATA", str(DATA))
    federation = Parkinsons().federation(0)
    assert (len(federation), len(federation.train.y) + len(federation.test.y)) == (42, 5875)
    (tmp_path / "parkinsons").mkdir()
    raw = (DATA / "parkinsons" / "parkinsons_updrs.data").read_bytes()
    (tmp_path / "parkinsons" / "parkinsons_updrs.data").write_bytes(raw)
    fetch("parkinsons", tmp_path)
    for file in (tmp_path / "parkinsons").glob("*.csv"):
        theirs = (DATA / "parkinsons" / "sites" / file.name).read_text().splitlines()
        assert file.read_text().splitlines() == theirs
