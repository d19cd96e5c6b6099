"""What each sample contributes: the variance that follows is that of resampled clients, of DeLong, of the jackknife."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from manyheads.metrics import METRICS, Contributions, Metric, Predictions
from manyheads.metrics.contributions import GROUPS, jackknife

CLASSES = ("accuracy", "balanced_accuracy", "auc", "average_precision", "f1", "log_loss", "brier", "calibration_error")
NUMBERS = ("rmse", "mae", "r2")


def variance(found: Contributions) -> float:
    """The variance of the value, as the class promises."""
    strata = (found.each[found.stratum == s] for s in np.unique(found.stratum))
    return sum(each.var(ddof=1) / len(each) for each in strata)


def of_one_client(outputs, labels):
    return Predictions(outputs, labels, np.abs(outputs).sum(axis=-1), np.array([len(labels)]))


def drawn(rng, labels, classes):
    """Outputs of a model that knows something of the labels, and is too sure of it."""
    return of_one_client(4 * rng.normal(size=(len(labels), classes)) + 5 * np.eye(classes)[labels], labels)


def one_fold(own):
    return np.zeros(len(own.labels), int)


def agree(found):
    """The mean variance is that of the values over many clients, within four deviations of the latter."""
    values = np.array([f.value for f in found])
    assert np.mean([variance(f) for f in found]) == pytest.approx(values.var(ddof=1), rel=4 * (2 / len(found)) ** 0.5)


@pytest.mark.parametrize("folds", [1, 5])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", CLASSES)
def test_the_variance_is_that_over_many_clients(name, classes, folds):
    """The labels of the clients stay the same for metrics whose strata are the classes, and are drawn anew for others."""
    rng, metric = np.random.default_rng(0), METRICS[name]()
    samples, clients = (100, 50) if name == "average_precision" else (600, 300)  # by the jackknife, which is slow
    labels, fold, found = np.arange(samples) % classes, np.arange(samples) // 5 % folds, []
    for _ in range(clients):
        stratified = name in ("balanced_accuracy", "auc")
        own = drawn(rng, labels if stratified else rng.integers(0, classes, samples), classes)
        found.append(metric.contributions(own, fold))
    agree(found)


@pytest.mark.parametrize("name", NUMBERS)
def test_the_variance_of_a_regression(name):
    rng, metric, found = np.random.default_rng(1), METRICS[name](), []
    for _ in range(300):
        y = rng.normal(size=(400, 2))
        found.append(metric.contributions(of_one_client(y + rng.normal(size=y.shape), y), np.zeros(400, int)))
    agree(found)


@pytest.mark.parametrize("name", CLASSES + NUMBERS)
def test_one_fold_gives_the_value_of_the_client(name):
    rng, metric = np.random.default_rng(2), METRICS[name]()
    own = drawn(rng, rng.integers(0, 3, 90), 3)
    if name in NUMBERS:
        own = of_one_client(rng.normal(size=(90, 1)), rng.normal(size=90))
    found = metric.contributions(own, one_fold(own))
    assert found.value == pytest.approx(metric.of_client(own))
    assert found.each.shape == found.stratum.shape == (90,)
    if not np.isnan(found.span):
        assert np.ptp(found.each) <= found.span + 1e-9


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "f1", "log_loss", "rmse", "r2"])
def test_the_closed_forms_are_what_the_jackknife_tends_to(name):
    """Leaving one of n out: the closed forms up to terms of order 1/n (exactly, for means)."""
    rng, metric = np.random.default_rng(3), METRICS[name]()
    own = drawn(rng, rng.permutation(np.arange(150) % 3), 3)
    if name in ("rmse", "r2"):
        y = rng.normal(size=150)
        own = of_one_client((y + rng.normal(size=150))[:, None], y)
    exact, left_out = metric.contributions(own, one_fold(own)), jackknife(metric.of_client, own, one_fold(own))
    assert left_out.value == pytest.approx(exact.value)
    assert variance(left_out) == pytest.approx(variance(exact), rel=1e-9 if name in ("accuracy", "log_loss") else 0.05)


# -- AUC --------------------------------------------------------------------------------------------------------------


def delong(scores, positive):
    """Value and variance as written by DeLong, DeLong and Clarke-Pearson: kernel by kernel."""
    x, y = scores[positive], scores[~positive]
    psi = (x[:, None] > y) + 0.5 * (x[:, None] == y)
    return psi.mean(), psi.mean(axis=1).var(ddof=1) / len(x) + psi.mean(axis=0).var(ddof=1) / len(y)


def test_auc_is_delongs():
    rng = np.random.default_rng(4)
    own = drawn(rng, (rng.random(80) < 0.2).astype(int), 2)
    own = of_one_client(own.outputs.round(1), own.labels)  # with ties
    found = METRICS["auc"]().contributions(own, one_fold(own))
    assert (found.value, variance(found)) == pytest.approx(delong(own.outputs @ [-1, 1], own.labels == 1))
    assert found.span == 1


def test_the_difference_of_two_aucs_is_delongs():
    """The covariance of two models on the same samples comes with the differences of their contributions."""
    rng = np.random.default_rng(5)
    labels = (rng.random(100) < 0.4).astype(int)
    one = drawn(rng, labels, 2)
    other = of_one_client(one.outputs + 0.5 * rng.normal(size=(100, 2)), labels)
    found = [METRICS["auc"]().contributions(own, one_fold(own)) for own in (one, other)]
    scores = np.stack([own.outputs @ [-1, 1] for own in (one, other)])
    psi = scores[:, labels == 1][:, :, None] > scores[:, labels == 0][:, None, :]
    cov = np.cov(psi.mean(axis=2)) / labels.sum() + np.cov(psi.mean(axis=1)) / (1 - labels).sum()
    difference = Contributions(found[0].value - found[1].value, found[0].each - found[1].each, labels)
    assert variance(difference) == pytest.approx(cov[0, 0] + cov[1, 1] - 2 * cov[0, 1])


def test_auc_compares_within_folds_alone():
    """A shift of one fold's outputs changes nothing; equal folds give the mean of their values."""
    rng = np.random.default_rng(6)
    labels, fold = np.tile([0, 0, 1], 20), np.repeat([0, 1, 2, 3], 15)
    own = drawn(rng, labels, 2)
    shifted = of_one_client(own.outputs + np.outer(100 * fold, [0, 1]), labels)
    found, moved = (METRICS["auc"]().contributions(p, fold) for p in (own, shifted))
    assert moved.value == pytest.approx(found.value)
    np.testing.assert_allclose(moved.each, found.each)
    each = [METRICS["auc"]().of_client(own.take(fold == k)) for k in range(4)]
    assert found.value == pytest.approx(np.mean(each))


