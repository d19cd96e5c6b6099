"""Per-FedAvg's theory: exact answers on quadratics and softmax regression, and the lemmas where their assumptions hold."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from quadratic import DIM, Quadratic
from quadratic import model as quadratic_model
from quadratic import problem as quadratic_problem

from manyheads import Evaluate, Federation, PerFedAvg, State, UserError, simulate
from manyheads.data import Samples
from manyheads.models import MLP, build_model
from manyheads.theory import PAPERS, theory
from manyheads.theory.fallah2020 import Fallah2020
from manyheads.theory.fallah2020.meta import (
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
from manyheads.theory.fallah2020.similarity import similarity
from manyheads.theory.fallah2020.smoothness import Constants, estimate, known_for_softmax, look
from manyheads.theory.landscape import Landscape, points_of

SMALL = Fallah2020(clients=4, samples=12, points=16, dim=3, rounds=12, tau=3, batch=4, draws=40, views=3)


def quadratics():
    federation = quadratic_problem()
    return federation, Landscape(quadratic_model(), federation), Quadratic(federation)


def lands(setting=SMALL, hidden=(), activation="tanh"):
    """The clients and the single samples of a small problem."""
    federation = setting.federation()
    spec = MLP(hidden=hidden, activation=activation)
    model = build_model(spec, federation.sample_shape, federation.outputs, 0, "float64")
    alone, shares = points_of(federation)
    return federation, Landscape(model, federation), Landscape(model, alone), shares


def random_points(land, count=6):
    rng = np.random.default_rng(5)
    d = land.flat(land.model.params.all).numel()
    return [torch.from_numpy(scale * rng.normal(size=d)) for scale in np.geomspace(0.1, 20, count)]


# -- the landscape ----------------------------------------------------------------------------------------------------


def test_landscape_of_quadratics_is_the_closed_form():
    federation, land, answer = quadratics()
    w = torch.tensor([0.3, -2.0, 1.1], dtype=torch.float64)
    np.testing.assert_allclose(land.hessians(w), answer.A, atol=1e-12)
    np.testing.assert_allclose(land.gradients(w), answer.A @ w.numpy() - answer.b, atol=1e-12)
    losses = [0.5 * np.mean((x @ w.numpy() - y) ** 2) for x, y in map(federation.train.client, range(len(federation)))]
    np.testing.assert_allclose(land.losses(w), losses, rtol=1e-12)


def test_landscape_takes_a_point_for_each_client():
    _, land, answer = quadratics()
    each = torch.arange(len(land) * DIM, dtype=torch.float64).reshape(len(land), DIM)
    expected = np.einsum("cij,cj->ci", answer.A, each.numpy()) - answer.b
    np.testing.assert_allclose(land.gradients(each), expected, atol=1e-12)


def test_points_are_the_distinct_samples_and_how_often_each_client_has_them():
    x, y = np.array([[0.0], [1.0], [0.0], [0.0]]), np.array([0, 1, 0, 1])
    both = Samples.of([(x[:3], y[:3]), (x[3:], y[3:])])
    alone, shares = points_of(Federation("f", both, both, "classification", 2))
    assert alone.train.x[:, 0].tolist() == [0, 0, 1]
    assert alone.train.y.tolist() == [0, 1, 1]
    np.testing.assert_allclose(shares, [[2 / 3, 0, 1 / 3], [0, 1, 0]])


def test_watching_a_run_does_not_change_it():
    federation, seen = SMALL.federation(), []
    model = build_model(MLP(hidden=()), federation.sample_shape, federation.outputs, 0, "float64")
    runs = [
        simulate(PerFedAvg(steps=2, batch=3), model, federation, rounds=3, evaluate=Evaluate(every=3), on_round=watch)
        for watch in (None, lambda end: seen.append(end.server))
    ]
    assert runs[0].checksum == runs[1].checksum
    assert len(seen) == 3
    assert isinstance(seen[-1], State)
    torch.testing.assert_close(dict(seen[-1].model), dict(runs[0].server.model), rtol=0, atol=0)


# -- the constants ----------------------------------------------------------------------------------------------------


def test_estimates_on_quadratics_are_exact():
    federation, land, answer = quadratics()
    alone, shares = points_of(federation)
    points = Landscape(quadratic_model(), alone)
    w = np.array([0.4, 0.1, -0.7])
    found = estimate([look(land, points, torch.from_numpy(v), 0.1) for v in (w, w + 1)], shares)
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
        met = asdict(estimate([look(clients, points, w, 0.5)], shares))
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


# -- the meta-functions -----------------------------------------------------------------------------------------------


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
        assert (each - each.mean(dim=0)).square().sum(dim=1).mean() <= gamma_F2(c, alpha)
        assert stochastic_bias(clients, exact, w, 50) <= bias_F(c, exact)
        for variant in ("exact", "fo", "hf"):
            method = replace(exact, variant=variant)
            assert stochastic_error(clients, method, w, 50) <= sigma_F2(c, method)
            gap = (meta_gradients(clients, method, w) - each).norm(dim=1).max()
            assert gap <= bias_without_noise(c, method) + 1e-9


def test_bias_is_that_of_enumerating_every_batch():
    setting = replace(SMALL, clients=2, samples=4, points=6)
    federation, clients, _, _ = lands(setting)
    one = PerFedAvg(alpha=1.5, batch=1)
    w = random_points(clients)[3]
    expected = []
    for i in range(2):
        x, y = federation.train.client(i)
        own = Samples.of([(x[j : j + 1], y[j : j + 1]) for j in range(len(y))])
        each = Landscape(clients.model, replace(federation, train=own, test=own))
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


# -- similarity of clients --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [(), (3,)])
def test_distances_of_data_bound_distances_of_gradients(hidden):
    federation, clients, points, _ = lands(hidden=hidden)
    views = [look(clients, points, w, 0.1) for w in random_points(clients, 3)]
    found = similarity(federation, views)
    assert [row["name"] for row in found["similarity"]] == [
        "Equation (19a)", "Equation (22a)", "Equation (19b)", "Equation (22b)"
    ]  # fmt: skip
    assert all(0 < row["ratio"] <= 1 for row in found["similarity"])
    assert found["distances"]["wasserstein1_exact"]


def test_wasserstein_bound_is_tight_for_two_clients_with_one_point_each():
    """W_1(p_i, p) = d(z_1, z_2)/2 and gamma = ||g_1 - g_2||/2: equality in (22)."""
    both = Samples.of([(np.array([[1.0, 0.0]]), np.array([0])), (np.array([[0.0, 0.5]]), np.array([1]))])
    federation = Federation("two", both, both, "classification", 2)
    model = build_model(MLP(hidden=()), (2,), 2, 0, "float64")
    clients, points = Landscape(model, federation), Landscape(model, points_of(federation)[0])
    found = similarity(federation, [look(clients, points, clients.flat(model.params.all), 0.1)])
    ratios = {row["name"]: row["ratio"] for row in found["similarity"]}
    assert ratios["Equation (22a)"] == pytest.approx(1)
    assert ratios["Equation (22b)"] == pytest.approx(1)
    assert found["distances"]["total_variation"] == [0.5, 0.5]
    assert found["distances"]["wasserstein1"] == pytest.approx([math.sqrt(1.25 + 2) / 2] * 2)


# -- whole runs -------------------------------------------------------------------------------------------------------


def test_a_run_within_the_assumptions_stays_below_every_bound():
    facts = theory(SMALL)
    assert PAPERS.find("fallah2020") is Fallah2020
    assert facts["within_assumptions"]
    assert facts["bound"]["violations"] == 0
    assert facts["measured"]["last_loss"] < facts["measured"]["first_loss"]
    assert all(row["below"] for row in (*facts["lemmas"], *facts["similarity"]))
    terms = facts["bound"]["terms"]
    assert sum(terms.values()) == pytest.approx(facts["bound"]["value"])
    assert terms[facts["bound"]["dominant"]] == max(terms.values())
    assert len(facts["series"]["bound"]) == SMALL.rounds
    json.dumps(facts, allow_nan=False)
    assert Fallah2020.figure(facts).to_dict()["hconcat"]


def test_the_theorem_is_about_the_random_iterate_of_each_round():
    """With one local step, t_k = 0: the iterate of round k + 1 is w_k."""
    seen = []
    setting = replace(SMALL, tau=1, rounds=3)
    federation = setting.federation()
    facts = setting.run(seen.append)
    model = build_model(MLP(hidden=()), federation.sample_shape, federation.outputs, 0, "float64")
    clients = Landscape(model, federation)
    first = meta_gradients(clients, PerFedAvg(alpha=setting.alpha), clients.flat(model.params.all)).mean(dim=0)
    assert facts["series"]["gradient_square"][0] == pytest.approx(first.square().sum().item())
    assert seen


@pytest.mark.parametrize(
    ("change", "name", "holds"),
    [
        ({"alpha": 5.0}, "inner step size: alpha", False),
        ({"alpha": 0.0}, "inner step size: alpha", False),
        ({"beta": 1.0}, "outer step size: beta", False),
        ({"model": "elu", "hidden": 2}, "Assumptions 2 and 3: elu", False),
        ({"model": "tanh", "hidden": 2}, "Assumptions 2 and 3: tanh", None),
    ],
)
def test_a_run_outside_the_assumptions_is_reported_as_outside(change, name, holds):
    facts = replace(SMALL, rounds=3, draws=3, **change).run(lambda _: None)
    found = {c["name"]: c["holds"] for c in facts["conditions"]}
    assert found[name] is holds
    assert facts["within_assumptions"] is holds
    json.dumps(facts, allow_nan=False)


def test_more_points_than_clients_are_needed():
    with pytest.raises(UserError, match="fewer points than clients; given 3; allowed: 4 or more"):
        replace(SMALL, points=3).federation()
