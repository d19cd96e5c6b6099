"""Measures of representations, against known values, plain loops and invariances."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from manyheads.core.errors import UserError
from manyheads.metrics import (
    LinearCKA,
    class_cosine_similarity,
    layer_distances,
    linear_cka,
    principal_angle_distance,
)

RNG = np.random.default_rng(0)


# -- principal angles ---------------------------------------------------------------------------------------------------


def tilted(d, k, angle, rng=RNG):
    """Two orthonormal d x k bases of which one direction differs, by an angle."""
    q, _ = np.linalg.qr(rng.normal(size=(d, k + 1)))
    other = q[:, :k].copy()
    other[:, 0] = math.cos(angle) * q[:, 0] + math.sin(angle) * q[:, k]
    return q[:, :k], other


@pytest.mark.parametrize("angle", [0.3, 1.2, math.pi / 2])
def test_distance_is_the_sine_of_the_angle_of_known_planes(angle):
    b1, b2 = tilted(6, 3, angle)
    assert principal_angle_distance(b1, b2) == pytest.approx(math.sin(angle), abs=1e-14)
    assert principal_angle_distance(b2, b1) == pytest.approx(math.sin(angle), abs=1e-14)
    perp = np.linalg.svd(b1, full_matrices=True)[0][:, 3:]
    assert principal_angle_distance(b1, b2) == pytest.approx(np.linalg.norm(perp.T @ b2, 2), abs=1e-14)


@pytest.mark.parametrize("angle", [1e-6, 1e-8, 1e-10])
def test_tiny_angles_are_resolved(angle):
    b1, b2 = tilted(50, 4, angle)
    assert principal_angle_distance(b1, b2) == pytest.approx(angle, rel=1e-4)
    assert principal_angle_distance(b1, b1) < 1e-14


def test_distance_does_not_depend_on_the_basis():
    b1, b2 = tilted(8, 3, 0.4)
    change = RNG.normal(size=(3, 3)) @ np.diag([1, 100, 1e-12])
    assert principal_angle_distance(b1 @ change, b2) == pytest.approx(math.sin(0.4), abs=1e-3)
    change = RNG.normal(size=(3, 3))
    assert principal_angle_distance(b1, b2 @ change) == pytest.approx(math.sin(0.4), abs=1e-12)
    scaled = torch.from_numpy(b2 * np.array([1e-200, 1.0, 1e200]))
    assert principal_angle_distance(torch.from_numpy(b1), scaled) == pytest.approx(math.sin(0.4), abs=1e-12)


def test_distance_of_orthogonal_and_of_full_spaces():
    assert principal_angle_distance(np.eye(4)[:, :2], np.eye(4)[:, 2:]) == 1
    assert principal_angle_distance(np.eye(3), RNG.normal(size=(3, 3))) < 1e-14


@pytest.mark.parametrize(
    ("b1", "b2", "message"),
    [
        (np.eye(4)[:, :2], np.eye(5)[:, :2], "different shapes"),
        (np.eye(4)[:, :2], np.eye(4)[:, :3], "different shapes"),
        (np.ones((2, 3)), np.ones((2, 3)), "no basis"),
        (np.ones(3), np.ones(3), "no basis"),
        (np.ones((3, 0)), np.ones((3, 0)), "no basis"),
        (np.eye(4)[:, :2], np.ones((4, 2)), "B2 are linearly dependent"),
        (np.zeros((4, 2)), np.eye(4)[:, :2], "B1 are linearly dependent"),
        (np.full((4, 2), np.nan), np.eye(4)[:, :2], "not finite"),
        (np.eye(4)[:, :2], torch.tensor([[1.0, 0.1], [2.0, 0.2], [3.0, 0.3], [4.0, 0.4]]), "dependent"),  # float32
        (np.array([["a"], ["b"]]), np.eye(2)[:, :1], "no real numbers"),
    ],
)
def test_what_is_no_basis_is_refused(b1, b2, message):
    with pytest.raises(UserError, match=message):
        principal_angle_distance(b1, b2)


# -- CKA ----------------------------------------------------------------------------------------------------------------


def rotation(n):
    return np.linalg.qr(RNG.normal(size=(n, n)))[0]


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("width", [3, 60])
def test_cka_is_one_under_rotation_and_scaling_and_shift(unbiased, width):
    x = RNG.normal(size=(30, width))
    assert linear_cka(x, 7 * x @ rotation(width) + 5, unbiased=unbiased) == pytest.approx(1)
    assert linear_cka(x, x @ np.diag(np.geomspace(1, 50, width)), unbiased=unbiased) < 0.95


def test_cka_of_small_matrices():
    x = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    y = np.array([[1.0], [-1], [0], [0]])
    # |Y^T X|_F^2 = 4, |X^T X|_F = |2 I| = 2 sqrt 2, |Y^T Y|_F = 2
    assert linear_cka(x, y) == pytest.approx(4 / (2 * math.sqrt(2) * 2))
    assert linear_cka(y, np.array([[0.0], [0], [1], [-1]])) == 0


def test_cka_is_the_hsic_of_centred_grams():
    x, y = RNG.normal(size=(12, 5)), RNG.normal(size=(12, 20))
    h = np.eye(12) - 1 / 12

    def hsic(k, m):
        return np.trace(h @ k @ h @ m)

    k, m = x @ x.T, y @ y.T
    assert linear_cka(x, y) == pytest.approx(hsic(k, m) / math.sqrt(hsic(k, k) * hsic(m, m)))
    assert linear_cka(torch.from_numpy(x), y.reshape(12, 4, 5)) == pytest.approx(linear_cka(x, y))


def test_unbiased_hsic_is_the_mean_over_quadruples():
    """HSIC_1 is the U-statistic: over all different i, j, q, r, k_ij (m_ij + m_qr - 2 m_iq)."""
    x, y = RNG.normal(size=(6, 2)), RNG.normal(size=(6, 3))

    def hsic(k, m):
        n, total, count = len(k), 0.0, 0
        for i in range(n):
            for j in range(n):
                for q in range(n):
                    for r in range(n):
                        if len({i, j, q, r}) == 4:
                            total += k[i, j] * (m[i, j] + m[q, r] - 2 * m[i, q])
                            count += 1
        return total / count

    x, y = x * 5, y + x[:, :1]
    k, m = x @ x.T, y @ y.T
    assert linear_cka(x, y, unbiased=True) == pytest.approx(hsic(k, m) / math.sqrt(hsic(k, k) * hsic(m, m)))


def test_minibatches_approach_the_whole_and_the_biased_form_does_not():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(20000, 10))
    y = 0.3 * x @ rng.normal(size=(10, 10)) + rng.normal(size=(20000, 10))
    whole = linear_cka(x, y)
    few, cka = [], LinearCKA()
    for rows in np.split(np.arange(20000), 1000):  # batches of 20
        cka.update(x[rows], y[rows])
        few.append(linear_cka(x[rows], y[rows]))
    assert cka.value == pytest.approx(whole, abs=0.02)
    assert np.mean(few) > whole + 0.1


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.ones((5, 2)), np.ones((4, 2)), "same samples"),
        (np.ones(5), np.ones(5), "same samples"),
        (np.eye(3), np.eye(3), "n >= 4"),
        (np.ones((5, 2)), RNG.normal(size=(5, 2)), "do not vary"),
        (np.full((5, 2), np.inf), np.ones((5, 2)), "X holds values that are not finite"),
    ],
)
def test_features_that_cannot_be_compared_are_refused(x, y, message):
    with pytest.raises(UserError, match=message):
        linear_cka(x, y, unbiased=True)


def test_nothing_accumulated_is_refused():
    with pytest.raises(UserError, match="not defined"):
        _ = LinearCKA().value


# -- classes and layers -------------------------------------------------------------------------------------------------


def test_class_cosine_is_the_formula_of_the_paper():
    features, labels = RNG.normal(size=(60, 8)), np.repeat([4, 1, 7], 20)
    order = RNG.permutation(60)
    features, labels, n = features[order], labels[order], 6
    found = class_cosine_similarity(torch.from_numpy(features), torch.from_numpy(labels), n)
    for a, c in enumerate((1, 4, 7)):
        for b, e in enumerate((1, 4, 7)):
            f, g = features[labels == c][:n], features[labels == e][:n]
            cosines = [abs(u @ v) / np.linalg.norm(u) / np.linalg.norm(v) for u, v in zip(f, g, strict=True)]
            assert found[a, b] == pytest.approx(np.mean(cosines))
    assert np.allclose(np.diag(found), 1)


def test_distinct_samples_on_the_diagonal():
    features = np.array([[1.0, 0], [1, 1], [0, 1], [3, 0], [-2, 0], [1, 0]])
    found = class_cosine_similarity(features, np.array([0, 0, 0, 1, 1, 1]), n=3, distinct=True)
    root = math.sqrt(0.5)
    assert found[0, 0] == pytest.approx((root + root + 0) / 3)
    assert found[1, 1] == pytest.approx(1)
    assert found[0, 1] == pytest.approx((1 + root + 0) / 3)


@pytest.mark.parametrize(
    ("features", "labels", "n", "message"),
    [
        (np.ones((4, 2)), np.array([0, 0, 1]), 1, "do not fit"),
        (np.ones((4, 2)), np.array([0, 0, 0, 1]), 2, "class 1 has too few"),
        (np.ones((4, 2)), np.array([0, 0, 1, 1]), 0, "too few samples a class"),
        (np.zeros((4, 2)), np.array([0, 0, 1, 1]), 1, "all zero"),
        (np.full((4, 2), np.nan), np.array([0, 0, 1, 1]), 1, "not finite"),
    ],
)
def test_wrong_features_of_classes_are_refused(features, labels, n, message):
    with pytest.raises(UserError, match=message):
        class_cosine_similarity(features, labels, n)


def test_layer_distances_of_a_network():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    before = {k: v.detach().clone() for k, v in net.named_parameters()}
    after = {k: v * (1.5 if k.startswith("0") else 1.0) for k, v in before.items()}
    assert layer_distances(before, after) == pytest.approx({"0": 0.5, "2": 0.0})
    assert layer_distances({"w": np.zeros(2)}, {"w": np.ones(2)}) == {"w": math.inf}
    with pytest.raises(UserError, match="different parameters"):
        layer_distances(before, {"0.weight": before["0.weight"]})
    with pytest.raises(UserError, match="two shapes"):
        layer_distances({"w": np.zeros(2)}, {"w": np.zeros(3)})
    with pytest.raises(UserError, match="not finite"):
        layer_distances({"w": np.zeros(2)}, {"w": np.full(2, np.nan)})
