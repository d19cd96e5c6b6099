"""Theorem 1's conditions in both versions of the paper, vacuous limits, Lemma 8, and slips in the proof."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from manyheads.theory import Collins2022, theory
from manyheads.theory.collins2022.assumptions import asked, asked_by_neurips


@pytest.mark.parametrize(("k", "clients"), [(1, 4), (2, 30), (5, 40)])
def test_the_two_versions_ask_for_the_same(k, clients):
    """L sqrt(k) = L_max, kappa sqrt(k) = kappa_max, gamma^2 / k and H^4 / k^2: every k cancels."""
    problem = Collins2022(dim=20, rank=k, clients=clients).problem()
    found, constants = asked_by_neurips(problem, 0.1, 3, 0.5, 100)
    assert asdict(found) == pytest.approx(asdict(asked(problem, 0.1, 3, 0.5, 100)))
    assert constants["L"] * np.sqrt(k) == pytest.approx(problem.largest)
    assert constants["kappa"] * np.sqrt(k) == pytest.approx(problem.condition)
    assert k * constants["gamma"] ** 2 == pytest.approx(problem.deviation**2)
    assert k**2 * constants["H"] ** 4 == pytest.approx(problem.spread**4)


def test_at_the_paper_s_step_limits_are_vacuous_and_at_the_theorem_s_they_are_not():
    facts = theory(Collins2022(rounds=200, instances=0))
    limits = {h["name"].partition(":")[0]: h for h in facts["hypotheses"]}
    assert all(h["holds"] for h in limits.values())
    assert [name for name, h in limits.items() if h["vacuous"]] == ["local A1", "local A3", "A1", "A3"]
    assert "vacuous: B = 0 would do" in limits["A3"]["needs"]
    assert facts["vacuous"] == 4
    near = facts["theorem_step"]
    assert near["within_assumptions"] is True
    assert (near["violations"], near["vacuous"]) == (0, 1)
    at = {h["name"].partition(":")[0]: h for h in facts["hypotheses_at_theorem_step"]}
    assert all(h["holds"] for h in at.values())
    # only A5 is left: 40 rounds of a bound that gains 1e-13 a round
    assert [name for name, h in at.items() if h["vacuous"]] == ["A5"]
    assert near["gain"] > near["gain_of_bound"] > 0
    # and a round gains what the sharp term says, times 1 - dist^2
    assert near["gain"] == pytest.approx(near["gain_of_sharp_term"] * (1 - near["delta_0"] ** 2), rel=0.02)


def test_a_vacuous_limit_is_met_by_a_run_that_learns_nothing():
    """The limits called vacuous are above what heads of 0 and B = 0 give."""
    facts = theory(Collins2022(rounds=3, instances=0))
    length, alpha = facts["problem"]["L_max"], 0.4
    for hypothesis in facts["hypotheses"]:
        limit = hypothesis["value"] / hypothesis["ratio"]
        if hypothesis["vacuous"] and not hypothesis["name"].startswith("A5"):
            assert limit >= (1 if "I - alpha" in hypothesis["name"] else np.sqrt(alpha) * length)


def test_no_theorem_step_where_the_theorem_has_none():
    assert theory(Collins2022(dim=6, rank=4, clients=20, rounds=3, instances=0))["theorem_step"] is None
    assert theory(Collins2022(dim=20, rank=2, clients=2, rounds=3, instances=0))["theorem_step"] is None
    assert theory(Collins2022(dim=20, rank=2, clients=9, alpha=0, start=0.1, rounds=3))["theorem_step"] is None


@pytest.mark.parametrize("tau", [2, 5])
def test_lemma_8_holds_along_a_run(tau):
    for settings in ({}, {"alpha": 0.0, "start": 0.3}):
        facts = theory(Collins2022(dim=20, rank=2, clients=30, rounds=60, tau=tau, instances=0, **settings))
        assert facts["lemma_8"]["holds"] is True
        assert facts["lemma_8"]["smallest"] > 0.9  # far from the 0.1 of the lemma


def test_the_polynomial_of_lemma_8_is_misprinted_and_its_conclusion_holds():
    """(26): both sides multiplied out anew. The printed one differs by -c d^3 on the left and 8 d^2 on the right."""
    d, c = np.linspace(0, 1, 1001)[:-1], 0.1
    left = (1 + d + c * (1 - d) ** 2 * (1 + d)) * d**2
    right = (4 + 4 * d + d**2) * (1 - c + (1 + c) * d) / 9
    np.testing.assert_allclose(left, (1 + c) * d**2 + (1 - c) * d**3 - c * d**4 + c * d**5)
    np.testing.assert_allclose(right, (4 - 4 * c + 8 * d + (5 + 3 * c) * d**2 + (1 + c) * d**3) / 9)
    assert (left <= right).all()
    printed = (1 + c) * d**2 + d**3 - c * d**4 + c * d**5 - (4 - 4 * c + 8 * d + 8 * d**2 + (1 + c) * d**3) / 9
    assert (printed <= 0).all()
    assert np.abs(printed - (left - right)).max() > 0.1


def test_delta_1_is_bounded_by_17_not_10():
    """|Delta_1| <= |Delta_0| + 2 alpha^2 |B_0^T G_0| + alpha^3 |G_0|^2 with the printed 8 tau L^2 and 49 alpha tau^2 L^4."""
    growth = 2 * 8 + 49 / 4800**2  # over alpha^2 tau L^2; alpha^2 tau L^2 <= 1 / c_3^2
    assert 10 < growth < 17 < 4800 - 1


def test_lemma_5_proves_the_1_1_of_its_hypothesis_where_it_prints_2():
    x = 1 / 4800  # c_3 alpha^2 tau L^2 kappa^2 / E_0 at the largest step: (1 - delta_0)^2 / E_0 <= 1, kappa >= 1
    assert np.sqrt((1 + x) / (1 - 2 * x)) < 1.001
