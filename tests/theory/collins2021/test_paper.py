"""Theorem 1 of Collins et al. 2021 on runs: bound (10) and its conditions."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads.theory import Collins2021, figure_of, theory


def convergence(**settings):
    return theory(Collins2021(**{"only": "convergence", "clients": 20, "dim": 10, "rounds": 60} | settings))


def test_partial_participation_keeps_the_heads_of_absent_clients():
    """GD-GD's heads go on from where they were: with r < 1 it still converges."""
    facts = convergence(participation=0.5, samples=50, rounds=150)
    assert facts["series"]["GD-GD"][-1] < 1e-4


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "settings",
    [{"samples": 150}, {"samples": 500, "rank": 3, "clients": 50}, {"samples": 200, "participation": 0.9}],
)
def test_bound_10_holds_where_its_conditions_do(settings, seed):
    facts = convergence(seed=seed, rounds=30, **settings)
    decidable = [c for c in facts["conditions"] if not c["name"].startswith("samples")]
    assert all(c["holds"] for c in decidable)
    assert facts["problem"]["sigma_exact"]
    assert facts["conditions"][-1]["value"] > 1  # m at least what the theorem asks for with c = 1
    assert facts["within_assumptions"] is None  # c has no name
    assert facts["bound"]["violations"] == 0
    bound, dist = np.array(facts["series"]["bound"]), np.array(facts["series"]["FedRep"])
    assert (dist <= bound + 1e-14).all()
    e0, sigma, eta = (facts["problem"][k] for k in ("E_0", "sigma_min", "eta"))
    assert bound[-1] == pytest.approx(dist[0] * (1 - eta * e0 * sigma[0] ** 2 / 2) ** 15)
    assert facts["measured"]["FedRep"]["contraction"] < facts["bound"]["contraction"]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"eta": 1.5}, "step size: eta"),
        ({"noise": 0.1}, "labels without noise"),
        ({"normalise": False}, "client normalisation"),
        ({"participation": 0.05}, "client diversity"),
    ],
)
def test_what_is_outside_is_named(settings, named):
    facts = convergence(samples=100, rounds=5, **settings)
    assert facts["within_assumptions"] is False
    assert next(c["name"] for c in facts["conditions"] if c["holds"] is False).startswith(named)


def test_outside_the_bound_may_fail_and_this_is_said():
    facts = convergence(samples=100, noise=0.5, rounds=150)
    assert facts["bound"]["violations"] > 50
    assert "outside the assumptions" in facts["bound"]["verdict"]
    few = convergence(samples=3, rounds=100)
    assert few["bound"]["violations"] > 0
    assert few["conditions"][-1]["value"] < 0.2
    assert "open" in few["bound"]["verdict"]


def test_exact_heads_are_fastest():
    found = convergence(samples=100)["measured"]
    assert found["FedRep"]["contraction"] < found["10GD-GD"]["contraction"] < found["GD-GD"]["contraction"]


def test_a_baseline_that_diverges_does_not_stop_the_rest():
    said = []
    setting = Collins2021(only="convergence", clients=20, dim=10, rounds=60, head_eta=100.0)
    facts = theory(setting, said.append)
    assert facts["series"]["GD-GD"][-1] is None
    assert facts["series"]["FedRep"][-1] < 1e-4
    assert any(line.startswith("GD-GD diverged in round") for line in said)


def test_exact_heads_forgive_a_step_that_is_far_too_large():
    """B only becomes longer, and the heads shorter, until the step is small for them."""
    facts = convergence(samples=100, eta=20.0)
    assert facts["within_assumptions"] is False
    assert facts["series"]["FedRep"][-1] < 1e-10
    assert facts["series"]["GD-GD"][-1] is None


def test_figure_shows_what_there_is():
    assert len(figure_of(convergence(samples=50)).to_dict()["concat"]) == 1


def test_the_three_sample_complexities_differ():
    """Theorem 1, (11), which is said to be Theorem 1's times log(1/eps), and contribution (ii); E_0 = 1, all clients."""
    facts = convergence(samples=150, rank=3, clients=20, rounds=2)
    kappa, k, d, n = facts["problem"]["kappa"], 3, 10, 20
    theorem = kappa**4 * k**3 * np.log(n) + kappa**4 * k**2 * d / n
    eleven = kappa**4 * k**3 * (np.log(n) + kappa**4 * k * d / n)
    contribution = kappa**2 * k**3 * (np.log(n) + kappa**2 * k * d / n)
    e0 = facts["problem"]["E_0"]
    assert facts["conditions"][-1]["value"] == pytest.approx(150 / (theorem / e0**2))  # what is used here
    assert eleven - theorem == pytest.approx(kappa**4 * k**2 * d / n * (kappa**4 * k**2 - 1))
    assert contribution < theorem < eleven
