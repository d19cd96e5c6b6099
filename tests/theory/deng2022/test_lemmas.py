"""Lemmas 1, 3, 7 and 9 of Deng et al. 2022 against plain computations, and where the paper's own form of them fails."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from manyheads.theory.deng2022 import Deng2022
from manyheads.theory.deng2022.lemmas import LEMMA_3, perturbation, semi_smoothness, stochastic_gradient
from manyheads.theory.deng2022.local_sgd import own_step
from manyheads.theory.deng2022.measure import network
from manyheads.theory.deng2022.network import Layers, gram, least_gradient, products, spectral, top_layer
from manyheads.theory.deng2022.separation import cap, near, separation

TINY = Deng2022(width=7, depth=3, clients=2, samples=3, dim=4, outputs=2, separation=0.1)


def built(setting):
    federation, model = network(setting)
    x, y = torch.from_numpy(federation.train.x), torch.from_numpy(federation.train.y)
    return model, x, y, Layers.of(model.params.all, top_layer(model), x)


def jacobian(model, x):
    """The derivatives of all outputs of all samples by autograd, [N outputs, parameters]."""
    names = list(model.params.all)
    fixed = {k: v.detach() for k, v in model.module.named_parameters() if k not in names}

    def outputs(*trained):
        return torch.func.functional_call(model.module, {**fixed, **dict(zip(names, trained, strict=True))}, (x,))

    parts = torch.func.jacrev(outputs, argnums=tuple(range(len(names))))(*model.params.all.values())
    return torch.cat([p.flatten(2) for p in parts], dim=2).flatten(0, 1)


def test_layers_are_those_of_the_module_and_their_products_those_of_autograd():
    model, x, y, at = built(TINY)
    J = jacobian(model, x)
    torch.testing.assert_close(at.outputs, model.module(x).detach())
    torch.testing.assert_close(gram(at), J @ J.T)
    r = at.outputs - y
    slopes = torch.einsum("no,nop->np", r, J.reshape(*r.shape, -1))
    torch.testing.assert_close(products(at, r), slopes @ slopes.T)


def test_least_gradient_is_met_by_the_worst_targets_and_by_no_others():
    model, x, _, at = built(TINY)
    J, m_d, N = jacobian(model, x), TINY.width / TINY.outputs, len(x)

    def ratio(r):
        return float((J.T @ r / N).square().sum() / (m_d * r.square().sum() / (2 * N)))

    values, vectors = torch.linalg.eigh(J @ J.T)
    assert least_gradient(at) == pytest.approx(ratio(vectors[:, 0]), rel=1e-6, abs=1e-12)
    rng = np.random.default_rng(0)
    assert all(ratio(torch.from_numpy(rng.normal(size=len(values)))) > least_gradient(at) for _ in range(100))


def test_one_long_target_contradicts_lemma_2_as_printed():
    """|grad L|^2 / (m L / d) = |grad l|^2 / (N l m / d): falls as 1/K, while m phi / (d n^2) hardly changes."""
    ratios, phis = [], []
    for K in (2, 4, 8, 16):
        setting = Deng2022(clients=K, samples=2, width=64)
        _, x, y, at = built(setting)
        y[0, 0] = 1e6
        r = at.outputs - y
        square, loss = float(products(at, r).sum()) / len(x) ** 2, float(r.square().sum()) / (2 * len(x))
        ratios.append(square / (setting.width / setting.outputs * loss))
        phis.append(separation(x.numpy()))
    np.testing.assert_allclose(ratios, ratios[0] * 2 / np.array([2, 4, 8, 16]), rtol=1e-4)
    assert min(phis) > 0.8


def test_stochastic_gradient_is_the_mean_over_every_draw():
    """Lemma 7: both statements by enumeration."""
    model, x, y, at = built(TINY)
    r, K, n = at.outputs - y, TINY.clients, TINY.samples
    slopes = torch.einsum("no,nop->np", r, jacobian(model, x).reshape(*r.shape, -1)).reshape(K, n, -1)
    squares = [
        float(torch.stack([slopes[i, j] for i, j in enumerate(draw)]).mean(dim=0).square().sum())
        for draw in product(range(n), repeat=K)
    ]
    scale = TINY.width / TINY.outputs * float(r.square().sum()) / (2 * len(x))
    found = stochastic_gradient(at, y, K)
    assert found["mean"] == pytest.approx(np.mean(squares) / scale)
    assert found["mean_printed"] == pytest.approx(K * np.mean(squares) / scale)
    assert found["largest"] >= max(squares) / (n * scale)


def test_clients_that_agree_contradict_lemma_7_as_printed():
    """With one sample each there is no noise: the mean gradient is grad L, which does not fall with K."""
    found = []
    for K in (2, 8, 32):
        setting = Deng2022(clients=K, samples=1, width=128)
        federation, model = network(setting)
        at = Layers.of(model.params.all, top_layer(model), torch.from_numpy(cap(federation.train.x, 0.3)))
        y = torch.full((K, setting.outputs), 10.0, dtype=torch.float64)
        found.append(stochastic_gradient(at, y, K))
    assert found[-1]["mean_printed"] > 10 * found[0]["mean_printed"]
    assert found[-1]["mean"] == pytest.approx(found[0]["mean"], rel=0.3)


def test_a_local_loss_grows_more_than_section_5_1_says():
    """L_i(W_i) <= exp(phi / (m n^2.5 log^2 m)) L_i(W), at Theorem 2's step size, by plain steps."""
    setting = Deng2022(gradient="single", width=256, clients=2, samples=2, tau=5)
    federation, model = network(setting)
    x = torch.from_numpy(cap(federation.train.x, 0.5)[:2])
    y = torch.tensor([[-5.0] + [0.0] * 4, [10.0] + [0.0] * 4], dtype=torch.float64)
    phi, n, m = separation(x.numpy()), 2, 256
    eta = own_step(setting, phi).eta
    assert eta == pytest.approx(setting.outputs * phi / (m * setting.tau * n**3 * math.log(m) ** 2))

    def losses(w):
        return (Layers.of(w, top_layer(model), x).outputs - y).square().sum(dim=1) / 2

    w = model.params.all
    before = losses(w).mean()
    for _ in range(setting.tau):  # draws the first sample every time
        at = Layers.of(w, top_layer(model), x[:1])
        r = at.outputs - y[:1]
        steps = [(torch.einsum("no,nom->nm", r, b).T @ f) for f, b in zip(at.features, at.backward, strict=False)]
        named = dict(zip(w, steps, strict=True))
        w = type(w)({k: v - eta * n * named[k] for k, v in w.items()})
    growth = math.log(float(losses(w).mean() / before))
    printed = phi / (m * n**2.5 * math.log(m) ** 2)
    assert growth > 10 * printed
    assert growth < m * printed  # without the factor m that cancels, it holds


