"""Intervals: they cover the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads.metrics.paired import estimate, overall


def draw(rng, seeds, samples, seed_effect=0.0):
    """Outcomes of two models on the same samples, some harder than others; the true mean difference is 0.0398."""
    alone = rng.beta(2, 0.6, samples)
    better = np.clip(alone + rng.normal(0.08, 0.15, samples), 0, 1) + rng.normal(0, seed_effect, (seeds, 1))
    return (rng.random((seeds, samples)) < better).astype(float) - (rng.random((seeds, samples)) < alone)


@pytest.mark.parametrize(("seeds", "samples"), [(1, 8), (1, 60), (3, 8), (3, 24), (5, 60)])
def test_the_interval_of_a_client_covers_the_true_difference(seeds, samples):
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        low, high = estimate(draw(rng, seeds, samples), "difference").interval()
        hits += low <= 0.0398 <= high
    assert hits / 400 >= 0.93


def test_the_interval_over_clients_covers_and_is_narrower():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(300):
        clients = [draw(rng, 3, 20, seed_effect=0.01) for _ in range(10)]
        low, high = overall(clients, "difference").interval()
        one = estimate(clients[0], "difference").interval()
        assert high - low < one[1] - one[0]
        hits += low <= 0.0398 <= high
    assert hits / 300 >= 0.92


def test_few_samples_that_agree_are_no_certainty():
    low, high = estimate(np.ones((1, 3)), "difference").interval()
    assert low < 0.3
    assert high <= 1.2
    low, high = estimate(np.zeros((2, 5)), "difference").interval()
    assert low == -high < 0


def test_agresti_and_coull_by_hand():
    """15 of 20: (15 + 2) / 24 with variance p (1 - p) / 24."""
    found = estimate(np.repeat([1.0, 0.0], [15, 5])[None], "share")
    assert found.value == 0.75
    assert found.center == pytest.approx(17 / 24)
    assert found.variance == pytest.approx(17 / 24 * 7 / 24 / 24)


def test_measures_have_students_interval():
    values = np.array([[1.0, 2.0, 4.0]])
    from scipy import stats

    expected = stats.t.interval(0.95, 2, loc=7 / 3, scale=stats.sem(values[0]))
    assert estimate(values, "measure").interval() == pytest.approx(expected)
    assert np.isinf(estimate(values[:, :1], "measure").variance)


def test_seeds_that_differ_widen_the_interval():
    rng = np.random.default_rng(0)
    alike = np.tile((rng.random(50) < 0.7).astype(float), (3, 1))
    apart = alike.copy()
    apart[0, :25], apart[1, :25] = 1.0, 0.0
    assert estimate(apart, "share").variance > 3 * estimate(alike, "share").variance
