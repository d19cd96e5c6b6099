"""The constants of Fallah et al. 2020: exact on quadratics, and those known for softmax regression."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest
import torch
from landscapes import lands, quadratics, random_points
from quadratic import model as quadratic_model

from manyheads import Federation
from manyheads.data import Samples
from manyheads.models import MLP, build_model
from manyheads.theory.fallah2020.smoothness import estimate, known_for_softmax, view_at
from manyheads.theory.landscape import Landscape, points_of


def test_estimates_on_quadratics_are_exact():
    federation, land, answer = quadratics()
    alone, shares = points_of(federation)
    points = Landscape(quadratic_model(), alone)
    w = np.array([0.4, 0.1, -0.7])
    found = estimate([view_at(land, points, torch.from_numpy(v), 0.1) for v in (w, w + 1)], shares)
    steepest = max(np.linalg.eigvalsh(A)[-1] for A in answer.A)
    np.testing.assert_allclose([found.L, found.rho], [steepest, 0], atol=1e-10)
    apart = [np.linalg.norm(A - answer.A.mean(axis=0), 2) for A in answer.A]
    assert found.gamma_H == pytest.approx(math.sqrt(np.mean(np.square(apart))))
    visited = []  # sigma_G, sigma_H, gamma_G and B by plain loops
    for v in (w, w + 1):
        slopes = answer.A @ v - answer.b
        after = np.array([A @ (v - 0.1 * g) - b for A, b, g in zip(answer.A, answer.b, slopes, strict=True)])
        noise_G, noise_H = [], []
        for i in range(len(federation)):
            pairs = list(zip(*federation.train.client(i), strict=True))
            noise_G.append(np.mean([np.sum(((x @ v - y) * x - slopes[i]) ** 2) for x, y in pairs]))
            noise_H.append(np.mean([np.linalg.norm(np.outer(x, x) - answer.A[i], 2) ** 2 for x, _ in pairs]))
        between = np.sum((slopes - slopes.mean(axis=0)) ** 2, axis=1).mean()
        longest = np.linalg.norm([slopes, after], axis=2).max()
        visited.append([*np.sqrt([max(noise_G), max(noise_H), between]), longest])
    expected = np.max(visited, axis=0)
    np.testing.assert_allclose([found.sigma_G, found.sigma_H, found.gamma_G, found.B], expected, rtol=1e-9)


def test_estimates_never_exceed_the_constants_known_for_softmax():
    federation, clients, points, shares = lands()
    known = asdict(known_for_softmax(federation))
    for w in random_points(clients):
        met = asdict(estimate([view_at(clients, points, w, 0.5)], shares))
        assert all(0 <= met[name] <= known[name] + 1e-12 for name in known), (met, known)


def test_third_derivative_constant_of_softmax_is_reached():
    """sqrt(2/27) |x~|^3 is the supremum: two classes, p = (1 +- 1/sqrt(3)) / 2."""
    one = Samples.of([(np.array([[0.6]]), np.array([0]))])
    federation = Federation("one", one, one, "classification", 2)
    land = Landscape(build_model(MLP(hidden=()), (1,), 2, 0, "float64"), federation)
    x = np.array([0.6, 1.0])  # weights are [2, 1], then biases [2]
    along = torch.from_numpy(np.array([x[0], -x[0], x[1], -x[1]]) / (math.sqrt(2) * np.linalg.norm(x)))
    logit = math.log((1 + 1 / math.sqrt(3)) / (1 - 1 / math.sqrt(3)))
    w = along * logit / (math.sqrt(2) * np.linalg.norm(x))
    h = 1e-4
    slope = (land.hessians(w + h * along) - land.hessians(w - h * along))[0] / (2 * h)
    assert torch.linalg.matrix_norm(slope, 2).item() == pytest.approx(known_for_softmax(federation).rho, rel=1e-5)