def test_lemma_3_on_a_network_that_only_grows():
    """All weights times 1 + e: features of layer l are times (1 + e)^l, backward products (1 + e)^(L - l)."""
    model, x, _, at = built(TINY)
    e, L, m, d = 1e-3, 3, TINY.width, TINY.outputs
    grown = model.params.all * (1 + e)
    found = perturbation([(model.params.all, at), (grown, Layers.of(grown, top_layer(model), x))])
    far = e * spectral(model.params.all)
    change = max(
        float(f.norm(dim=1).max()) * ((1 + e) ** layer - 1) for layer, f in enumerate(at.features[1:], start=1)
    )
    back = max(
        float(torch.linalg.matrix_norm(b, 2).max()) * ((1 + e) ** (L - layer) - 1)
        for layer, b in enumerate(at.backward, start=1)
    )
    assert found["features_moved"] == pytest.approx(change / (far * L**2.5 * math.sqrt(math.log(m))))
    assert found["features_apart"] == pytest.approx(change / (far * L**1.5))
    assert found["backward_moved"] == pytest.approx(back / (far ** (1 / 3) * L**2 * math.sqrt(m * math.log(m) / d)))
    assert set(found) == set(LEMMA_3)


def test_semi_smoothness_is_what_the_linear_part_leaves():
    model = built(TINY)[0]
    move = model.params.all * 0.1
    far, m_d = spectral(move), 7 / 2
    bound = math.sqrt(2.0 * m_d * math.log(7)) * 0.5 ** (1 / 3) * far + m_d * far**2
    found = semi_smoothness([move, move], [2.0, 1.5, 1.4], [-0.9, 0.3], 0.5, 7, 2)
    assert found == pytest.approx((1.5 - 2.0 + 0.9) / bound)


def test_points_on_the_sphere_are_as_far_as_asked():
    a, b = np.eye(3)[:2]
    moved = near(a, b, 0.3)
    assert np.linalg.norm(moved) == pytest.approx(1)
    assert np.linalg.norm(moved - a) == pytest.approx(0.3)
    inside = cap(replace(TINY, clients=4).federation().train.x, 0.2)
    np.testing.assert_allclose(np.linalg.norm(inside - np.eye(4)[0], axis=1), 0.2)
