"""The user's own tables: what they become, and what is said of broken ones."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyheads.core.errors import UserError
from manyheads.data import Federation
from manyheads.data.public.hub import CHECKSUMS, DATASETS, fetch, is_there
from manyheads.data.sites.source import Sites, check_sites
from manyheads.data.sites.tables import read_table
from manyheads.data.sources import SOURCES, source_of

SHARED = Path(__file__).parents[4] / "shared" / "data"
HEART, PATIENTS = SHARED / "heart" / "sites", SHARED / "parkinsons" / "sites"
GOOD = "age,color,label\n" + "".join(f"{i},{'red' if i % 3 else 'blue'},{i % 2}\n" for i in range(10))


def sites(folder, **files: str | bytes):
    for name, text in files.items():
        name = name.replace("__", ".")
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def table_of(rows: int, rng) -> dict[str, np.ndarray]:
    return {
        "a": rng.normal(5, 2, rows),
        "b": rng.normal(-1, 0.1, rows),
        "kind": rng.choice(["u", "v", "w"], rows),
        "label": rng.integers(0, 3, rows),
    }


def test_csv_parquet_and_npz_give_the_same_samples(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 2)), rng.integers(0, 2, 30)
    made = {}
    for kind in ("csv", "csv.gz", "parquet", "npz"):
        folder = tmp_path / kind
        folder.mkdir()
        for site, rows in (("a", slice(0, 10)), ("b", slice(10, 30))):
            path = folder / f"{site}.{kind}"
            lines = ["x0,x1,y", *(f"{u!r},{v!r},{k}" for (u, v), k in zip(x[rows].tolist(), y[rows], strict=True))]
            if kind == "npz":
                np.savez(path, x=x[rows], y=y[rows])
            elif kind == "parquet":
                pq.write_table(pa.table({"x0": x[rows, 0], "x1": x[rows, 1], "y": y[rows]}), path)
            else:
                text = "\n".join(lines).encode()
                path.write_bytes(gzip.compress(text) if kind == "csv.gz" else text)
        made[kind] = Sites(path=str(folder)).federation(3)
    assert made["csv"].client_names == ("a", "b")
    assert len({f.train.x.tobytes() + f.test.x.tobytes() + f.train.y.tobytes() for f in made.values()}) == 1


def test_one_table_with_a_client_column_is_the_same_as_a_folder(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    lines = GOOD.splitlines()
    sites(folder, north__csv=GOOD, south__csv="\n".join([lines[0], *lines[4:]]))
    whole = [f"{lines[0]},hospital", *(f"{row},north" for row in lines[1:]), *(f"{row},south" for row in lines[4:])]
    (tmp_path / "all.csv").write_text("\n".join(whole))
    one = Sites(path=str(tmp_path / "all.csv"), client="hospital").federation(0)
    many = Sites(path=str(folder)).federation(0)
    assert one.client_names == many.client_names == ("north", "south")
    assert np.array_equal(one.train.x, many.train.x)
    assert np.array_equal(one.test.y, many.test.y)


def test_categories_are_one_hot_and_labels_keep_their_names(tmp_path):
    text = "size,color,label\n" + "".join(
        f"{i},{'red' if i % 2 else 'blue'},{'yes' if i < 5 else 'no'}\n" for i in range(10)
    )
    made = Sites(path=str(sites(tmp_path, a__csv=text, b__csv=text))).federation(0)
    assert made.columns.features == ("size", "color=blue", "color=red")
    assert made.label_names == ("no", "yes")
    assert made.outputs == 2
    assert (made.train.x[:, 1:].sum(axis=1) == 1).all()


def test_labels_that_are_numbers_are_in_their_order(tmp_path):
    text = "a,label\n" + "".join(f"{i},{(2, 10, 9)[i % 3]}\n" for i in range(9))
    assert Sites(path=str(sites(tmp_path, a__csv=text))).federation(0).label_names == ("2", "9", "10")


def test_a_category_seen_only_in_test_rows_is_all_zeros(tmp_path):
    rng = np.random.default_rng(0)
    for seed in range(20):
        names = ["u", "v"] * 10
        names[7] = "rare"
        rows = "\n".join(f"{v},{c},{k}" for v, c, k in zip(rng.normal(size=20), names, [0, 1] * 10, strict=True))
        made = Sites(path=str(sites(tmp_path, a__csv=f"a,c,label\n{rows}"))).federation(seed)
        if "c=rare" not in made.columns.features:
            assert sorted(made.test.x[:, 1:].sum(axis=1))[:2] == [0, 1]
            return
    pytest.fail("the rare row was never among the test rows")


@pytest.mark.parametrize("scaling", ["client", "federated", "none"])
def test_scaling_comes_from_training_rows_of_the_right_clients(tmp_path, scaling):
    rng = np.random.default_rng(1)
    raw = {}
    for i, name in enumerate("abc"):
        raw[name] = rng.normal(1e6 * i, 1 + i, size=(20 + i, 2))
        np.savez(tmp_path / f"{name}.npz", x=raw[name], y=np.arange(20 + i) % 2)
    plain = Sites(path=str(tmp_path), scaling="none", test_fraction=0.3).federation(5)
    got = Sites(path=str(tmp_path), scaling=scaling, test_fraction=0.3).federation(5)
    train = [plain.train.client(i)[0].astype(np.float64) for i in range(3)]
    for i in range(3):
        base = {"client": train[i], "federated": np.concatenate(train)}.get(scaling, np.array([[-1.0], [1.0]]))
        for split in ("train", "test"):
            x = getattr(plain, split).client(i)[0].astype(np.float64)
            # float32 inputs of 1e6 are known to 0.06
            np.testing.assert_allclose(
                getattr(got, split).client(i)[0], (x - base.mean(0)) / base.std(0), rtol=1e-4, atol=0.1
            )


def test_test_rows_change_nothing_about_training(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    marked = np.arange(40)
    np.savez(tmp_path / "a.npz", x=np.column_stack([x, marked]), y=y)
    rows = Sites(path=str(tmp_path), scaling="none").federation(0).test.x[:, 3].astype(int)
    for scaling in ("client", "federated"):
        np.savez(tmp_path / "a.npz", x=x, y=y)
        before = Sites(path=str(tmp_path), scaling=scaling).federation(0)
        other = x.copy()
        other[rows] *= 1000
        np.savez(tmp_path / "a.npz", x=other, y=y)
        after = Sites(path=str(tmp_path), scaling=scaling).federation(0)
        assert np.array_equal(before.train.x, after.train.x)
        assert not np.array_equal(before.test.x, after.test.x)
        np.savez(tmp_path / "a.npz", x=np.column_stack([x, marked]), y=y)


def test_missing_numbers_become_the_mean_and_are_counted(tmp_path):
    a = "u,v,label\n" + "".join(f"{'NA' if i < 3 else i},{i},{i % 2}\n" for i in range(12))
    b = "u,v,label\n" + "".join(f",{i},{i % 2}\n" for i in range(12))
    folder = sites(tmp_path, a__csv=a, b__csv=b)
    facts = check_sites(folder).facts()
    assert facts["ok"]
    assert [s["missing"] for s in facts["sites"]] == [{"u": 3}, {"u": 12}]
    train = Sites(path=str(folder)).federation(0).train
    assert (train.client(0)[0][:, 0] == 0).sum() >= 1  # the mean, scaled
    raw = Sites(path=str(folder), scaling="none").federation(0).train
    known = raw.client(0)[0][:, 0]
    assert np.allclose(raw.client(1)[0][:, 0], known[known % 1 == 0].mean(), atol=0.5)  # nothing there: that of all
    assert "missing" in check_sites(folder, missing="error").errors[0].message


def test_columns_that_never_vary_are_dropped_and_told(tmp_path):
    text = "a,same,word,label\n" + "".join(f"{i},7,x,{i % 2}\n" for i in range(10))
    folder = sites(tmp_path, a__csv=text, b__csv=text)
    assert check_sites(folder).constant == ("same", "word")
    made = Sites(path=str(folder)).federation(0)
    assert made.columns.features == ("a",)
    assert made.columns.dropped == ("same", "word")


def test_a_regression_is_told_from_its_numbers(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", x=rng.normal(size=(20, 2)), y=rng.normal(100, 5, 20))
    made = Sites(path=str(tmp_path)).federation(0)
    assert made.task == "regression"
    assert made.columns.target[0] == pytest.approx(100, abs=5)
    assert abs(made.train.y.mean()) < 1e-5
    raw = Sites(path=str(tmp_path), scale_target=False).federation(0)
    np.testing.assert_allclose(made.test.y * made.columns.target[1] + made.columns.target[0], raw.test.y, rtol=1e-5)
    many = "a,label\n" + "".join(f"{i % 7},{i}\n" for i in range(40))
    folder = tmp_path / "whole"
    folder.mkdir()
    assert check_sites(sites(folder, a__csv=many)).task == "regression"
    assert check_sites(folder, task="classification").task == "classification"


BROKEN = [
    ({"b__csv": GOOD.replace("4,red,0", "4,red,")}, "b.csv", 5, "label", "a missing label", "delete the row"),
    (
        {"b__csv": GOOD.replace("4,red", "four,red")},
        "b.csv",
        5,
        "age",
        "text in a column of numbers: 'four'",
        "correct",
    ),
    ({"b__csv": GOOD.replace("4,red", "inf,red")}, "b.csv", 5, "age", "infinite", "correct it"),
    ({"b__csv": "age,color,label\n"}, "b.csv", None, None, "has no rows", "remove the file"),
    ({"b__csv": ""}, "b.csv", None, None, "has no rows", "remove the file"),
    ({"b__parquet": b"garbage, not parquet"}, "b.parquet", None, None, "cannot be read", "again"),
    ({"b__npz": b"garbage"}, "b.npz", None, None, "is not an NPZ file", "np.savez"),
    ({"b__csv": GOOD.replace("4,red,0", "4,red,0,9")}, "b.csv", 5, None, "4 values where the header has 3", "complete"),
    ({"b__csv": GOOD.encode().replace(b"4,red", b"4,r\x81d")}, "b.csv", 5, None, "nor in Windows-1252", "save it"),
    (
        {"b__csv": GOOD.replace("age", "years")},
        "b.csv",
        None,
        None,
        "lacks 'age' and has 'years' besides",
        "--data.ignore",
    ),
    ({"b__csv": GOOD.replace("age", "color")}, "b.csv", None, "color", "two columns have this name", "rename"),
    ({"b__csv": GOOD.replace("age", "")}, "b.csv", None, None, "column 1 has no name", "index=False"),
    ({"b__csv": GOOD.replace("label", "outcome")}, "b.csv", None, None, "no label column 'label'", "--data.label"),
]


@pytest.mark.parametrize(("files", "file", "row", "column", "message", "fix"), BROKEN)
def test_a_broken_site_gets_a_line_with_its_place_and_the_fix(tmp_path, files, file, row, column, message, fix):
    folder = sites(tmp_path, a__csv=GOOD, c__csv=GOOD, **files)
    errors = check_sites(folder).errors
    assert len(errors) == 1, errors
    problem = errors[0]
    assert problem.file.endswith(file)
    assert (problem.row, problem.column) == (row, column)
    assert message in problem.message
    assert fix in problem.fix
    with pytest.raises(UserError, match="data check") as raised:
        Sites(path=str(folder)).federation(0)
    assert str(folder / file) in str(raised.value)
    assert "\n" not in str(raised.value)


DOUBTFUL = [
    (GOOD.replace("4,red,0", "4,red,maybe"), "alone has the label 'maybe'"),
    ("age,color,label\n3,red,1\n", "has one row"),
    ("age,color,label\n3,red,1\n4,red,1\n", "has only the label '1'"),
]


@pytest.mark.parametrize(("text", "message"), DOUBTFUL)
def test_what_can_be_used_is_a_warning(tmp_path, text, message):
    survey = check_sites(sites(tmp_path, a__csv=GOOD, b__csv=text))
    assert not survey.errors
    assert [p.file for p in survey.problems if message in p.message] == [str(tmp_path / "b.csv")]
    assert len(Sites(path=str(tmp_path)).federation(0)) == 2


def test_folders_without_tables_and_files_of_other_kinds(tmp_path):
    assert "is not there" in check_sites(tmp_path / "none").errors[0].message
    assert "no table" in check_sites(tmp_path).errors[0].message
    sites(tmp_path, a__csv=GOOD, notes__txt="hello")
    survey = check_sites(tmp_path)
    assert not survey.errors
    assert "left out" in survey.problems[0].message
    assert ".parquet" in check_sites(tmp_path / "notes.txt").errors[0].fix
    assert "'client' or 'site'" in check_sites(tmp_path / "a.csv").errors[0].message
    assert "folder" in check_sites(tmp_path, client="x").errors[0].message
    sites(tmp_path, a__parquet=b"")
    pq.write_table(pa.table({"age": [1, 2], "color": ["r", "b"], "label": [0, 1]}), tmp_path / "a.parquet")
    assert any("2 files are of a site 'a'" in p.message for p in check_sites(tmp_path).errors)


def test_a_table_with_pickled_objects_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([[object()]], dtype=object), y=np.array([1]))
    table, problems = read_table(tmp_path / "a.npz")
    assert table is None
    assert "Python objects" in problems[0].message


def test_a_column_can_be_left_out_whatever_it_holds(tmp_path):
    columns = {"when": pa.array([1, 2], pa.duration("s")), "a": [1.0, 2.0], "label": [0, 1]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert check_sites(tmp_path).errors[0].column == "when"
    assert not check_sites(tmp_path, ignore=("when",)).errors


def test_facts_are_json(tmp_path):
    facts = json.loads(json.dumps(check_sites(sites(tmp_path, a__csv=GOOD, b__csv=GOOD)).facts()))
    assert facts["sites"][0]["labels"] == {"0": 5, "1": 5}
    assert facts["features"] == {"age": "number", "color": "category"}


def test_a_path_in_place_of_a_name_means_sites(tmp_path):
    assert source_of({"name": str(tmp_path), "scaling": "none"}) == Sites(path=str(tmp_path), scaling="none")
    assert source_of({}).name == "digits"
    with pytest.raises(UserError, match="no such folder or file"):
        source_of({"name": str(tmp_path / "none")})


class Rows(list):
    """Stands in for a split of a dataset on the hub."""

    def to_parquet(self, path: str) -> None:
        pq.write_table(pa.table({"label": [r["label"] for r in self]}), path)


def test_a_download_notes_checksums_and_goes_on_where_it_stopped(tmp_path):
    asked = []

    def load(hub: str, split: str) -> Rows:
        asked.append(split)
        if split == "test" and len(asked) == 2:
            raise ConnectionError("the line is down")
        return Rows({"label": i, "image": np.full((4, 4), i)} for i in range(3))

    with pytest.raises(UserError, match="the line is down.*or put into"):
        fetch("cifar10", tmp_path, load)
    assert not is_there("cifar10", tmp_path)
    facts = fetch("cifar10", tmp_path, load)
    assert asked == ["train", "test", "test"]
    assert [f["kept"] for f in facts["files"]] == [True, False]
    assert is_there("cifar10", tmp_path)
    (tmp_path / "cifar10" / "train.parquet").write_bytes(b"damaged")
    assert [f["kept"] for f in fetch("cifar10", tmp_path, load)["files"]] == [False, True]
    noted = (tmp_path / "cifar10" / CHECKSUMS).read_text()
    assert noted.count("\n") == 2
    assert facts["files"][0]["sha256"] in noted


def test_digits_from_the_hub_are_kept_as_idx(tmp_path):
    from manyheads.data.public.readers.idx import read_idx

    fetch("mnist", tmp_path, lambda hub, split: Rows({"label": i, "image": np.full((4, 4), i)} for i in range(3)))
    images = read_idx(tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz", dimensions=3)
    assert images[:, 0, 0].tolist() == [0, 1, 2]


def test_every_public_dataset_is_a_source():
    assert DATASETS.keys() <= SOURCES.keys()


# what people write


def labelled(column: str, values, rows: int = 12) -> str:
    """A table with a column of these values, over and over."""
    return f"a;{column};label\n" + "".join(f"{i};{values[i % len(values)]};{i % 2}\n" for i in range(rows))


@pytest.mark.parametrize(
    ("values", "numbers", "way"),
    [
        (["1,5", "2", "0,25"], [1.5, 2, 0.25], "a decimal comma"),
        (["1.234,5", "7,25"], [1234.5, 7.25], "a decimal comma"),
        (["1,234.5", "7,000"], [1234.5, 7000], "commas between thousands"),
        (["23%", "4.5 %"], [0.23, 0.045], "percent"),
        (["23,5%", "4,5%"], [0.235, 0.045], "a decimal comma and percent"),
    ],
)
def test_numbers_as_people_write_them_are_numbers_and_told(tmp_path, values, numbers, way):
    folder = sites(tmp_path, a__csv=labelled("v", values), b__csv=labelled("v", [*values, "NA"]))
    survey = check_sites(folder)
    assert not survey.errors
    assert survey.numbers == ("a", "v")
    assert survey.sites[0].columns["v"].tolist()[: len(values)] == pytest.approx(numbers)
    (told,) = (p for p in survey.problems if p.column == "v" and "read as such" in p.message)
    assert way in told.message
    assert told.severity == "warning"
    plain = labelled("v", [str(n) for n in numbers])
    (tmp_path / "plain").mkdir()
    assert (
        check_sites(sites(tmp_path / "plain", a__csv=plain)).sites[0].columns["v"].tolist()
        == survey.sites[0].columns["v"].tolist()
    )


@pytest.mark.parametrize("values", [["1,234", "5,678"], ["12", "23%"], ["1,5", "2.5"], ["1'000", "2'000"]])
def test_numbers_that_can_be_read_in_two_ways_are_not_guessed(tmp_path, values):
    folder = sites(tmp_path, a__csv=labelled("v", values), b__csv=labelled("v", values))
    errors = check_sites(folder).errors
    assert errors
    for error in errors:
        assert error.column == "v"
        assert "not clear" in error.message or "text in a column of numbers" in error.message
        assert "--data.categories" in error.fix
    assert check_sites(folder, categories=("v",)).categories == ("v",)


def test_each_unclear_column_gets_its_own_fix(tmp_path):
    rows = "".join(f'"1,{i}34","5,{i}78",{i % 2}\n' for i in range(8))
    errors = check_sites(sites(tmp_path, a__csv=f"v,w,label\n{rows}")).errors
    assert [(e.column, e.fix.count("1234.5")) for e in errors] == [("v", 1), ("w", 1)]


def test_a_target_with_a_decimal_comma_is_a_regression(tmp_path):
    text = "a;label\n" + "".join(f"{i};{i},{i}5\n" for i in range(10))
    assert check_sites(sites(tmp_path, a__csv=text)).task == "regression"


def test_numbers_that_may_be_codes_get_a_hint(tmp_path):
    rows = [f"{20 + i * i % 29},{(3, 6, 7)[i % 3]},{i % 2},{1000 + 17 * (i % 19)},{i // 3 % 2}\n" for i in range(60)]
    head = "age,thal,sex,zip,label\n"
    folder = sites(tmp_path, a__csv=head + "".join(rows[:30]), b__csv=head + "".join(rows[30:]))
    (hint,) = check_sites(folder).problems
    assert hint.severity == "warning"
    assert "codes: 'thal', 'zip'" in hint.message
    assert hint.fix.endswith("--data.categories thal,zip")
    assert not check_sites(folder, categories=("thal", "zip")).problems


@pytest.mark.parametrize("setting", ["ignore", "categories"])
def test_a_column_that_no_site_has_is_refused_with_the_nearest(tmp_path, setting):
    folder = sites(tmp_path, a__csv=GOOD, b__csv=GOOD)
    (error,) = check_sites(folder, **{setting: ("colour",)}).errors
    assert error.column == "colour"
    assert error.fix == "did you mean 'color'?"
    (error,) = check_sites(folder, **{setting: ("qqqq",)}).errors
    assert "there are 'age', 'color'" in error.fix
    assert not check_sites(folder, **{setting: ("color",)}).errors


def test_a_column_that_one_site_has_can_be_ignored(tmp_path):
    more = "\n".join(f"{line},{'note' if not i else 'x'}" for i, line in enumerate(GOOD.splitlines()))
    folder = sites(tmp_path, a__csv=GOOD, b__csv=GOOD, c__csv=more)
    assert check_sites(folder).errors
    assert not check_sites(folder, ignore=("note",)).errors


@pytest.mark.parametrize(("theirs", "ours"), [("Age", "age"), ("blood pressure", "blood_pressure"), ("Label", "label")])
def test_a_name_in_another_spelling_is_to_be_written_as_in_the_others(tmp_path, theirs, ours):
    text = GOOD.replace("age", ours) if ours != "label" else GOOD
    folder = sites(tmp_path, a__csv=text, b__csv=text, c__csv=text.replace(ours, theirs))
    (error,) = check_sites(folder).errors
    assert error.file.endswith("c.csv")
    assert f"{theirs!r} is {ours!r}" in error.message
    assert "--data.ignore" not in error.fix


def test_files_that_are_no_sites_are_left_out_and_told(tmp_path):
    sites(tmp_path, a__csv=GOOD, b__csv=GOOD)
    sites(
        tmp_path,
        **{"~$a__csv": b"\x05user\0\0", "__a__csv": b"\0\5", "__DS_Store": b"", "summary__csv": "site,n\na,9\n"},
    )
    survey = check_sites(tmp_path)
    assert not survey.errors
    assert [s.name for s in survey.sites] == ["a", "b"]
    told = {p.file.rpartition("/")[2]: p.message for p in survey.problems}
    assert told.keys() == {"~$a.csv", ".a.csv", "summary.csv"}
    assert all("left out" in message for message in told.values())
    assert "lock file" in told["~$a.csv"]
    assert "not a site like the others" in told["summary.csv"]
    assert Sites(path=str(tmp_path)).federation(0).client_names == ("a", "b")


def test_a_site_that_is_nearly_like_the_others_is_never_left_out(tmp_path):
    folder = sites(tmp_path, a__csv=GOOD, b__csv=GOOD, c__csv=GOOD.replace("label", "outcome"))
    assert "no label column 'label'" in check_sites(folder).errors[0].message


def test_a_missing_header_is_told(tmp_path):
    rows = GOOD.split("\n", 1)[1].replace("red", "5").replace("blue", "6")
    folder = sites(tmp_path, a__csv=GOOD.replace("red", "5").replace("blue", "6"), b__csv="7.5,red,0\n" + rows)
    (error,) = (p for p in check_sites(folder).errors if p.file.endswith("b.csv"))
    assert "the first line holds values, not names: '7.5', 'red', '0'" in error.message
    assert "is the header missing?" in error.fix


def test_a_mistyped_folder_is_no_such_folder(tmp_path, monkeypatch):
    (tmp_path / "my_sites").mkdir()
    monkeypatch.chdir(tmp_path)
    (error,) = check_sites("my_site").errors
    assert "no such folder" in error.message
    assert error.fix == "did you mean 'my_sites'?"
    with pytest.raises(UserError, match=r"no such folder or file.*'my_site'.*did you mean 'my_sites'"):
        source_of({"name": "my_site"})
    with pytest.raises(UserError, match=r"no data of that name.*did you mean 'digits'"):
        source_of({"name": "digit"})
    with pytest.raises(UserError, match="no such folder or file.*chars74k"):
        source_of({"name": "qqqq"})
    with pytest.raises(UserError, match="no such folder or file"):
        source_of({"name": "x" * 300})


def test_a_pipe_in_the_folder_does_not_hang_the_check(tmp_path):
    sites(tmp_path, b__csv=GOOD)
    os.mkfifo(tmp_path / "a.csv")
    (error,) = check_sites(tmp_path).errors
    assert "a pipe" in error.message
    assert "a pipe" in check_sites(tmp_path / "a.csv").errors[0].message


def test_names_of_sites_do_nothing_on_a_terminal(tmp_path):
    sites(
        tmp_path,
        **{
            "a\x1b[31m__csv": GOOD,
            "b__csv": GOOD.replace("red", "r\x1b[2Jed"),
            b"\xff__csv".decode(errors="surrogateescape"): GOOD,
        },
    )
    federation = Sites(path=str(tmp_path)).federation(0)
    assert federation.client_names == (r"a\x1b[31m", "b", r"\udcff")
    shown = "".join([*federation.client_names, *federation.columns.features, *federation.warnings])
    assert shown.isprintable()
    sites(tmp_path, b__csv="broken")
    assert all(str(p).isprintable() for p in check_sites(tmp_path).problems)


# splits and scaling


def test_every_label_of_a_site_is_in_its_test_part_in_proportion(tmp_path):
    rng = np.random.default_rng(0)
    counts = {"u": 50, "v": 30, "w": 10}
    for name in "abc":
        labels = rng.permutation(np.repeat(list(counts), list(counts.values())))
        np.savez(tmp_path / f"{name}.npz", x=rng.normal(size=(90, 2)), y=labels)
    for seed in range(5):
        federation = Sites(path=str(tmp_path), test_fraction=0.2).federation(seed).with_validation(0.25, seed)
        for client in range(3):
            for split, expected in ((federation.test, [10, 6, 2]), (federation.validation, [10, 6, 2])):
                assert np.bincount(split.client(client)[1], minlength=3).tolist() == expected


def test_a_stratified_part_is_as_large_as_any_and_each_row_may_be_in_it(tmp_path):
    labels = np.array([0, 0, 0, 0, 1, 1, 2])
    np.savez(tmp_path / "a.npz", x=np.arange(7.0)[:, None], y=labels)
    seen = set()
    for seed in range(60):
        federation = Sites(path=str(tmp_path), test_fraction=0.3, scaling="none").federation(seed)
        rows = federation.test.x[:, 0].astype(int)
        assert len(rows) == 2
        assert np.bincount(labels[rows], minlength=3).tolist() <= [2, 1, 1]
        assert sorted({*rows, *federation.train.x[:, 0].astype(int)}) == list(range(7))
        seen |= set(rows.tolist())
    assert seen == set(range(7))


def test_a_column_that_is_constant_within_a_site_still_tells_the_sites_apart(tmp_path):
    for name, age in (("a", 40), ("b", 60), ("c", 80)):
        text = "age,v,label\n" + "".join(f"{age},{i},{i % 2}\n" for i in range(10))
        sites(tmp_path, **{f"{name}__csv": text})
    federation = Sites(path=str(tmp_path), scaling="client").federation(0)
    ages = [federation.train.client(i)[0][:, 0] for i in range(3)]
    np.testing.assert_allclose([a.mean() for a in ages], np.array([-1, 0, 1]) * np.sqrt(1.5), atol=1e-6)
    assert all(a.std() == 0 for a in ages)
    assert [abs(float(federation.train.client(i)[0][:, 1].mean())) < 1e-6 for i in range(3)] == [True] * 3


# what is carried along


def test_a_federation_says_what_the_check_warns_of(tmp_path):
    folder = sites(tmp_path, a__csv=GOOD, b__csv=GOOD, c__csv="age,color,label\n3,red,1\n", notes__txt="hello")
    warnings = [str(p) for p in check_sites(folder).problems]
    assert len(warnings) == 2
    federation = Sites(path=str(folder)).federation(0)
    assert list(federation.doubts) == warnings
    assert federation.warnings[2] == "1 of 3 clients have too few samples to set some aside for test: 'c'"
    assert federation.with_validation(0.2, 0).with_new_clients(1, 0).doubts == federation.doubts
    assert Federation.load(federation.save(tmp_path / "saved")).warnings == federation.warnings


@pytest.mark.skipif(not HEART.is_dir(), reason=f"{HEART} is not there")
def test_real_hospitals_are_split_by_label_and_get_their_hint():
    federation = Sites(path=str(HEART), label="disease").federation(0)
    sick = [federation.test.client(i)[1] for i in range(4)]
    assert [(len(y), int((y == 0).sum())) for y in sick] == [(61, 33), (59, 38), (25, 2), (40, 10)]
    assert "'cp', 'restecg', 'slope', 'ca', 'thal'" in federation.warnings[0]


@pytest.mark.skipif(not PATIENTS.is_dir(), reason=f"{PATIENTS} is not there")
def test_the_age_of_a_real_patient_is_not_scaled_away():
    federation = Sites(path=str(PATIENTS), label="motor_UPDRS").federation(0)
    age = federation.columns.features.index("age")
    assert len({float(federation.train.client(i)[0][0, age]) for i in range(42)}) > 20
