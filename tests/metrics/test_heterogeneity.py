"""Distances of distributions, against known values and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import wasserstein_distance, wasserstein_distance_nd

from manyheads.core.errors import UserError
from manyheads.core.randomness import Purpose, generator
from manyheads.metrics import total_variation, wasserstein1


def test_total_variation_of_known_distributions():
    assert total_variation(np.array([1.0, 0, 0]), np.array([0, 0.5, 0.5])) == 1
    assert total_variation(np.array([0.2, 0.8]), np.array([0.5, 0.5])) == pytest.approx(0.3)


@pytest.mark.parametrize("wrong", [[3.0, 4.0], [1.5, -0.5], [np.nan, 1.0], [1.0], [[0.5, 0.5]], []])
def test_total_variation_takes_distributions_only(wrong):
    with pytest.raises(UserError):
        total_variation(np.array(wrong), np.array([0.5, 0.5]))


@pytest.mark.parametrize(("n", "m", "dim"), [(5, 5, 3), (9, 9, 1), (7, 4, 2), (3, 8, 1), (1, 6, 4), (20, 30, 5)])
def test_wasserstein_is_that_of_scipy(n, m, dim):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(n, dim)), rng.normal(size=(m, dim)) + 0.5
    expected = wasserstein_distance(x[:, 0], y[:, 0]) if dim == 1 else wasserstein_distance_nd(x, y)
    assert wasserstein1(x, y) == pytest.approx(expected)
    assert wasserstein1(y, x) == pytest.approx(expected)


def test_a_shift_moves_every_point_by_its_length():
    x = np.random.default_rng(0).normal(size=(50, 2, 3))
    assert wasserstein1(x, x + 0.1) == pytest.approx(0.1 * np.sqrt(6))
    assert wasserstein1(x, x[::-1]) == pytest.approx(0)


def test_sliced_is_below_exact_and_depends_on_the_seed_alone():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 8)), rng.normal(size=(200, 8)) + 1
    sliced = wasserstein1(x, y, method="sliced")
    assert 0 < sliced < wasserstein1(x, y, method="exact")
    assert sliced == wasserstein1(x, y, method="sliced") != wasserstein1(x, y, method="sliced", seed=1)
    many = rng.normal(size=(400, 8))
    assert wasserstein1(many, y) == wasserstein1(many, y, method="sliced")


@pytest.mark.parametrize(("n", "m"), [(4, 4), (6, 4), (5, 7), (1, 9)])
def test_sliced_is_the_mean_of_projections(n, m):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, 3)), rng.normal(size=(m, 3)) + 1
    directions = generator(2, Purpose.NOISE).normal(size=(3, 20))
    directions /= np.linalg.norm(directions, axis=0)
    expected = np.mean([wasserstein_distance(x @ d, y @ d) for d in directions.T])
    assert wasserstein1(x, y, method="sliced", projections=20, seed=2) == pytest.approx(expected)


def test_wasserstein_refuses_what_has_no_distance():
    x = np.ones((3, 2))
    for wrong in (np.ones((3, 3)), np.empty((0, 2)), np.full((3, 2), np.nan)):
        with pytest.raises(UserError, match="wasserstein1"):
            wasserstein1(x, wrong)
    with pytest.raises(UserError, match="sliced"):
        wasserstein1(x, x, method="fast")
