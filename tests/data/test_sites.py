"""The user's own tables: what they become, and what is said of broken ones."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyheads.core.errors import UserError
from manyheads.data.hub import CHECKSUMS, DATASETS, fetch, is_there
from manyheads.data.sites import Sites, check_sites
from manyheads.data.sources import SOURCES, source_of
from manyheads.data.tables import read_table

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
    made = Sites(path=str(sites(tmp_path, a__csv=text, b__csv=text))).prepare(0)
    assert made.features == ("size", "color=blue", "color=red")
    assert made.labels == ("no", "yes")
    assert made.federation.outputs == 2
    assert (made.federation.train.x[:, 1:].sum(axis=1) == 1).all()


def test_labels_that_are_numbers_are_in_their_order(tmp_path):
    text = "a,label\n" + "".join(f"{i},{(2, 10, 9)[i % 3]}\n" for i in range(9))
    assert Sites(path=str(sites(tmp_path, a__csv=text))).prepare(0).labels == ("2", "9", "10")


def test_a_category_seen_only_in_test_rows_is_all_zeros(tmp_path):
    rng = np.random.default_rng(0)
    for seed in range(20):
        names = ["u", "v"] * 10
        names[7] = "rare"
        rows = "\n".join(f"{v},{c},{k}" for v, c, k in zip(rng.normal(size=20), names, [0, 1] * 10, strict=True))
        made = Sites(path=str(sites(tmp_path, a__csv=f"a,c,label\n{rows}"))).prepare(seed)
        if "c=rare" not in made.features:
            assert sorted(made.federation.test.x[:, 1:].sum(axis=1))[:2] == [0, 1]
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
    made = Sites(path=str(folder)).prepare(0)
    assert made.features == ("a",)
    assert made.dropped == ("same", "word")


def test_a_regression_is_told_from_its_numbers(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", x=rng.normal(size=(20, 2)), y=rng.normal(100, 5, 20))
    made = Sites(path=str(tmp_path)).prepare(0)
    assert made.federation.task == "regression"
    assert made.target[0] == pytest.approx(100, abs=5)
    assert abs(made.federation.train.y.mean()) < 1e-5
    raw = Sites(path=str(tmp_path), scale_target=False).federation(0)
    np.testing.assert_allclose(made.federation.test.y * made.target[1] + made.target[0], raw.test.y, rtol=1e-5)
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
    ({"b__csv": "age,color,label\n"}, "b.csv", None, None, "has no rows", "take the file away"),
    ({"b__csv": ""}, "b.csv", None, None, "has no rows", "take the file away"),
    ({"b__parquet": b"garbage, not parquet"}, "b.parquet", None, None, "cannot be read", "anew"),
    ({"b__npz": b"garbage"}, "b.npz", None, None, "is no NPZ file", "np.savez"),
    ({"b__csv": GOOD.replace("4,red,0", "4,red,0,9")}, "b.csv", 5, None, "4 values where the header has 3", "complete"),
    ({"b__csv": GOOD.encode().replace(b"4,red", b"4,r\xe9d")}, "b.csv", 5, None, "UTF-8", "save it"),
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
    assert check_sites(tmp_path / "none").errors[0].message == "is not there"
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
    columns = {"when": pa.array([1, 2], pa.timestamp("s")), "a": [1.0, 2.0], "label": [0, 1]}
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
    with pytest.raises(UserError, match="unknown data"):
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
    from manyheads.data.readers.idx import read_idx

    fetch("mnist", tmp_path, lambda hub, split: Rows({"label": i, "image": np.full((4, 4), i)} for i in range(3)))
    images = read_idx(tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz", dimensions=3)
    assert images[:, 0, 0].tolist() == [0, 1, 2]


def test_every_public_dataset_is_a_source():
    assert DATASETS.keys() <= SOURCES.keys()
