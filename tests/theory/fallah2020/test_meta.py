"""The meta-functions of Per-FedAvg: their gradients, and the lemmas where their assumptions hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from landscapes import SMALL, lands, quadratics, random_points
from quadratic import DIM

from manyheads import Model, PerFedAvg
from manyheads.data import Samples
from manyheads.theory.fallah2020.meta import (
    CORRECTED,
    bias_F,
    bias_without_noise,
    gamma_F2,
    meta_gradients,
    meta_smoothness,
    sigma_F2,
    smoothness_F,
    stochastic_bias,
    stochastic_error,
)
from manyheads.theory.fallah2020.smoothness import Constants, known_for_softmax
from manyheads.theory.landscape import Landscape


@pytest.mark.parametrize("hidden", [(), (3,)])
def test_meta_gradient_is_the_numerical_gradient_of_the_meta_loss(hidden):
    _, clients, _, _ = lands(hidden=hidden)
    alpha, h, w = 0.4, 1e-5, random_points(clients)[1]
    found = meta_gradients(clients, PerFedAvg(alpha=alpha), w)

    def meta_loss(v):
        return clients.losses(v - alpha * clients.gradients(v))

    steps = h * torch.eye(len(w), dtype=w.dtype)
    numerical = torch.stack([(meta_loss(w + e) - meta_loss(w - e)) / (2 * h) for e in steps], dim=1)
    torch.testing.assert_close(found, numerical, rtol=1e-6, atol=1e-8)


def test_meta_smoothness_of_quadratics_is_the_closed_form():
    _, land, answer = quadratics()
    alpha = 0.2
    steps = [np.eye(DIM) - alpha * A for A in answer.A]
    expected = max(np.linalg.norm(S @ A @ S, 2) for S, A in zip(steps, answer.A, strict=True))
    assert meta_smoothness(land, PerFedAvg(alpha=alpha), torch.ones(DIM, dtype=torch.float64)) == pytest.approx(
        expected
    )


def test_bounds_reduce_to_those_of_plain_federated_learning():
    c = Constants(L=2, rho=3, B=5, sigma_G=0.5, sigma_H=7, gamma_G=0.1, gamma_H=11)
    plain = PerFedAvg(alpha=0, batch=4, outer_batch=8)
    assert sigma_F2(c, plain) == pytest.approx(12 * 0.5**2 / 8)
    assert gamma_F2(c, 0) == pytest.approx(192 * 0.1**2)
    assert gamma_F2(c, 0, CORRECTED) == pytest.approx(96 * 0.1**2)
    assert smoothness_F(c, 0) == 8
    still = replace(c, sigma_G=0.0, sigma_H=0.0)
    assert sigma_F2(still, PerFedAvg(alpha=0.3)) == pytest.approx(0, abs=1e-9)  # exact gradients: no error
    assert bias_F(still, PerFedAvg(alpha=0.3)) == 0


def test_lemma_4_3_is_its_expanded_form_of_appendix_C():
    c, a = Constants(L=2, rho=3, B=5, sigma_G=0.5, sigma_H=7, gamma_G=0.1, gamma_H=11), 0.3
    D, D1, D2 = 4, 8, 16
    gradient = c.sigma_G**2 * (1 / D1 + (a * c.L) ** 2 / D)
    expanded = 3 * (c.B * a * c.sigma_H) ** 2 / D2 + 12 * gradient + 3 * (a * c.sigma_H) ** 2 * gradient / D2
    method = PerFedAvg(alpha=a, batch=D, outer_batch=D1, hessian_batch=D2)
    assert sigma_F2(c, method) == pytest.approx(expanded)


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_lemmas_hold_with_the_known_constants(share):
    """Lemmas 4.2, 4.3 (and its bias), 4.4, G.1 and G.2, for alpha up to 1/L, at w near and far."""
    federation, clients, _, _ = lands()
    c = known_for_softmax(federation)
    alpha = share / c.L
    exact = PerFedAvg(alpha=alpha, batch=3, outer_batch=4, hessian_batch=2, delta=0.5)
    for w in random_points(clients, 3):
        assert meta_smoothness(clients, exact, w) <= smoothness_F(c, alpha)
        each = meta_gradients(clients, exact, w)
        assert (each - each.mean(dim=0)).square().sum(dim=1).mean() <= gamma_F2(c, alpha, CORRECTED)
        assert stochastic_bias(clients, exact, w, 50) <= bias_F(c, exact)
        for variant in ("exact", "fo", "hf"):
            method = replace(exact, variant=variant)
            assert stochastic_error(clients, method, w, 50) <= sigma_F2(c, method)
            gap = (meta_gradients(clients, method, w) - each).norm(dim=1).max()
            assert gap <= bias_without_noise(c, method) + 1e-9


def test_the_constant_of_lemma_4_4_is_half_of_what_is_printed():
    """(50) at alpha L = 1 is 2 (1 + 1) gamma_G^2; (53) with it is 3 (4 * 4 + 4 * 4) gamma_G^2."""
    r2 = 2 * (1 + 1)  # not the 8 of (50), which counts gamma_G^2 + gamma_G^2 where it has already been added up
    assert 3 * ((1 + 1) ** 2 * r2 + (2 * 1) ** 2 * r2) == CORRECTED
    rng, n = np.random.default_rng(0), 5
    for _ in range(50):  # quadratics with |H_i| <= 1, alpha = 1: where every step of the proof is at its limit
        H = [
            q @ np.diag(rng.uniform(-1, 1, 3)) @ q.T
            for q in (np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(n))
        ]
        b, w = rng.normal(size=(n, 3)), rng.normal(size=3)
        mean_H, mean_b, eye = np.mean(H, axis=0), b.mean(axis=0), np.eye(3)
        at = w - (mean_H @ w - mean_b)

        def spread(v, H=H, b=b, mean_H=mean_H, mean_b=mean_b):
            return np.mean([np.sum(((h - mean_H) @ v - (c - mean_b)) ** 2) for h, c in zip(H, b, strict=True)])

        gamma_G2 = max(spread(w), spread(at))
        r = [h @ (w - (h @ w - c)) - c - (mean_H @ at - mean_b) for h, c in zip(H, b, strict=True)]
        assert np.mean([v @ v for v in r]) <= r2 * gamma_G2
        gamma_H2 = np.mean([np.linalg.norm(h - mean_H, 2) ** 2 for h in H])
        g = [(eye - h) @ (h @ (w - (h @ w - c)) - c) for h, c in zip(H, b, strict=True)]
        apart = np.mean([np.sum((v - np.mean(g, axis=0)) ** 2) for v in g])
        B2 = np.sum((mean_H @ at - mean_b) ** 2)
        assert apart <= 3 * B2 * gamma_H2 + CORRECTED * gamma_G2
        assert apart <= 2 * B2 * gamma_H2 + 32 * gamma_G2  # with E_i r_i kept in (I - alpha H_i) r_i


def test_bias_is_that_of_enumerating_every_batch():
    setting = replace(SMALL, clients=2, samples=4, points=6)
    federation, clients, _, _ = lands(setting)
    one = PerFedAvg(alpha=1.5, batch=1)
    w = random_points(clients)[3]
    expected = []
    for i in range(2):
        x, y = federation.train.client(i)
        own = Samples.of([(x[j : j + 1], y[j : j + 1]) for j in range(len(y))])
        each = Landscape(Model(clients.model.module), replace(federation, train=own, test=own))
        after = w - 1.5 * each.gradients(w)  # one step on one sample
        slopes = torch.stack([clients.gradients(v)[i] for v in after]).mean(dim=0)
        eye = torch.eye(len(w), dtype=w.dtype)
        expected.append((eye - 1.5 * clients.hessians(w)[i]) @ slopes)
    bias = (torch.stack(expected) - meta_gradients(clients, one, w)).norm(dim=1).max().item()
    assert bias > 0.01
    assert stochastic_bias(clients, one, w, 1500) == pytest.approx(bias, rel=0.15)


def test_first_order_gradient_is_wrong_by_alpha_H_g():
    """Equation (116) with equality, on quadratics."""
    _, land, answer = quadratics()
    alpha, w = 0.1, np.array([1.0, 2.0, -1.0])
    exact, fo = PerFedAvg(alpha=alpha), PerFedAvg(alpha=alpha, variant="fo")
    at = torch.from_numpy(w)
    gap = meta_gradients(land, fo, at) - meta_gradients(land, exact, at)
    after = [A @ (w - alpha * (A @ w - b)) - b for A, b in zip(answer.A, answer.b, strict=True)]
    np.testing.assert_allclose(gap, [alpha * A @ g for A, g in zip(answer.A, after, strict=True)], rtol=1e-9)


def test_hessian_free_gradient_errs_like_delta_squared():
    """(127) promises O(delta); a central difference of a function with three derivatives gives delta^2."""
    federation, clients, _, _ = lands()
    w, c = random_points(clients)[2], known_for_softmax(federation)
    exact = meta_gradients(clients, PerFedAvg(alpha=0.5), w)
    deltas = [0.4, 0.2, 0.1, 0.05]
    methods = [PerFedAvg(alpha=0.5, variant="hf", delta=delta) for delta in deltas]
    gaps = [(meta_gradients(clients, m, w) - exact).norm(dim=1).max().item() for m in methods]
    assert all(gap <= bias_without_noise(c, m) for gap, m in zip(gaps, methods, strict=True))
    assert np.polyfit(np.log(deltas), np.log(gaps), 1)[0] == pytest.approx(2, abs=0.1)
