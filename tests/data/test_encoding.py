"""What was learnt about the data, kept with it: later samples are encoded as the federation's own were."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import openpyxl
import pytest

from manyheads.core.errors import UserError
from manyheads.core.settings import as_dict, build
from manyheads.core.tasks import task_named
from manyheads.data import Classes, Digits, Encoding, Federation, Pool, federate
from manyheads.data.division import set_aside
from manyheads.data.encoding import Scaling
from manyheads.data.partitions.recipes import ClassSplit
from manyheads.data.samples import Samples
from manyheads.data.sites.columns import Columns
from manyheads.data.sites.moments import Moments
from manyheads.data.sites.new_site import new_site, read_new_site
from manyheads.data.sites.source import Sites

NAMES = ("age", "dose", "ward", "same", "outcome")


def rows_of(seed: int, rows: int = 40) -> list[dict[str, str]]:
    """A site's table: numbers and categories with gaps, a column that never varies, a label in words."""
    rng = np.random.default_rng(seed)
    return [
        {
            "age": "" if rng.random() < 0.15 else f"{rng.normal(50 + seed, 9):.3f}",
            "dose": f"{rng.normal():.4f}",
            "ward": str(rng.choice(["A", "B", "C", ""])),
            "same": "k",
            "outcome": str(rng.choice(["ill", "well"])),
        }
        for _ in range(rows)
    ]


def write(path, rows, columns=NAMES):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sites").mkdir()
    for seed in range(3):
        write(tmp_path / "sites" / f"s{seed}.csv", rows_of(seed, 30 + 5 * seed))
    return tmp_path / "sites"


def through_json(encoding: Encoding) -> Encoding:
    return build(Encoding, json.loads(json.dumps(as_dict(encoding))), where="test")


@pytest.mark.parametrize("label", ["outcome", "dose"])
@pytest.mark.parametrize("scaling", ["client", "federated", "none"])
def test_a_site_read_later_becomes_what_the_federation_made_of_it(folder, scaling, label):
    federation = Sites(path=str(folder), label=label, scaling=scaling).federation(4)
    encoding = through_json(federation.encoding)
    everyone = [read_new_site(folder / f"s{client}.csv", encoding) for client in range(3)]
    assert [len(site) for site in everyone] == [30, 35, 40]
    rows = Samples.of([(np.arange(len(site)), site.y) for site in everyone])
    aside = set_aside(rows, 0.2, 4, strata=task_named(federation.task).strata)
    parts = rows.where(~aside), rows.where(aside)
    for client, site in enumerate(everyone):
        train, test = (p.client(client)[0] for p in parts)
        x = encoding.of_site(site.samples, train).inputs(site.samples)
        for split, own in ((federation.train, train), (federation.test, test)):
            assert np.array_equal(split.client(client)[0], x[own])
            assert np.array_equal(split.client(client)[1], site.y[own])


def test_the_order_of_columns_and_columns_that_were_dropped_do_not_matter(folder, tmp_path):
    encoding = Sites(path=str(folder), label="outcome").federation(0).encoding
    rows = rows_of(7)
    plain = read_new_site(write(tmp_path / "a.csv", rows), encoding)
    other = read_new_site(write(tmp_path / "b.csv", rows, ("outcome", "ward", "dose", "age")), encoding)
    assert encoding.columns.dropped == ("same",)
    assert plain.warnings == other.warnings == ()
    assert np.array_equal(encoding.inputs(plain.samples), encoding.inputs(other.samples))
    assert np.array_equal(plain.y, other.y)


def test_a_category_never_seen_is_encoded_like_a_missing_one_and_told(folder, tmp_path):
    encoding = Sites(path=str(folder), label="outcome").federation(0).encoding
    rows = rows_of(7, 5)
    pair = []
    for value in ("", "Z"):
        changed = [{**row, "ward": value if i == 2 else row["ward"]} for i, row in enumerate(rows)]
        pair.append(read_new_site(write(tmp_path / "new.csv", changed), encoding))
    missing, unknown = pair
    assert np.array_equal(encoding.inputs(missing.samples), encoding.inputs(unknown.samples))
    assert encoding.columns.features[2:5] == ("ward=A", "ward=B", "ward=C")
    assert encoding.inputs(unknown.samples)[2, 2:5].tolist() == [0, 0, 0]
    assert missing.warnings == ()
    assert "'ward'" in unknown.warnings[0]
    assert "'Z'" in unknown.warnings[0]


