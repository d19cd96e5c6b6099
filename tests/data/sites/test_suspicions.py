"""What ``data check`` warns of in tables that can be used: identifiers, leaks, copies, units."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.metrics import roc_auc_score

from manyheads.data.sites.leaks import correlation, separation
from manyheads.data.sites.source import Sites, check_sites

SHARED = Path(__file__).parents[4] / "shared" / "data"


def write(folder, **sites):
    """One CSV per site, of columns by name."""
    for name, columns in sites.items():
        lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
        (folder / f"{name}.csv").write_text("\n".join(lines))
    return folder


def patients(seed: int, rows: int = 60) -> dict:
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(30, 90, rows),
        "dose": rng.normal(5, 1, rows).round(3),
        "ward": rng.choice(["A", "B", "C"], rows),
        "label": rng.integers(0, 2, rows),
    }


def told(survey, words: str) -> list:
    assert not survey.errors
    return [p for p in survey.problems if words in p.message]


def test_nothing_is_said_of_plain_tables(tmp_path):
    survey = check_sites(write(tmp_path, a=patients(0), b=patients(1), c=patients(2, 25)))
    assert survey.problems == ()


# identifiers


@pytest.mark.parametrize(
    "values",
    [
        lambda rng, rows, site: np.arange(rows),
        lambda rng, rows, site: 5000 + rng.permutation(rows) + 1000 * site,
        lambda rng, rows, site: np.sort(rng.choice(10**7, rows, replace=False)),
        lambda rng, rows, site: [f"P{site}-{i}" for i in rng.permutation(rows)],
    ],
    ids=["row numbers", "shuffled", "rising", "text"],
)
def test_identifiers_are_told(tmp_path, values):
    sites = {
        name: {"who": values(np.random.default_rng(site), 60, site), **patients(site)} for site, name in enumerate("ab")
    }
    (doubt,) = told(check_sites(write(tmp_path, **sites)), "identifier?")
    assert doubt.column == "who"
    assert doubt.fix.endswith("--data.ignore who")


def test_a_number_that_is_named_as_an_identifier_is_one_if_all_are_different(tmp_path):
    rng = np.random.default_rng(0)
    random = {name: rng.choice(10**9, 60, replace=False) for name in ("patient_id", "platelets")}
    sites = {name: random | patients(site) for site, name in enumerate("ab")}
    assert [p.column for p in told(check_sites(write(tmp_path, **sites)), "identifier?")] == ["patient_id"]


def test_quantities_are_no_identifiers(tmp_path):
    rng = np.random.default_rng(0)
    sites = {
        name: {"platelets": rng.integers(150_000, 400_000, 60), "measured": rng.normal(size=60), **patients(site)}
        for site, name in enumerate("ab")
    }
    assert not told(check_sites(write(tmp_path, **sites)), "identifier?")


# leaks


def test_the_separation_of_two_classes_is_the_auc_of_scikit_learn():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 80)
    x = np.stack([y + rng.normal(size=80), rng.integers(0, 3, 80), 5 - 2 * y + rng.normal(size=80)], axis=1)
    expected = [abs(2 * roc_auc_score(y, column) - 1) for column in x.T]
    np.testing.assert_allclose(separation(x, y), expected, rtol=1e-12)


def test_classes_with_ranges_of_their_own_are_separated_in_any_order():
    y = np.repeat([0, 1, 2], [5, 11, 20])
    x = np.stack([np.array([7.0, 1, 3])[y], np.arange(36), np.array([1.0, 1, 2])[y]], axis=1)
    found = separation(x, y)
    np.testing.assert_allclose(found[:2], 1)
    assert found[2] < 0.98


def test_correlations_are_those_of_numpy_over_known_rows():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    x[:, 1] += 2 * y
    x[::3, 1] = np.nan
    known = ~np.isnan(x[:, 1])
    expected = [np.corrcoef(x[:, 0], y)[0, 1], np.corrcoef(x[known, 1], y[known])[0, 1]]
    np.testing.assert_allclose(correlation(x, y)[:2], expected, rtol=1e-12)


@pytest.mark.parametrize(
    "leak",
    [
        lambda y, rng: y + rng.normal(0, 0.01, len(y)),
        lambda y, rng: np.where(y == 1, "died", rng.choice(["home", "rehab"], len(y))),
        lambda y, rng: np.where(y == 1, rng.normal(0, 1, len(y)).round(2).astype(str), ""),  # measured in the ill alone
    ],
    ids=["number", "category", "missing"],
)
def test_a_feature_that_tells_the_label_is_told(tmp_path, leak):
    rng = np.random.default_rng(0)
    sites = {name: patients(site) for site, name in enumerate("abc")}
    for site in sites.values():
        site["after"] = leak(site["label"], rng)
    (doubt,) = told(check_sites(write(tmp_path, **sites)), "tells the label")
    assert doubt.column == "after"
    sites["c"]["after"] = sites["c"]["after"][rng.permutation(60)]  # not so at one of the sites
    assert not told(check_sites(write(tmp_path, **sites)), "tells the label")


def test_a_feature_that_tells_the_target_is_told(tmp_path):
    sites = {name: patients(site) for site, name in enumerate("ab")}
    for site in sites.values():
        site["label"] = site["dose"] * 3 + site["age"] / 7
        site["double"] = ["", *(2 * site["label"] + 1)[1:]]
        site["near"] = site["label"] + np.random.default_rng(0).normal(0, 1, 60)
    assert [p.column for p in told(check_sites(write(tmp_path, **sites)), "tells the label")] == ["double"]


def test_a_feature_that_tells_time_or_event_of_survival_is_told(tmp_path):
    sites = {name: patients(site) for site, name in enumerate("ab")}
    for site in sites.values():
        event = site.pop("label")
        site |= {"days": site["dose"] * 100 + site["age"], "event": event}
        site |= {"weeks": site["days"] / 7, "cause": np.where(event == 1, "tumour", "")}
    survey = check_sites(write(tmp_path, **sites), label="days,event")
    assert survey.task == "survival"
    assert [p.column for p in told(survey, "tells the label")] == ["weeks", "cause"]
    twice = {name: [*column, *column[:2]] for name, column in sites["a"].items()}
    (copies,) = told(check_sites(write(tmp_path, a=twice, b=sites["b"]), label="days,event"), "repeat others")
    assert "2 of 62" in copies.message


def test_few_samples_tell_no_leak(tmp_path):
    few = {name: {"v": [1, 2, 3, 4, 8, 9], "label": [0, 0, 0, 1, 1, 1]} for name in "abc"}
    assert not told(check_sites(write(tmp_path, **few)), "tells the label")


# copies


def test_copies_of_rows_within_a_site_and_between_sites(tmp_path):
    a, b = patients(0), patients(1)
    twice = {name: [*column, *column[:3]] for name, column in a.items()}
    shared = {name: [*column, *a[name][5:9]] for name, column in b.items()}
    survey = check_sites(write(tmp_path, a=twice, b=shared, c=patients(2)))
    (within,) = told(survey, "repeat others")
    assert within.file.endswith("a.csv")
    assert "3 of 63" in within.message
    (between,) = told(survey, "several sites")
    assert between.message == "rows that several sites have: 4, at 'a', 'b'"
    assert list(Sites(path=str(tmp_path)).federation(0).doubts) == [str(p) for p in survey.problems]


def test_rows_of_few_possible_values_are_no_copies(tmp_path):
    rng = np.random.default_rng(0)
    sites = {n: {c: rng.integers(0, 2, 200) for c in ("u", "v", "w", "label")} for n in "ab"}
    survey = check_sites(write(tmp_path, **sites))
    assert not told(survey, "repeat others") + told(survey, "several sites")


def test_a_copy_of_a_column_is_told(tmp_path):
    sites = {name: patients(site) for site, name in enumerate("ab")}
    for site in sites.values():
        site |= {"years": site["age"], "unit": site["ward"], "near": [*site["dose"][:-1], 9]}
    doubts = told(check_sites(write(tmp_path, **sites)), "the same values as in column")
    assert [(p.column, p.message.rpartition(" ")[2]) for p in doubts] == [("years", "'age'"), ("unit", "'ward'")]


# units


def test_another_unit_at_one_site_is_told(tmp_path):
    sites = {name: patients(site) | {"height": 160 + patients(site)["age"] / 4} for site, name in enumerate("abc")}
    assert not check_sites(write(tmp_path, **sites)).problems
    sites["b"]["height"] = sites["b"]["height"] / 100
    (doubt,) = told(check_sites(write(tmp_path, **sites)), "the median is")
    assert doubt.column == "height"
    assert "1.75 at 'b'" in doubt.message or "1.74 at 'b'" in doubt.message or "1.76 at 'b'" in doubt.message


# real tables give no false alarm


@pytest.mark.parametrize("load", [load_wine, load_diabetes, load_breast_cancer])
def test_real_tables_are_not_suspected(tmp_path, load):
    bunch = load()
    rows = np.array_split(np.random.default_rng(0).permutation(len(bunch.target)), 4)
    names = [name.replace(",", "") for name in bunch.feature_names]
    sites = {
        f"s{i}": dict(zip(names, bunch.data[own].T, strict=True)) | {"label": bunch.target[own]}
        for i, own in enumerate(rows)
    }
    survey = check_sites(write(tmp_path, **sites))
    for words in ("identifier?", "tells the label", "repeat others", "several sites", "the same values", "the median"):
        assert not told(survey, words)


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is not there")
def test_real_sites_are_suspected_of_what_is_true():
    heart = check_sites(SHARED / "heart" / "sites", label="disease")
    assert [Path(p.file).stem for p in told(heart, "repeat others")] == [
        "hungarian",
        "va",
    ]  # one row each, known of UCI
    for words in ("identifier?", "tells the label", "several sites", "the same values", "the median"):
        assert not told(heart, words)
    assert check_sites(SHARED / "parkinsons" / "sites", label="motor_UPDRS").problems == ()
