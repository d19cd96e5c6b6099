"""FedAvg with population gradients: the iteration is the library's FedAvg, and its quantities are the paper's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from manyheads import SGD, FedAvg, simulate
from manyheads.data import Federation, Samples
from manyheads.metrics import principal_angle_distance
from manyheads.models import Model
from manyheads.run.loop import sample_cohort
from manyheads.run.training import Training
from manyheads.theory.collins2022.linear_fedavg import LocalUpdates, Problem, d_gd_step


def problem_of(rng, d, k, clients):
    return Problem(np.linalg.qr(rng.normal(size=(d, k)))[0], rng.normal(size=(clients, k)))


def whitened(problem):
    """Clients whose empirical loss is the population loss: x = sqrt(d) e_j for all j, so that the mean of x x^T is I."""
    d = len(problem.body)
    x = np.sqrt(d) * np.eye(d)
    samples = Samples.of([(x, x @ problem.body @ head) for head in problem.heads])
    return Federation("whitened", samples, samples, "regression", 1)


@pytest.mark.parametrize(("tau", "cohort"), [(1, 0), (2, 0), (5, 0), (3, 4)])
def test_it_is_the_fedavg_of_the_library(tau, cohort):
    rng, alpha, rounds = np.random.default_rng(tau), 0.3, 15
    problem = problem_of(rng, 12, 3, 9)
    body, head = np.linalg.qr(rng.normal(size=(12, 3)))[0] / np.sqrt(alpha), 0.1 * rng.normal(size=3)
    net = nn.Sequential(nn.Linear(12, 3, bias=False), nn.Linear(3, 1, bias=False)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.from_numpy(body.T))
        net[1].weight.copy_(torch.from_numpy(head[None]))
    algorithm = FedAvg(steps=tau, batch=0, sgd=SGD(lr=alpha, momentum=0))
    run = simulate(algorithm, Model(net), whitened(problem), rounds=rounds, cohort=cohort, seed=5)
    for t in range(rounds):
        clients = sample_cohort(Training(cohort=cohort, seed=5), 9, t + 1)
        body, head = LocalUpdates.of(problem, body, head, clients, alpha, tau).averaged()
    np.testing.assert_allclose(run.server.model["0.weight"].numpy().T, body, atol=1e-9)
    np.testing.assert_allclose(run.server.model["1.weight"].numpy()[0], head, atol=1e-9)


def test_steps_follow_the_gradient_of_the_population_loss():
    rng, h = np.random.default_rng(0), 1e-6
    problem = problem_of(rng, 6, 2, 3)
    body, head = rng.normal(size=(6, 2)), rng.normal(size=2)

    def loss(b, w):
        return 0.5 * np.square(b @ w - problem.body @ problem.heads[1]).sum()

    step = LocalUpdates.of(problem, body, head, [1], 0.1, 1)
    slope = np.zeros((6, 2))
    for at in np.ndindex(6, 2):
        e = np.zeros((6, 2))
        e[at] = h
        slope[at] = (loss(body + e, head) - loss(body - e, head)) / (2 * h)
    np.testing.assert_allclose(step.bodies[1, 0], body - 0.1 * slope, atol=1e-8)
    slope = [(loss(body, head + e) - loss(body, head - e)) / (2 * h) for e in h * np.eye(2)]
    np.testing.assert_allclose(step.heads[1, 0], head - 0.1 * np.array(slope), atol=1e-8)


def test_prior_and_signal_weight_make_up_the_next_body():
    rng = np.random.default_rng(1)
    problem = problem_of(rng, 8, 3, 5)
    body, head = rng.normal(size=(8, 3)), rng.normal(size=3)
    local = LocalUpdates.of(problem, body, head, [0, 2, 4], 0.1, 4)
    prior, signal = local.weights()
    np.testing.assert_allclose(local.averaged()[0], body @ prior + problem.body @ signal, atol=1e-12)


def test_d_gd_sees_the_mean_head_only():
    rng = np.random.default_rng(2)
    problem = problem_of(rng, 8, 3, 5)
    body, head = rng.normal(size=(8, 3)), rng.normal(size=3)
    everyone = LocalUpdates.of(problem, body, head, list(range(5)), 0.1, 1).averaged()
    for one, other in zip(d_gd_step(problem, body, head, 0.1), everyone, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_constants_of_known_heads():
    """Heads +-2 e_j: mean 0, covariance 4 / k I, every head of length 2."""
    heads = np.concatenate([2 * np.eye(3), -2 * np.eye(3)])
    problem = Problem(np.eye(5)[:, :3], heads)
    assert problem.largest == 2
    assert problem.diversity == pytest.approx(np.sqrt(4 / 3))
    assert problem.condition == pytest.approx(np.sqrt(3))
    assert problem.deviation == pytest.approx(2)
    # w w^T - 4/3 I has eigenvalues 8/3 and -4/3
    assert problem.spread**4 == pytest.approx((8 / 3) ** 2)
    assert Problem(np.eye(5)[:, :3], heads[:3]).diversity == 0


def test_batched_distances_are_the_principal_angle_distance():
    rng = np.random.default_rng(3)
    problem = problem_of(rng, 10, 3, 2)
    bodies = problem.body + rng.normal(size=(4, 2, 10, 3)) * np.geomspace(1e-9, 1, 8).reshape(4, 2, 1, 1)
    for at in np.ndindex(4, 2):
        expected = principal_angle_distance(bodies[at], problem.body)
        assert problem.distances(bodies)[at] == pytest.approx(expected, rel=1e-6)


def test_gradient_norm_is_that_of_appendix_c():
    rng = np.random.default_rng(4)
    problem = problem_of(rng, 6, 2, 3)
    body, head = rng.normal(size=(6, 2)), rng.normal(size=2)
    error = body @ head - problem.body @ problem.heads.mean(axis=0)
    expected = np.sqrt(np.linalg.norm(body.T @ error) ** 2 + np.linalg.norm(np.outer(error, head)) ** 2)
    assert problem.gradient_norm(body, head) == pytest.approx(expected)
