"""Weights on the simplex, by their optimality conditions and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads.core.simplex import combinations


def objective(v, x, own, a):
    return float(a**2 @ v + ((x[own] - a @ x) ** 2).sum())


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("shape", [(6, 12), (12, 4), (1, 12), (30, 80)])
def test_optimality_conditions(seed, shape):
    """On the simplex the gradient is the same where a weight is positive, and no smaller where it is 0."""
    rng = np.random.default_rng(seed)
    x, v = rng.normal(size=shape), 10 ** rng.uniform(-3, 2, shape[0])
    for own, a in enumerate(combinations(v, x)):
        assert (a >= 0).all()
        assert a.sum() == pytest.approx(1)
        slope = 2 * a * v - 2 * (x[own] - a @ x) @ x.T
        least = slope @ a  # what the positive ones have in common
        np.testing.assert_allclose(slope[a > 1e-9], least, atol=1e-7 * abs(slope).max())
        assert (slope > least - 1e-7 * abs(slope).max()).all()
        for _ in range(50):
            assert objective(v, x, own, a) <= objective(v, x, own, rng.dirichlet(np.ones(len(v)))) + 1e-12


def test_two_clients_in_closed_form():
    """q(a) = (1 - a)^2 v_1 + a^2 (v_2 + d^2), a the weight of the other: a = v_1 / (v_1 + v_2 + d^2)."""
    v, x = np.array([0.3, 0.8]), np.array([[1.0, 2.0], [1.5, 1.0]])
    d2 = 0.25 + 1.0
    total = v.sum() + d2
    np.testing.assert_allclose(combinations(v, x), [[1 - 0.3 / total, 0.3 / total], [0.8 / total, 1 - 0.8 / total]])


def test_clients_that_are_alike_have_weights_by_their_precision():
    v = np.array([1.0, 2.0, 4.0, 0.5])
    found = combinations(v, np.ones((4, 6)))
    np.testing.assert_allclose(found, np.broadcast_to(1 / v / (1 / v).sum(), (4, 4)))


def test_clients_far_apart_keep_to_themselves_and_groups_to_their_own():
    v = np.full(4, 1e-3)
    np.testing.assert_allclose(combinations(v, 1e4 * np.eye(4)), np.eye(4), atol=1e-9)
    pairs = combinations(v, 1e3 * np.repeat(np.eye(2), 2, axis=0))
    np.testing.assert_allclose(pairs, 0.5 * np.kron(np.eye(2), np.ones((2, 2))), atol=1e-9)


@pytest.mark.parametrize("unit", [1e-12, 1e-3, 1e6])
def test_the_unit_of_the_points_does_not_matter(unit):
    rng = np.random.default_rng(0)
    v, x = rng.uniform(0.1, 1, 6), rng.normal(size=(6, 4))
    np.testing.assert_allclose(combinations(unit**2 * v, unit * x), combinations(v, x), atol=1e-9)


def test_without_variance_nothing_is_better_than_ones_own():
    found = combinations(np.array([0.0, 0.0, 1.0]), np.array([[1.0], [1.0], [1.0]]))
    np.testing.assert_allclose(found[:2], np.eye(3)[:2])
    np.testing.assert_allclose(found[2, 2], 0, atol=1e-12)


def test_nobody_has_no_weights_and_copies_are_no_obstacle():
    assert combinations(np.zeros(0), np.zeros((0, 5))).shape == (0, 0)
    rng = np.random.default_rng(0)
    for spread in (1e-12, 1e-6, 1.0):
        x = np.repeat(rng.normal(size=(5, 3)), 8, axis=0) + 1e-9 * rng.normal(size=(40, 3))
        v = spread * np.repeat(rng.uniform(size=8), 5)
        for own, a in enumerate(combinations(v, x)):
            assert objective(v, x, own, a) <= objective(v, x, own, np.eye(40)[own]) * (1 + 1e-9)
