"""Intervals: they cover the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads.metrics.paired import Differences, estimate, overall


def differences(each, span=1.0):
    """A site of one stratum and one fold, with a metric that is a mean over samples."""
    each = np.asarray(each, float)
    zeros = np.zeros(each.shape[1], int)
    return Differences(each.mean(axis=1), each, zeros, zeros, span)


def draw(rng, seeds, samples, seed_effect=0.0):
    """Outcomes of two models on the same samples, some harder than others; the true mean difference is 0.0398."""
    alone = rng.beta(2, 0.6, samples)
    better = np.clip(alone + rng.normal(0.08, 0.15, samples), 0, 1) + rng.normal(0, seed_effect, (seeds, 1))
    return differences((rng.random((seeds, samples)) < better).astype(float) - (rng.random((seeds, samples)) < alone))


@pytest.mark.parametrize(("seeds", "samples"), [(1, 8), (1, 60), (3, 8), (3, 24), (5, 60)])
def test_the_interval_of_a_client_covers_the_true_difference(seeds, samples):
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        low, high = estimate(draw(rng, seeds, samples), "difference").interval()
        hits += low <= 0.0398 <= high
    assert hits / 400 >= 0.93


def test_the_interval_over_clients_covers():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(300):
        low, high = overall([draw(rng, 3, 20, seed_effect=0.01) for _ in range(10)], "difference").interval()
        hits += low <= 0.0398 <= high
    assert hits / 300 >= 0.92


def test_few_samples_that_agree_are_no_certainty():
    low, high = estimate(differences(np.ones((1, 3))), "difference").interval()
    assert low < 0.3
    assert high <= 1.5
    low, high = estimate(differences(np.zeros((2, 5))), "difference").interval()
    assert low == -high < 0


def test_measures_have_students_interval():
    values = np.array([[1.0, 2.0, 4.0]])
    from scipy import stats

    expected = stats.t.interval(0.95, 2, loc=7 / 3, scale=stats.sem(values[0]))
    assert estimate(differences(values), "measure").interval() == pytest.approx(expected)
    assert np.isinf(estimate(differences(values[:, :1]), "measure").samples.variance)


def test_a_p_value_below_five_percent_is_an_interval_without_zero():
    rng = np.random.default_rng(0)
    found = [estimate(draw(rng, 3, 40, seed_effect=0.1), "difference") for _ in range(200)]
    excluded = [low > 0 or high < 0 for low, high in (e.interval() for e in found)]
    assert [e.p_value < 0.05 for e in found] == excluded
    assert 0 < sum(excluded) < 200


def test_seeds_that_differ_widen_the_interval():
    rng = np.random.default_rng(0)
    alike = np.tile((rng.random(50) < 0.7).astype(float), (3, 1))
    apart = alike.copy()
    apart[0, :25], apart[1, :25] = 1.0, 0.0
    (a, b), (c, d) = (estimate(differences(e), "share").interval() for e in (alike, apart))
    assert d - c > 3 * (b - a)
