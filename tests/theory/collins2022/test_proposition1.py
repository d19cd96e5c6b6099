"""Proposition 1 of Collins et al. 2022: a representation that D-GD cannot learn."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads.core.errors import UserError
from manyheads.metrics import principal_angle_distance
from manyheads.theory.collins2022.linear_fedavg import LocalUpdates, Problem
from manyheads.theory.collins2022.proposition1 import hard_body, lower_bound


def test_proposition_1_on_a_hundred_instances():
    rng = np.random.default_rng(0)
    for _ in range(100):
        k = int(rng.integers(2, 6))
        d, delta0, alpha = int(rng.integers(k + 1, 30)), float(rng.uniform(0.01, 0.5)), float(rng.uniform(0.05, 0.2))
        heads = rng.normal(size=(int(rng.integers(1, 20)), k)) + rng.normal(size=k)
        body = rng.normal(size=(d, k))  # full rank, not orthonormal
        body /= np.sqrt(alpha) * np.linalg.norm(body, 2)  # larger ones make D-GD diverge
        truth = hard_body(body, heads, delta0, rng)
        np.testing.assert_allclose(truth.T @ truth, np.eye(k), atol=1e-12)
        assert principal_angle_distance(body, truth) == pytest.approx(delta0, rel=1e-9)
        mean = truth @ heads.mean(axis=0)
        basis = np.linalg.qr(body)[0]
        assert np.linalg.norm(mean - basis @ (basis.T @ mean)) < 1e-12 * (1 + np.linalg.norm(mean))
        assert lower_bound(body, heads, delta0, alpha, 100, rng) >= 0.7 * delta0


def test_fedavg_finds_what_d_gd_cannot():
    rng, alpha = np.random.default_rng(1), 0.3
    heads = rng.normal(size=(30, 3))
    body = np.linalg.qr(rng.normal(size=(15, 3)))[0] / np.sqrt(alpha)
    problem, head = Problem(hard_body(body, heads, 0.5, rng), heads), np.zeros(3)
    for _ in range(400):
        body, head = LocalUpdates.of(problem, body, head, list(range(30)), alpha, 2).averaged()
    assert principal_angle_distance(body, problem.body) < 1e-6


@pytest.mark.parametrize(("d", "k", "delta0"), [(5, 1, 0.2), (3, 3, 0.2), (5, 2, 0.6), (5, 2, 0.0)])
def test_proposition_1_is_about_these_problems_only(d, k, delta0):
    with pytest.raises(UserError, match="Proposition 1"):
        hard_body(np.eye(d)[:, :k], np.ones((2, k)), delta0, np.random.default_rng(0))
