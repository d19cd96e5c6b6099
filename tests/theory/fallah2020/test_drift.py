"""Proposition E.1 and Corollary E.2 of Fallah et al. 2020: the drift of local iterates, and its bounds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from landscapes import SMALL, lands

from manyheads import Model, PerFedAvg, simulate
from manyheads.theory import theory
from manyheads.theory.fallah2020.drift import drift_bounds, local_drifts
from manyheads.theory.fallah2020.meta import gamma_F2, sigma_F2, smoothness_F
from manyheads.theory.fallah2020.smoothness import Constants, known_for_softmax

C = Constants(L=2, rho=3, B=5, sigma_G=0.5, sigma_H=7, gamma_G=0.1, gamma_H=11)


def algorithm(beta, tau=4, alpha=0.3):
    return PerFedAvg(alpha=alpha, beta=beta, steps=tau, batch=4, outer_batch=4, hessian_batch=4)


def test_bounds_are_the_recursions_of_the_proof_step_by_step():
    method = algorithm(beta=0.001)
    L, s2, g2 = smoothness_F(C, 0.3), sigma_F2(C, method), gamma_F2(C, 0.3)
    found, phi, beta = drift_bounds(C, method), 1 / 8, 0.001
    S = Sigma = 0.0
    for t in range(4):
        S = (1 + 2 * beta * L) * S + 2 * beta * (math.sqrt(s2) + math.sqrt(g2))  # (67)
        added = 4 * (1 + 1 / phi) * beta**2 * (2 * s2 + g2)
        Sigma = (1 + phi + 16 * (1 + 1 / phi) * (beta * L) ** 2) * Sigma + added  # (80)
        assert found["recursion_mean"][t] == pytest.approx(S)
        assert found["recursion_square"][t] == pytest.approx(Sigma)
        assert found["mean"][t] == pytest.approx(S + (math.sqrt(s2) + math.sqrt(g2)) / L)  # (59a): the -1 left out
        assert found["square"][t] >= Sigma


@pytest.mark.parametrize("tau", [1, 3, 20])
def test_corollary_follows_from_the_proposition(tau):
    L = smoothness_F(C, 0.3)
    method = algorithm(beta=1 / (10 * tau * L), tau=tau)
    s2, g2, found = sigma_F2(C, method), gamma_F2(C, 0.3), drift_bounds(C, method)
    assert max(found["mean"]) <= 2 * (math.sqrt(s2) + math.sqrt(g2)) / L
    assert max(found["square"]) <= (2 * s2 + g2) / L**2


def test_without_steps_the_recursion_has_no_drift_and_the_printed_bound_keeps_its_own():
    """beta -> 0: the drift and (67) vanish in proportion to beta; (59a) tends to (sigma_F + gamma_F) / L_F."""
    small, smaller = (drift_bounds(C, algorithm(beta=beta)) for beta in (1e-6, 1e-7))
    assert small["recursion_mean"][-1] / smaller["recursion_mean"][-1] == pytest.approx(10, rel=1e-3)
    assert small["mean"][-1] / smaller["mean"][-1] == pytest.approx(1, rel=1e-3)


def test_local_drifts_are_those_of_the_runs_uploads():
    federation, clients, _, _ = lands()
    method, model = algorithm(beta=0.1, tau=3), Model(clients.model.module)
    apart, states = [], []

    def watch(end):
        flat = torch.cat([v.flatten(1) for v in end.rows.model.values()], dim=1)
        apart.append((flat - flat.mean(dim=0)).norm(dim=1))
        states.append(end.server.model)

    simulate(method, model, federation, rounds=2, monitor=["local_drift"], on_round=watch)
    found = local_drifts(clients, method, clients.flat(states[0]), 2)
    torch.testing.assert_close(found[-1], apart[1], rtol=1e-8, atol=1e-12)
    assert found.shape == (3, len(federation))
    assert torch.all(found.mean(dim=1).diff() > 0)


def test_a_run_stays_below_every_bound_of_its_drift():
    facts = theory(SMALL)
    rows = {row["name"]: row for row in facts["lemmas"]}
    for name in ("Proposition E.1 (59a)", "Recursion (67)", "Proposition E.1 (59b)", "Recursion (80)",
                 "Corollary E.2 (60a)", "Corollary E.2 (60b)"):  # fmt: skip
        assert rows[name]["below"], name
        assert rows[name]["measured"] > 0
    assert len(facts["local_steps"]) == SMALL.tau
    series = facts["series"]
    assert len(series["drift"]) == len(series["local_drift"]) == SMALL.rounds
    assert max(series["local_drift"]) == rows["Corollary E.2 (60a)"]["measured"]
    assert np.all(np.array(series["local_drift"]) ** 2 <= np.array(series["local_drift_square"]) * (1 + 1e-9))


def test_a_round_of_one_client_has_no_drift():
    facts = theory(replace(SMALL, participation=0.25, rounds=3, draws=3))
    assert facts["series"]["local_drift"] == [None] * 3


def test_the_corrected_constant_halves_the_dominant_term():
    facts = theory(replace(SMALL, rounds=3, draws=3))
    bound, c = facts["bound"], known_for_softmax(SMALL.federation())
    assert bound["terms"]["gamma_F"] - bound["terms_corrected"]["gamma_F"] == pytest.approx(60 * 96 * c.gamma_G**2)
    assert bound["value_corrected"] < 0.55 * bound["value"]
    assert bound["violations_corrected"] == 0
    assert len(facts["series"]["bound_corrected"]) == 3
