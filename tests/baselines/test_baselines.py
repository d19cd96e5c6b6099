"""Baselines agree with plain scikit-learn, and work on whatever a small site holds."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from survivors import TRUE, subjects

from manyheads import Federation
from manyheads.baselines import BASELINES, Linear, Majority, Trees, flat_inputs
from manyheads.baselines.cox import fit_cox
from manyheads.baselines.linear import PENALTIES
from manyheads.baselines.tuning import inner_folds
from manyheads.data import Samples, Scaling

TUNED = [Linear, Trees]


@pytest.fixture(autouse=True)
def no_warning_escapes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def two_classes(n: int = 120, seed: int = 0, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5)).astype(np.float32)
    return x, (x[:, 0] - x[:, 1] + noise * rng.normal(size=n) > 0).astype(np.int64)


def log_loss(out: np.ndarray, y: np.ndarray) -> float:
    return float(-out[np.arange(len(y)), y].mean())


def test_majority_gives_the_shares_of_the_labels_or_the_mean():
    predict = Majority().fit(np.zeros((5, 2)), np.array([2, 2, 0, 2, 1]), "classification", 3, seed=0)
    np.testing.assert_allclose(np.exp(predict(np.ones((2, 2)))), [[0.2, 0.2, 0.6]] * 2)
    targets = np.array([[1.0, 10.0], [3.0, 20.0]])
    mean = Majority().fit(np.zeros((2, 1)), targets, "regression", 2, seed=0)
    np.testing.assert_allclose(mean(np.zeros((1, 1))), [[2.0, 15.0]])


def test_linear_is_scikit_learns_logistic_regression_with_a_penalty_chosen_by_a_grid_search():
    x, y = two_classes()
    predict = Linear().fit(x, y, "classification", 2, seed=0)
    candidates = [
        make_pipeline(StandardScaler(), LogisticRegression(C=1 / p, max_iter=500)).fit(x.astype(float), y)
        for p in PENALTIES
    ]
    gaps = [np.abs(np.exp(predict(x)) - model.predict_proba(x.astype(float))).max() for model in candidates]
    assert min(gaps) < 1e-5
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        {"logisticregression__C": (1 / PENALTIES).tolist()},
        scoring="neg_log_loss",
        cv=StratifiedKFold(5),
    ).fit(x.astype(float), y)
    new_x, new_y = two_classes(2000, seed=1)
    theirs = log_loss(np.log(search.predict_proba(new_x.astype(float))), new_y)
    assert log_loss(predict(new_x), new_y) == pytest.approx(theirs, abs=0.01)


def test_linear_is_ridge_regression_also_with_more_features_than_samples():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 50))
    y = x[:, :3] @ np.array([[1.0, 0.0], [0.5, 1.0], [0.0, 2.0]])
    new = rng.normal(size=(30, 50))
    predict = Linear().fit(x, y, "regression", 2, seed=0)
    plain = [make_pipeline(StandardScaler(), Ridge(alpha=p)).fit(x, y).predict(new) for p in PENALTIES]
    assert predict(new).shape == (30, 2)
    assert min(np.abs(predict(new) - out).max() for out in plain) < 1e-8


def test_more_features_than_samples_change_nothing_for_logistic_regression(monkeypatch):
    monkeypatch.setattr("manyheads.baselines.linear.PENALTIES", np.array([10.0]))  # both solvers converge with it
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 50)), np.arange(20) % 3
    x[:, 0] += 2 * y
    new = rng.normal(size=(30, 50))
    predict = Linear().fit(x, y, "classification", 3, seed=0)
    plain = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, tol=1e-8, max_iter=5000)).fit(x, y)
    np.testing.assert_allclose(np.exp(predict(new)), plain.predict_proba(new), atol=1e-3)


def test_linear_is_cox_regression_for_survival():
    x, y = subjects(np.random.default_rng(0), 300)
    new, _ = subjects(np.random.default_rng(1), 300)
    risk = Linear().fit(x, y, "survival", 1, seed=0)(new)
    plain = [
        StandardScaler().fit(x).transform(new) @ fit_cox(StandardScaler().fit_transform(x), y, p) for p in PENALTIES
    ]
    assert min(np.abs(risk[:, 0] - one).max() for one in plain) < 1e-8
    assert np.corrcoef(risk[:, 0], new @ TRUE)[0, 1] > 0.95
    assert not Majority().fit(x, y, "survival", 1, seed=0)(new).any()


def test_trees_find_what_no_linear_model_can():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(400, 4)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
    trees, linear = (kind().fit(x[:300], y[:300], "classification", 2, 0)(x[300:]) for kind in (Trees, Linear))
    assert (trees.argmax(1) == y[300:]).mean() > 0.9
    assert (linear.argmax(1) == y[300:]).mean() < 0.65


def test_trees_are_as_good_as_untuned_boosting_of_scikit_learn():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(600, 6))
    y = np.sin(2 * x[:, 0]) + (x[:, 1] > 0.5) + 0.1 * rng.normal(size=600)
    ours = Trees().fit(x[:200], y[:200], "regression", 1, 0)(x[200:])[:, 0]
    theirs = HistGradientBoostingRegressor(random_state=0).fit(x[:200], y[:200]).predict(x[200:])
    assert np.square(ours - y[200:]).mean() < 1.02 * np.square(theirs - y[200:]).mean()


@pytest.mark.parametrize("kind", TUNED)
def test_digits_with_few_samples_and_all_classes(kind):
    x, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))
    out = kind().fit(x[rows[:100]], y[rows[:100]], "classification", 10, seed=0)(x[rows[100:]])
    assert (out.argmax(1) == y[rows[100:]]).mean() > 0.78
    np.testing.assert_allclose(np.exp(out).sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("kind", TUNED)
def test_noise_is_not_taken_for_signal(kind):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(100, 20)), rng.integers(0, 2, 100)
    new_x, new_y = rng.normal(size=(2000, 20)), rng.integers(0, 2, 2000)
    assert log_loss(kind().fit(x, y, "classification", 2, 0)(new_x), new_y) < np.log(2) + 0.05


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("rows", [1, 2, 3, 8])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_handful_of_rows(name, rows, task):
    rng = np.random.default_rng(rows)
    x, y = rng.normal(size=(rows, 4)).astype(np.float32), np.arange(rows) % 3
    outputs = 5 if task == "classification" else 1
    out = BASELINES[name]().fit(x, y if outputs == 5 else y + 0.5, task, outputs, seed=0)(rng.normal(size=(6, 4)))
    assert out.shape == (6, outputs)
    assert np.isfinite(out).all()


@pytest.mark.parametrize("name", BASELINES)
def test_a_single_class_and_classes_never_seen_have_a_finite_loss(name):
    x, _ = two_classes(10)
    out = BASELINES[name]().fit(x, np.full(10, 2), "classification", 4, seed=0)(x)
    np.testing.assert_allclose(np.exp(out), [[1 / 14, 1 / 14, 11 / 14, 1 / 14]] * 10)


@pytest.mark.parametrize("kind", TUNED)
def test_a_class_with_a_single_sample_and_one_never_seen(kind):
    x, y = two_classes(60, noise=0.1)
    y[7] = 2
    out = kind().fit(x, y, "classification", 4, seed=0)(x)
    assert np.isfinite(out).all()
    np.testing.assert_allclose(np.exp(out[:, 3]), 1 / 64)
    assert (out.argmax(1) == y).mean() > 0.9


@pytest.mark.parametrize("kind", TUNED)
def test_a_constant_column_changes_nothing_and_another_value_there_does_no_harm(kind):
    x, y = two_classes()
    constant = np.column_stack([x, np.full(len(x), 7.0, np.float32)])
    predict = kind().fit(constant, y, "classification", 2, 0)
    shifted = constant.copy()
    shifted[:, 5] = -3
    assert (predict(shifted).argmax(1) == predict(constant).argmax(1)).all()
    assert (predict(constant).argmax(1) == y).mean() > 0.75


@pytest.mark.parametrize("kind", TUNED)
def test_outliers_leave_an_answer(kind):
    x, y = two_classes(200, noise=0.1)
    x[3, 0], x[5, 1], x[9, 2] = 1e9, -1e30, 3e38
    new_x, new_y = two_classes(500, seed=1, noise=0.1)
    out = kind().fit(x, y, "classification", 2, 0)(np.vstack([new_x, 1e30 * new_x[:1]]))
    assert np.isfinite(out).all()
    if kind is Trees:  # which depend on the order of values alone
        assert (out[:-1].argmax(1) == new_y).mean() > 0.85


@pytest.mark.parametrize("kind", TUNED)
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_seed_determines_the_result(kind, task):
    x, y = two_classes()
    target = y if task == "classification" else x[:, 0] + 0.3 * y
    outputs = 2 if task == "classification" else 1
    first, again = (kind().fit(x, target, task, outputs, seed=2**40 + 5)(x) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_seeds_differ():
    x, y = two_classes()
    one, other = (Trees().fit(x, y, "classification", 2, seed)(x) for seed in (0, 1))
    assert not np.array_equal(one, other)


def test_inner_folds_validate_every_row_once_and_share_out_the_classes():
    y = np.repeat([0, 1, 2], [30, 11, 1])
    folds = list(inner_folds(y, "classification", 5, seed=0))
    assert len(folds) == 5
    np.testing.assert_array_equal(np.sort(np.concatenate([v for _, v in folds])), np.arange(42))
    for train, validation in folds:
        assert not set(train) & set(validation)
        counts = np.bincount(y[validation], minlength=3)
        assert counts[0] == 6
        assert counts[1] in (2, 3)


def test_too_few_rows_or_a_single_group_give_no_folds():
    assert len(list(inner_folds(np.arange(3.0), "regression", 5, seed=0))) == 3
    assert list(inner_folds(np.zeros(1), "regression", 5, seed=0)) == []
    assert list(inner_folds(np.arange(9.0), "regression", 5, 0, groups=np.zeros(9))) == []
    assert list(inner_folds(np.array([0, 1]), "classification", 5, seed=0)) == []


def test_inner_folds_keep_groups_whole():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 9, 60)
    for train, validation in inner_folds(rng.integers(0, 2, 60), "classification", 3, 0, groups):
        assert not set(groups[train]) & set(groups[validation])


def test_groups_are_respected_when_the_penalty_is_chosen():
    """Ten copies of each of a few patients: by rows, memory looks like skill; by patients, it does not."""
    rng = np.random.default_rng(1)
    patients, labels = rng.normal(size=(12, 30)), np.arange(12) % 2
    group = np.repeat(np.arange(12), 10)
    x, y = patients[group] + 0.01 * rng.normal(size=(120, 30)), labels[group]
    new_x, new_y = rng.normal(size=(500, 30)), rng.integers(0, 2, 500)
    by_row, by_group = (
        log_loss(Linear().fit(x, y, "classification", 2, 0, groups=g)(new_x), new_y) for g in (None, group)
    )
    assert by_group < 0.75 < 1 < by_row


def test_what_cannot_be_used_says_why():
    numbers, tokens = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.int64)
    assert all(BASELINES[name]().unfit("classification", numbers) is None for name in BASELINES)
    assert Linear().unfit("classification", tokens) == "inputs are tokens, not quantities"
    assert Trees().unfit("classification", np.zeros((2, 28, 28), np.uint8)) == (
        "boosted trees take too long with 784 features"
    )
    assert Trees().unfit("survival", numbers) == "scikit-learn boosts no trees for survival"
    assert Linear().unfit("survival", numbers) is Majority().unfit("survival", numbers) is None


def test_pixels_become_numbers_as_they_do_for_networks():
    x = np.arange(2 * 3 * 2 * 2, dtype=np.uint8).reshape(2, 3, 2, 2)
    samples = Samples.of([(x, np.array([0, 1]))])
    scaling = Scaling(mean=(0.1, 0.2, 0.3), std=(0.5, 1.0, 2.0))
    flat = flat_inputs(Federation("f", samples, samples, "classification", 2, scaling=scaling), x)
    assert flat.shape == (2, 12)
    assert flat.dtype == np.float32
    assert flat[1, 4] == pytest.approx((16 / 255 - 0.2) / 1.0)