def test_a_site_without_any_value_of_a_column_takes_the_mean_of_all(folder, tmp_path):
    encoding = Sites(path=str(folder), label="outcome").federation(0).encoding
    site = read_new_site(write(tmp_path / "new.csv", [{**r, "age": ""} for r in rows_of(7)]), encoding)
    own = encoding.of_site(site.samples, np.arange(10))
    assert own.columns.mean[0] == encoding.columns.mean[0]
    assert own.columns.mean[1] == pytest.approx(site.samples["dose"][:10].mean())
    assert (own.inputs(site.samples)[:, 0] == 0).all()


def test_the_column_that_names_the_client_is_left_out_of_a_later_table(folder, tmp_path):
    whole = [{**row, "client": f"s{seed}"} for seed in range(3) for row in rows_of(seed)]
    table = write(tmp_path / "all.csv", whole, (*NAMES, "client"))
    encoding = Sites(path=str(table), label="outcome").federation(0).encoding
    later = write(tmp_path / "new.csv", [{**row, "client": "s9"} for row in rows_of(9)], (*NAMES, "client"))
    assert read_new_site(later, encoding).warnings == ()


def as_people_have_them(folder, seed: int, rows: int = 40):
    """A workbook with dates, booleans, codes of missing values and percents, on its second sheet."""
    rng = np.random.default_rng(seed)
    book = openpyxl.Workbook()
    book.active.append(["exported on Monday"])
    sheet = book.create_sheet("Data")
    sheet.append(["seen", "smokes", "chol", "share", "outcome"])
    for i in range(rows):
        seen = datetime(2020, 1, 1) + timedelta(days=int(rng.integers(500)))
        smokes = "?" if i % 9 == 0 else str(rng.choice(["yes", "no"]))
        chol = 0 if rng.random() < 0.2 else int(rng.integers(100, 300))
        share = f"{rng.integers(100)}%"
        sheet.append([seen, smokes, chol, share, str(rng.choice(["ill", "well"]))])
    book.save(folder / f"s{seed}.xlsx")
    return folder / f"s{seed}.xlsx"


def test_a_workbook_read_later_becomes_what_the_federation_made_of_it(tmp_path):
    (tmp_path / "sites").mkdir()
    files = [as_people_have_them(tmp_path / "sites", seed) for seed in range(2)]
    settings = {"label": "outcome", "sheet": "Data", "missing_codes": ("chol=0",)}
    federation = Sites(path=str(tmp_path / "sites"), **settings).federation(4)
    names = ("seen", "smokes", "chol", "share")
    assert federation.columns.features == (*names, "smokes missing", "chol missing")
    encoding = through_json(federation.encoding)
    for client, file in enumerate(files):
        site = read_new_site(file, encoding)
        assert any("'share'" in w and "percent" in w for w in site.warnings)
        train, test = (part.rows[part.span(client)] for part in (federation.train, federation.test))
        x = encoding.of_site(site.samples, train).inputs(site.samples)
        assert np.array_equal(federation.train.client(client)[0], x[train])
        assert np.array_equal(federation.test.client(client)[0], x[test])
    later = tmp_path / "new.csv"
    later.write_text("seen,smokes,chol,share\n2020-02-01,yes,0,50%\n2020-02-02 12:00,1,200,60%\n")
    samples = read_new_site(later, encoding, labelled=False).samples
    assert samples["seen"].tolist() == [18293, 18294.5]
    assert samples["smokes"].tolist() == [1, 1]
    np.testing.assert_array_equal(samples["chol"], [np.nan, 200])
    later.write_text("seen,smokes,chol,share\n2020-02-01,often,0,50%\n")
    with pytest.raises(UserError, match="row 1, column 'smokes': neither true nor false: 'often'"):
        read_new_site(later, encoding, labelled=False)


@pytest.mark.parametrize(("sites", "read"), [(["31/12/2020"], "day first"), (["12/31/2020"], "month first")])
def test_dates_that_can_be_read_in_two_ways_are_read_as_at_the_sites_of_the_run(tmp_path, sites, read):
    (tmp_path / "sites").mkdir()
    for name in "ab":
        rows = "".join(f"{['01/02/2021', *sites][i % 2]},{i % 5},{i // 2 % 2}\n" for i in range(20))
        (tmp_path / "sites" / f"{name}.csv").write_text(f"seen,v,label\n{rows}")
    encoding = through_json(Sites(path=str(tmp_path / "sites")).federation(0).encoding)
    (tmp_path / "new.csv").write_text("seen,v\n03/04/2021,1\n")
    site = read_new_site(tmp_path / "new.csv", encoding, labelled=False)
    month, day = (4, 3) if read == "day first" else (3, 4)
    assert site.samples["seen"] == (datetime(2021, month, day) - datetime(1970, 1, 1)).days
    (warning,) = site.warnings
    assert "'03/04/2021'" in warning
    assert f"read as {read}" in warning
    unknown = replace(encoding, columns=replace(encoding.columns, dates={"seen": ""}))
    with pytest.raises(UserError, match=r"cannot be told apart.*write them as 2021-04-03"):
        read_new_site(tmp_path / "new.csv", unknown, labelled=False)


