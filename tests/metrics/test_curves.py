"""What is drawn of predictions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import ConvexHull
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, roc_auc_score, roc_curve

from manyheads.metrics import Predictions
from manyheads.metrics.curves import POINTS, calibration, confusion, roc


def test_the_confusion_matrix_has_all_classes():
    rng = np.random.default_rng(0)
    own = Predictions(rng.normal(size=(50, 5)), rng.integers(0, 3, 50), np.zeros(50), np.array([50]))
    found = confusion(own, 5)
    np.testing.assert_array_equal(found, confusion_matrix(own.labels, own.predicted, labels=np.arange(5)))
    assert found.sum() == 50


def curve_of(samples):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, samples)
    return labels + rng.normal(size=samples), labels


def test_a_short_roc_curve_is_whole():
    scores, labels = curve_of(40)
    false, true = roc(scores, labels)
    expected = roc_curve(labels, scores)
    np.testing.assert_array_equal(false, expected[0])
    np.testing.assert_array_equal(true, expected[1])


def test_a_long_roc_curve_keeps_its_hull():
    scores, labels = curve_of(5000)
    false, true = roc(scores, labels)
    assert 90 < len(false) <= POINTS
    assert (np.diff(false) >= 0).all()
    assert (np.diff(true) >= 0).all()
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert np.trapezoid(true, false) == pytest.approx(roc_auc_score(labels, scores), abs=0.005)
    whole = np.stack(roc_curve(labels, scores)[:2], axis=1)
    corners = {tuple(whole[i]) for i in ConvexHull(whole).vertices if whole[i, 1] > whole[i, 0]}
    assert len(corners) > 5
    assert corners <= set(zip(false, true, strict=True))


def test_no_roc_curve_of_one_class():
    assert roc(np.array([0.1, 0.2]), np.array([1, 1])) is None


def test_calibration():
    rng = np.random.default_rng(2)
    probability = rng.random(1000)
    labels = rng.random(1000) < probability
    found = calibration(probability, labels, bins=8)
    assert [row.samples for row in found] == [125] * 8
    order = np.argsort(probability)
    for row, rows in zip(found, np.split(order, 8), strict=True):
        assert row.predicted == pytest.approx(probability[rows].mean())
        assert row.observed == pytest.approx(labels[rows].mean())
        wilson = binomtest(int(labels[rows].sum()), 125).proportion_ci(0.95, "wilson")
        assert (row.low, row.high) == pytest.approx((wilson.low, wilson.high))
    assert sum(row.low <= row.predicted <= row.high for row in found) >= 7


def test_equal_probabilities_are_in_one_bin():
    (row,) = calibration(np.full(10, 0.3), np.array([0] * 6 + [1] * 4))
    assert row[:3] == (pytest.approx(0.3), 0.4, 10)
    assert [row.samples for row in calibration(np.array([0.1] * 9 + [0.7]), np.zeros(10, int), bins=5)] == [9, 1]
