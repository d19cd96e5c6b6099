"""What is said to be needed is about enough when it is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from manyheads.metrics.paired import Differences, Estimate, Moments, Part, estimate
from manyheads.metrics.power import needed


def site(rng, samples, seeds=1, folds=1, gain=0.0, shift=0.0):
    runs = shift * rng.normal(size=(seeds, folds))
    fold = np.arange(samples) % folds
    each = gain + rng.normal(size=samples) + 0.1 * rng.normal(size=(seeds, samples)) + runs[:, fold]
    return Moments.of(Differences(each.mean(axis=1), each, np.zeros(samples, int), fold))


def test_samples_by_the_closed_form():
    """With samples alone: ((1.96 + 0.84) / gain)^2 times the variance."""
    found = Estimate(0.1, Part(0.01, 1e6), Part(0, 1), Part(0, 1), 0.0, 1, 1)
    assert needed(found).samples == pytest.approx(((ndtri(0.975) + ndtri(0.8)) / 0.1) ** 2 * 0.01, rel=0.05)
    assert needed(found, gain=1.0).samples == 1


def test_seeds_by_the_closed_form():
    """Shifts alone: with n seeds (t + 0.84) shift / sqrt(n), for t with n - 1 degrees of freedom."""
    found = Estimate(0.5, Part(0, 1), Part(0, 1), Part(0.25 / 3, 2), 0.25 / 3, 3, 1)
    shift = 0.5 / (stats.chi2.median(2) / 2) ** 0.5
    enough = next(n for n in range(3, 100) if (stats.t.ppf(0.975, n - 1) + ndtri(0.8)) * shift / n**0.5 <= 0.5)
    assert needed(found) == (None, enough)


def test_seeds_are_no_samples():
    rng = np.random.default_rng(0)
    noise = needed(estimate(site(rng, 20, seeds=3), "measure"), gain=0.2)
    assert noise.seeds is None
    assert 5 < noise.samples < 40


def test_one_seed_says_nothing_of_more():
    rng = np.random.default_rng(0)
    assert needed(estimate(site(rng, 100), "measure"), gain=0.1).seeds is None


@pytest.mark.parametrize(("seeds", "folds"), [(1, 5), (3, 5), (5, 1)])
def test_with_as_many_samples_as_needed_four_of_five_are_found(seeds, folds):
    rng = np.random.default_rng(0)
    times = np.median([needed(estimate(site(rng, 50, seeds, folds), "measure"), gain=0.15).samples for _ in range(40)])
    found = [
        estimate(site(rng, round(50 * times), seeds, folds, gain=0.15), "measure").p_value < 0.05 for _ in range(300)
    ]
    assert 0.7 < np.mean(found) < 0.95