def change(at: int, column: str, value: str):
    return lambda rows: [{**row, **({column: value} if i == at else {})} for i, row in enumerate(rows)]


BROKEN = [
    (change(3, "age", "old"), NAMES, ["row 4", "'age'", "text in a column of numbers: 'old'"]),
    (change(3, "age", "inf"), NAMES, ["row 4", "'age'", "infinite"]),
    (change(3, "outcome", ""), NAMES, ["row 4", "'outcome'", "a missing label"]),
    (change(3, "outcome", "dead"), NAMES, ["row 4", "'outcome'", "'dead'", "'ill', 'well'"]),
    (lambda rows: rows, ("dose", "ward", "outcome"), ["lacks", "'age'"]),
    (lambda rows: rows, ("age", "dose", "ward"), ["has no labels", "'outcome'"]),
    (lambda rows: [], NAMES, ["has no rows"]),
]


@pytest.mark.parametrize(("change", "columns", "words"), BROKEN)
def test_a_broken_table_is_one_line_with_its_place(folder, tmp_path, change, columns, words):
    encoding = Sites(path=str(folder), label="outcome").federation(0).encoding
    path = write(tmp_path / "new.csv", change(rows_of(5)), columns)
    with pytest.raises(UserError) as raised:
        read_new_site(path, encoding)
    assert all(word in str(raised.value) for word in [*words, str(path)]), raised.value


def test_labels_may_be_missing_or_wrong_where_they_are_not_needed(folder, tmp_path):
    encoding = Sites(path=str(folder), label="outcome").federation(0).encoding
    bare = read_new_site(write(tmp_path / "a.csv", rows_of(5), ("age", "dose", "ward")), encoding, labelled=False)
    assert bare.y is None
    assert bare.warnings == ()
    odd = write(tmp_path / "b.csv", change(3, "outcome", "dead")(rows_of(5)))
    assert "not compared" in read_new_site(odd, encoding, labelled=False).warnings[0]


def test_a_run_that_takes_no_missing_values_takes_none_later(tmp_path):
    (tmp_path / "sites").mkdir()
    full = [{**row, "age": row["age"] or "40", "ward": row["ward"] or "A"} for row in rows_of(1)]
    write(tmp_path / "sites" / "a.csv", full)
    encoding = Sites(path=str(tmp_path / "sites"), label="outcome", missing="error").federation(0).encoding
    with pytest.raises(UserError, match=r"row 3, column 'ward': a missing value"):
        read_new_site(write(tmp_path / "new.csv", change(2, "ward", "")(full)), encoding)


def test_the_encoding_survives_saving_and_dividing(folder, tmp_path):
    federation = Sites(path=str(folder), label="outcome").federation(0)
    divided = federation.with_new_clients(1, 0).with_validation(0.2, 0)
    for one in (divided.new, Federation.load(divided.save(tmp_path / "saved")).new):
        assert one.encoding == divided.encoding
    assert federation.encoding.labels == ("ill", "well")


def test_moments_of_parts_are_those_of_the_whole():
    rng = np.random.default_rng(0)
    x = rng.normal(1e9, 1, size=(50, 3))
    x[rng.random(x.shape) < 0.2] = np.nan
    merged = Moments.merged([Moments.of(part) for part in np.split(x, [7, 20])])
    np.testing.assert_allclose(merged.mean, np.nanmean(x, axis=0))
    np.testing.assert_allclose(merged.deviation, np.nanstd(x, axis=0), rtol=1e-6)
    assert np.array_equal(merged.high, np.nanmax(x, axis=0))


IMAGES = Encoding(task="classification", outputs=3, shape=(1, 4, 4), dtype="uint8", label_names=("cat", "dog", "emu"),
                  pixels=Scaling((0.5,), (0.5,)))  # fmt: skip


@pytest.mark.parametrize("shape", [(1, 4, 4), (16,), (4, 4)])
def test_images_may_be_flat_or_without_their_channel(tmp_path, shape):
    x = np.random.default_rng(0).integers(0, 256, (5, *shape))
    np.savez(tmp_path / "new.npz", x=x.astype(np.float64), y=np.array(["dog", "cat", "emu", "dog", "dog"]))
    site = read_new_site(tmp_path / "new.npz", IMAGES)
    assert site.samples.dtype == np.uint8
    assert np.array_equal(site.samples, x.reshape(5, 1, 4, 4))
    assert site.y.tolist() == [1, 0, 2, 1, 1]


