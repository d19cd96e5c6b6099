"""Collins et al. 2022 on live runs: Theorem 1, Proposition 1, Figures 1 and 3, and the identity with the library's FedAvg."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from manyheads import SGD, FedAvg, simulate
from manyheads.core.errors import UserError
from manyheads.data import Federation, Samples
from manyheads.metrics import principal_angle_distance
from manyheads.models import Model
from manyheads.run.loop import sample_cohort
from manyheads.run.training import Training
from manyheads.theory import Collins2022, figure_of, theory
from manyheads.theory.collins2022.linear_fedavg import LocalUpdates, Problem, d_gd_step
from manyheads.theory.collins2022.proposition1 import hard_body, lower_bound


def problem_of(rng, d, k, clients):
    return Problem(np.linalg.qr(rng.normal(size=(d, k)))[0], rng.normal(size=(clients, k)))


@pytest.fixture(scope="module")
def paper():
    """The paper's setting: d 100, k 5, M 40, alpha 0.4, tau 2."""
    return theory(Collins2022())


# -- the iteration --------------------------------------------------------------------------------------------------------


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


# -- the paper's figures ----------------------------------------------------------------------------------------------------


def test_figure_1_fedavg_learns_the_representation_at_a_linear_rate(paper):
    dist = paper["series"]["dist"]
    assert dist[0] > 0.99
    assert min(dist) < 1e-6
    assert paper["measured"]["rounds_to_1e-06"] < 400
    assert paper["measured"]["fit"]["r2"] > 0.98
    # the leading term of the proof, 1 - alpha^2 (tau - 1) mu^2, is the rate
    assert paper["measured"]["fit"]["contraction"] == pytest.approx(paper["measured"]["leading_term"], abs=0.005)


@pytest.mark.parametrize("seed", [1, 5])
def test_figure_1_with_other_seeds(seed):
    facts = theory(Collins2022(seed=seed, rounds=250, instances=0))
    assert facts["series"]["dist"][-1] < 1e-6
    assert facts["measured"]["fit"]["r2"] > 0.98
    assert min(facts["d_gd"]["dist"]) > 0.9


def test_figure_1_d_gd_does_not():
    facts = theory(Collins2022(tau=1, instances=0))
    assert min(facts["series"]["dist"]) > 0.9
    assert facts["measured"]["fit"] is None
    assert facts["series"]["dist"] == pytest.approx(facts["d_gd"]["dist"])


def test_figure_3_d_gd_goes_to_a_stationary_point_and_fedavg_does_not(paper):
    fedavg = paper["series"]["gradient_norm"]
    assert fedavg[-1] == pytest.approx(fedavg[-100], rel=1e-3)
    setting = Collins2022()
    problem = setting.problem()
    body, head = setting.initial_body(problem) / np.sqrt(0.4), np.zeros(5)
    assert problem.gradient_norm(body, head) == pytest.approx(paper["d_gd"]["gradient_norm"][0])
    for _ in range(1500):
        body, head = d_gd_step(problem, body, head, 0.4)
    assert problem.gradient_norm(body, head) < 0.01 * fedavg[-1]
    assert principal_angle_distance(body, problem.body) > 0.9


def test_more_local_steps_need_fewer_rounds(paper):
    more = [theory(Collins2022(tau=tau, instances=0, rounds=160))["measured"]["rounds_to_1e-06"] for tau in (4, 8)]
    assert more[1] < more[0] < paper["measured"]["rounds_to_1e-06"]


def test_the_local_heads_become_as_diverse_as_the_true_ones(paper):
    series = paper["series"]
    assert series["head_diversity"][-1] == pytest.approx(paper["problem"]["mu"], rel=0.02)
    assert series["head_diversity"][0] < 0.2 * paper["problem"]["mu"]
    # near the truth B_perp^T B shrinks by the prior weight
    assert series["prior_weight"][-1] == pytest.approx(paper["measured"]["fit"]["contraction"], abs=1e-3)
    assert max(series["delta"]) < 0.1


# -- Theorem 1 ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tau", [2, 4])
def test_theorem_1_within_its_assumptions(tau, seed):
    """With the largest step that it allows, all hypotheses of the induction and the bound hold, in every round."""
    facts = theory(
        Collins2022(alpha=0, start=0.1, dim=20, rank=2, clients=30, rounds=40, tau=tau, seed=seed, instances=0)
    )
    assert facts["within_assumptions"] is True
    assert len(facts["hypotheses"]) == 9
    assert all(h["holds"] for h in facts["hypotheses"])
    assert facts["bound"]["violations"] == 0
    # the bound is tiny but not empty: the energy outside really falls by at least as much in every round
    a4 = next(h for h in facts["hypotheses"] if h["name"].startswith("A4"))
    assert a4["value"] < facts["bound"]["contraction"] < 1
    assert facts["measured"]["fit"]["contraction"] < facts["bound"]["contraction"]


def test_the_monitors_can_fail():
    """D-GD within all other assumptions: the energy outside does not fall, so A4 fails, and tau is what is named."""
    facts = theory(Collins2022(alpha=0, start=0.1, dim=20, rank=2, clients=30, rounds=40, tau=1, instances=0))
    assert [c["name"] for c in facts["conditions"] if not c["holds"]] == ["local steps: tau"]
    assert facts["within_assumptions"] is False
    a4 = next(h for h in facts["hypotheses"] if h["name"].startswith("A4"))
    assert not a4["holds"]
    assert a4["first_failure"] is not None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"alpha": 1e-4}, "step size: alpha"),
        ({"cohort": 5}, "clients a round: m"),
        ({"clients": 2}, "client diversity: mu (Assumption 2)"),
    ],
)
def test_what_is_outside_is_named(change, named):
    inside = Collins2022(alpha=1e-7, start=0.1, dim=20, rank=2, clients=30, rounds=3, instances=0)
    assert theory(inside)["within_assumptions"] is True
    facts = theory(replace(inside, **change))
    assert named in [c["name"] for c in facts["conditions"] if not c["holds"]]
    assert facts["within_assumptions"] is False
    json.dumps(facts, allow_nan=False)


def test_the_paper_s_own_figure_is_outside_its_theorem(paper):
    """alpha = 0.4 is far above the constant of the proof; the bound holds all the same."""
    assert [c["name"] for c in paper["conditions"] if not c["holds"]] == ["step size: alpha"]
    assert paper["bound"]["violations"] == 0
    assert paper["measured"]["fit"]["contraction"] < paper["bound"]["contraction"]


def test_the_start_is_where_it_is_asked_for():
    paper = Collins2022(start=0.3, dim=20, rank=4)
    assert principal_angle_distance(paper.initial_body(paper.problem()), paper.problem().body) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 50.0}, "diverged"),
        ({"cohort": 50}, "more clients a round"),
        ({"dim": 6, "rank": 4, "start": 0.1}, "no room"),
        ({"dim": 3, "rank": 4}, "rank above"),
        ({"clients": 2, "alpha": 0}, "allows no step"),
    ],
)
def test_what_cannot_be_run_is_refused(settings, message):
    with pytest.raises(UserError, match=message):
        theory(Collins2022(**settings))


# -- Proposition 1 ------------------------------------------------------------------------------------------------------------


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


def test_figure_has_three_panels(paper):
    assert len(figure_of(paper).to_dict()["hconcat"]) == 3