def test_folds_without_a_pair_contribute_nothing():
    labels, fold = np.array([0, 1, 0, 1, 0, 0]), np.array([0, 0, 0, 0, 1, 1])
    own = of_one_client(np.array([[0.0, x] for x in (1, 4, 3, 2, 9, 9)]), labels)
    found = METRICS["auc"]().contributions(own, fold)
    assert found.value == 0.75
    assert found.each[4:].tolist() == [0.75, 0.75]
    assert METRICS["auc"]().contributions(own, np.arange(6)) is None


def test_auc_of_classes_that_the_client_has():
    """With a class that nobody has, three classes are as two: both against the rest."""
    rng = np.random.default_rng(7)
    own = drawn(rng, rng.integers(0, 2, 50), 3)
    found = METRICS["auc"]().contributions(own, one_fold(own))
    assert found.value == pytest.approx(
        np.mean([delong(softmax(own.outputs, axis=1)[:, c], own.labels == c)[0] for c in (0, 1)])
    )


# -- the jackknife ----------------------------------------------------------------------------------------------------


class Mean(Metric):
    name, title = "mean", "mean"

    def of_client(self, predictions):
        return float(predictions.labels.mean())


def test_a_mean_by_the_jackknife_is_the_mean():
    labels = np.random.default_rng(8).normal(size=40)
    fold = np.arange(40) % 5
    found = Mean().contributions(of_one_client(labels[:, None], labels), fold)
    assert found.value == pytest.approx(labels.mean())
    folds = np.array([labels[fold == k].mean() for k in range(5)])
    np.testing.assert_allclose(found.each, labels - folds[fold] + labels.mean())


def test_groups_of_many_samples_keep_the_variance():
    labels = np.random.default_rng(9).normal(size=20 * GROUPS)
    found = Mean().contributions(of_one_client(labels[:, None], labels), np.zeros(len(labels), int))
    assert variance(found) == pytest.approx(labels.var() / len(labels), rel=0.3)  # 3 deviations of that of 200 groups


def test_folds_where_a_metric_is_not_defined_are_left_out():
    class Sometimes(Mean):
        def of_client(self, predictions):
            return None if (predictions.labels < 0).any() else super().of_client(predictions)

    labels = np.array([1.0, 2.0, 3.0, -1.0, 5.0])
    found = Sometimes().contributions(of_one_client(labels[:, None], labels), np.array([0, 0, 0, 1, 1]))
    assert found.value == 2
    np.testing.assert_allclose(found.each, 2 + 5 / 3 * np.array([-1, 0, 1, 0, 0]))
    assert Sometimes().contributions(of_one_client(labels[3:, None], labels[3:]), np.zeros(2)) is None


def test_a_fold_of_one_sample():
    found = Mean().contributions(of_one_client(np.ones((1, 1)), np.array([3.0])), np.zeros(1))
    assert (found.value, found.each.tolist()) == (3, [3])
