"""Lemma 1 of Collins et al. 2022: the event A_0, its probability, and the two slips in its proof."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads.theory import Collins2022, figure_of, sweep, theory
from manyheads.theory.collins2022 import cohort_sizes
from manyheads.theory.collins2022.linear_fedavg import Problem
from manyheads.theory.collins2022.participation import CORRECTED, PRINTED, Lemma1


def lemma_of(heads, step=0.2, rounds=1):
    heads = np.array(heads, dtype=float)
    return Lemma1(Problem(np.eye(heads.shape[1]), heads), step / np.linalg.norm(heads, axis=1).max(), rounds)


def exponent(lemma, constant):
    """In units of log(kT), at the number of clients that the lemma asks for."""
    log = np.log(len(lemma.problem.mean) * lemma.rounds)
    return min(lemma.exponents(lemma.clients(constant))) / log


def test_the_printed_constant_20_gives_an_exponent_of_80_and_25_gives_the_100_that_is_claimed():
    """Heads +-1: gamma = L and H = 0, so that only the first of the two terms is there."""
    lemma = lemma_of([[1.0], [-1.0]] * 50, rounds=400)
    assert exponent(lemma, PRINTED) == pytest.approx(80)
    assert exponent(lemma, CORRECTED) == pytest.approx(100)
    # and with k = 2, nine of ten heads along one direction: H^4 = 0.09
    uneven = lemma_of([*([[1.0, 0.0], [-1.0, 0.0]] * 45), *([[0.0, 1.0], [0.0, -1.0]] * 5)], rounds=400)
    assert uneven.problem.spread**4 == pytest.approx(0.09)
    assert exponent(uneven, PRINTED) == pytest.approx(80 * 1.09)
    assert exponent(uneven, CORRECTED) > 100


def test_the_proof_bounds_the_largest_entry_and_the_event_is_about_the_length():
    """diag(w) has the norm max |w_j|, which is 1/sqrt(k) of |w| for w = (1, ..., 1); the dilation has |w|."""
    w = np.ones(4)
    assert np.linalg.norm(np.diag(w), 2) == pytest.approx(np.linalg.norm(w) / 2)
    dilation = np.block([[np.zeros((4, 4)), w[:, None]], [w[None], np.zeros((1, 1))]])
    assert np.linalg.norm(dilation, 2) == pytest.approx(np.linalg.norm(w))
    # its variance is the same gamma^2
    heads = np.random.default_rng(0).normal(size=(30, 4))
    centred = heads - heads.mean(axis=0)
    squares = [np.block([[np.outer(v, v), np.zeros((4, 1))], [np.zeros((1, 4)), v @ v]]) for v in centred]
    assert np.linalg.norm(np.mean(squares, axis=0), 2) == pytest.approx(Problem(np.eye(4), heads).deviation ** 2)


@pytest.mark.parametrize("step", [0.2, 0.3])
def test_cohorts_fail_no_more_often_than_the_bound(step):
    """Monte Carlo, at sizes where the bound is neither 0 nor 1."""
    rng = np.random.default_rng(0)
    lemma = lemma_of(rng.normal(size=(500, 2)), step)
    tried = 0
    for m in (4, 8, 16, 32, 64, 128, 256, 499):
        draws = [lemma.distances(rng.choice(500, size=m, replace=False)) for _ in range(500)]
        failed = np.mean([not lemma.holds(found) for found in draws])
        assert failed <= lemma.failure(m)
        tried += 0 < lemma.failure(m) < 1
    assert tried >= 2
    assert lemma.failure(500) == 0


def test_a_cohort_is_compared_with_all_clients_by_hand():
    rng = np.random.default_rng(1)
    lemma = lemma_of(rng.normal(size=(9, 3)))
    chosen, heads = np.array([1, 4, 5]), lemma.problem.heads
    mean, outer = lemma.distances(chosen)
    assert mean == pytest.approx(np.linalg.norm(heads[chosen].mean(axis=0) - heads.mean(axis=0)))
    second = [sum(np.outer(w, w) for w in some) / len(some) for some in (heads[chosen], heads)]
    assert outer == pytest.approx(np.linalg.norm(second[0] - second[1], 2))
    assert lemma.limits == pytest.approx((4 * lemma.alpha**2 * lemma.problem.largest**3, 4 * lemma.alpha**2 * lemma.problem.largest**4))  # fmt: skip


def test_a_0_along_a_run_and_theorem_2_s_probability():
    facts = theory(Collins2022(dim=20, rank=2, clients=30, cohort=20, rounds=50, instances=0))["participation"]
    assert facts["m"] == 20
    assert facts["A_0"] is True
    assert facts["vacuous"] is True  # at step 0.4 no cohort could be outside
    assert 0 < facts["largest_mean"] < facts["limit_mean"]
    assert facts["needs_corrected"] == pytest.approx(1.25 * facts["needs"])
    assert facts["log10_failure_printed"] == pytest.approx(np.log10(4) - 99 * np.log10(100))
    everyone = theory(Collins2022(dim=20, rank=2, clients=30, rounds=50, instances=0))["participation"]
    assert (everyone["failure_bound"], everyone["largest_mean"]) == (0, 0)
    small = theory(Collins2022(alpha=0.01, dim=20, rank=2, clients=30, cohort=3, rounds=5, instances=0))[
        "participation"
    ]
    assert small["A_0"] is False
    assert small["failure_bound"] == 1


def test_the_lemma_asks_for_more_clients_than_needed_and_at_the_theorem_s_step_than_there_can_be(monkeypatch):
    monkeypatch.setattr(cohort_sizes, "DRAWS", 200)
    facts = sweep(Collins2022(), "cohort")
    assert [row["name"] for row in facts["outcome"] if row["holds"] is not True] == []
    assert facts["needs_corrected"] == pytest.approx(1.25 * facts["needs"])
    assert facts["rows"][0]["failed"] > 0.9
    assert figure_of(facts).to_dict()["encoding"]


def test_at_the_theorem_s_step_less_than_all_clients_is_never_allowed():
    """m >= 20 (gamma/L)^2 (alpha L)^-4 log(kT), with alpha L <= 1 / (4800 sqrt(tau) kappa^2) and (gamma/L)^2 >= k/kappa^2."""
    for seed in range(3):
        facts = theory(Collins2022(seed=seed, rounds=5, instances=0))
        kappa, k, tau, rounds = facts["problem"]["kappa_max"], 5, 2, 40
        least = 20 * k / kappa**2 * 4800**4 * tau**2 * kappa**8 * np.log(k * rounds)
        assert facts["theorem_step"]["clients_for_less_than_all"] > least > 1e16