def test_labels_are_names_or_numbers(tmp_path):
    x = np.zeros((3, 16), np.uint8)
    assert new_site(x, np.array([2, 0, 1]), IMAGES).y.tolist() == [2, 0, 1]
    assert new_site(x, np.array(["emu", "cat", "dog"]), IMAGES).y.tolist() == [2, 0, 1]
    with pytest.raises(UserError, match=r"row 2.*'3'.*'cat', 'dog', 'emu'"):
        new_site(x, np.array([0, 3, 1]), IMAGES)


VECTORS = Encoding(task="classification", outputs=10, shape=(3,))
CODES = Encoding(task="classification", outputs=2, shape=(4,), dtype="int64")
TARGETS = Encoding(task="regression", outputs=1, shape=(2,), columns=None)


def test_a_table_with_a_column_for_each_input(tmp_path):
    (tmp_path / "new.csv").write_text("u,label,v,w\n1,7,2,3\n4,8,5,6\n")
    site = read_new_site(tmp_path / "new.csv", VECTORS)
    assert site.samples.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert site.y.tolist() == [7, 8]
    (tmp_path / "new.csv").write_text("u,v,w\n1,2,3\n")
    assert read_new_site(tmp_path / "new.csv", VECTORS, labelled=False).y is None
    with pytest.raises(UserError, match="no label column"):
        read_new_site(tmp_path / "new.csv", VECTORS)


ODD_ARRAYS = [
    (VECTORS, np.zeros((2, 4)), "wrong number of inputs per sample; given 4; allowed: 3"),
    (VECTORS, np.array([[1, 2, 3], [1, np.nan, 3]]), "row 2: a missing or infinite value"),
    (IMAGES, np.zeros((2, 4, 4, 1)), r"wrong shape of a sample; given \(4, 4, 1\)"),
    (IMAGES, np.full((2, 16), 0.5), "row 1: a pixel that is not a whole number from 0 to 255 .and 1 more"),
    (CODES, np.array([[1, 2, 3, 0], [1, -2, 3, 0]]), "row 2: a token"),
    (VECTORS, np.array([["a", "b", "c"]]), "not numbers"),
    (VECTORS, np.zeros((0, 3)), "has no rows"),
]


@pytest.mark.parametrize(("encoding", "x", "words"), ODD_ARRAYS)
def test_arrays_that_do_not_fit_are_refused(tmp_path, encoding, x, words):
    np.savez(tmp_path / "new.npz", x=x, y=np.zeros(len(x), int))
    with pytest.raises(UserError, match=words):
        read_new_site(tmp_path / "new.npz", encoding)


def test_targets_are_scaled_and_back():
    columns = Columns(label="y", numbers=("a",), mean=(0.0,), deviation=(1.0,), target=(10.0, 4.0))
    encoding = Encoding(task="regression", outputs=1, shape=(1,), columns=columns)
    assert encoding.scaled(np.array([10.0, 18.0])).tolist() == [0, 2]
    assert encoding.unscaled(np.array([0, 2], np.float32)).tolist() == [10, 18]
    x = np.zeros((3, 2))
    with pytest.raises(UserError, match="row 2.*missing or infinite label"):
        new_site(x, np.array([1.0, np.nan, 2.0]), TARGETS)
    with pytest.raises(UserError, match="not a number: 'tall'"):
        new_site(x, np.array(["1", "2", "tall"]), TARGETS)
    assert new_site(x, np.array([1.5, 2.5, 3.0]), TARGETS).y.tolist() == [1.5, 2.5, 3.0]


def test_label_names_follow_the_pool_into_every_federation():
    digits = Digits().pool(0)
    names = tuple("abcdefghij")
    pool = Pool("letters", digits.x, digits.y, digits.x_test, digits.y_test, 10, label_names=names)
    assert federate(pool, Classes(3), clients=5, seed=0).encoding.labels == names
    split = ClassSplit(per_client=2, samples=20, train_classes=8, new_clients=1, new_samples=20)
    federation = federate(pool, split, clients=4, seed=0)
    assert federation.new.label_names == names
    assert federate(pool, split, clients=4, seed=0, new_pool=digits).new.label_names == ()
    assert federate(digits, Classes(3), clients=5, seed=0).encoding.labels == tuple("0123456789")
    with pytest.raises(UserError, match="another number of classes"):
        federate(Pool("short", digits.x, digits.y, digits.x_test, digits.y_test, 10, label_names=("a",)), Classes(3),
                 clients=5, seed=0)  # fmt: skip
