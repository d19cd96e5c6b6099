"""Collins et al. 2021 on live runs: bound (10), the subsets it is about, and what few samples are good for."""

from __future__ import annotations

from itertools import combinations, islice

import numpy as np
import pytest

from manyheads import FedRepLinear
from manyheads.data import Truth
from manyheads.metrics import principal_angle_distance
from manyheads.theory import Collins2021, figure_of, theory
from manyheads.theory.collins2021 import few_samples
from manyheads.theory.collins2021.few_samples import newcomer_errors, sample_sweep
from manyheads.theory.collins2021.fresh import fresh_rounds
from manyheads.theory.collins2021.subsets import extreme_singular_values


def convergence(**settings):
    return theory(Collins2021(**{"only": "convergence", "clients": 20, "dim": 10, "rounds": 60} | settings))


# -- singular values over subsets -----------------------------------------------------------------------------------------


def by_hand(heads, size):
    values = [np.linalg.svd(heads[list(rows)] / np.sqrt(size))[1] for rows in combinations(range(len(heads)), size)]
    return min(v[-1] for v in values), max(v[0] for v in values)


@pytest.mark.parametrize(("n", "size", "k"), [(8, 3, 2), (8, 8, 3), (10, 5, 3)])
def test_few_subsets_are_exact(n, size, k):
    heads = np.random.default_rng(n).normal(size=(n, k))
    found = extreme_singular_values(heads, size, np.random.default_rng(0))
    low, high = by_hand(heads, size)
    assert found.exact
    assert found.smallest == pytest.approx((low, low))
    assert found.largest == pytest.approx((high, high))


@pytest.mark.parametrize(("n", "size", "k"), [(12, 9, 2), (12, 6, 3), (12, 2, 2)])
def test_bounds_enclose_the_exact_values(n, size, k, monkeypatch):
    monkeypatch.setattr("manyheads.theory.collins2021.subsets.MOST_SUBSETS", 0)
    heads = np.random.default_rng(n).normal(size=(n, k))
    found = extreme_singular_values(heads, size, np.random.default_rng(0))
    low, high = by_hand(heads, size)
    assert found.smallest[0] - 1e-12 <= low <= found.smallest[1] + 1e-12
    assert found.largest[0] - 1e-12 <= high <= found.largest[1] + 1e-12
    # the search finds the extreme subset in problems of this size
    assert found.smallest[1] == pytest.approx(low, abs=1e-7)
    assert found.largest[0] == pytest.approx(high)


def test_fewer_clients_than_features_do_not_span():
    assert extreme_singular_values(np.eye(3), 2, np.random.default_rng(0)).smallest == (0, 0)


# -- the run ----------------------------------------------------------------------------------------------------------------


def test_fresh_rounds_are_algorithm_2_step_by_step():
    """Against the paper's lines, written out for one client after another, on the samples that were drawn."""
    from manyheads.core.randomness import Purpose, generator

    rng, seed, m, eta = np.random.default_rng(0), 3, 6, 0.2
    truth = Truth(np.linalg.qr(rng.normal(size=(5, 2)))[0], rng.normal(size=(4, 2)))
    found = list(islice(fresh_rounds(FedRepLinear(eta=eta), truth, cohort=4, samples=m, noise=0, seed=seed), 4))
    body = None
    for index, expected in enumerate(found, start=1):
        x = generator(seed, Purpose.BATCHES, index).standard_normal((4, m, 5))
        y = [x[i] @ truth.body @ truth.heads[i] for i in range(4)]
        if index == 1:
            z = sum((x[i] * y[i][:, None] ** 2).T @ x[i] / m for i in range(4)) / 4
            body = np.linalg.eigh(z)[1][:, -2:]
            assert principal_angle_distance(body, expected) < 1e-12
            body = expected
        else:
            new = []
            for i in range(4):
                w = np.linalg.lstsq(x[i] @ body, y[i], rcond=None)[0]
                new.append(body - eta * x[i].T @ np.outer(x[i] @ body @ w - y[i], w) / m)
            body = np.mean(new, axis=0)
            np.testing.assert_allclose(expected, body, atol=1e-12)


def test_partial_participation_keeps_the_heads_of_absent_clients():
    """GD-GD's heads go on from where they were: with r < 1 it still converges."""
    facts = convergence(participation=0.5, samples=50, rounds=150)
    assert facts["series"]["GD-GD"][-1] < 1e-4


# -- Theorem 1 ----------------------------------------------------------------------------------------------------------------


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


# -- few samples ----------------------------------------------------------------------------------------------------------------


def test_more_clients_make_up_for_few_samples(monkeypatch):
    monkeypatch.setattr(few_samples, "SAMPLES", (2, 8))
    monkeypatch.setattr(few_samples, "ROUNDS", 60)
    rows = {(r["clients"], r["dim"], r["samples"]): r for r in sample_sweep(20, 2, 20, 0, lambda _: None)}
    assert len(rows) == 10
    assert rows[100, 20, 8]["dist"] < 1e-2 < rows[4, 20, 8]["dist"]
    assert rows[20, 10, 8]["dist"] < rows[20, 40, 8]["dist"]
    # 8 samples are few for 20 unknowns, and enough for a head of 2
    assert rows[100, 20, 8]["error"] < 1e-4 < 0.1 < rows[100, 20, 8]["error_local"]
    # as many samples as features leave no error to learn from
    assert rows[20, 20, 2]["dist"] > 0.5


def test_a_new_client_needs_k_samples_with_the_representation_and_d_without():
    rows = newcomer_errors(10, 2, 40, 0)
    assert [r["samples"] for r in rows] == list(range(1, 21))
    head, local = ([r[key] for r in rows] for key in ("head", "local"))
    assert head[0] > 0.1 > 1e-3 > head[1]
    assert local[8] > 1e-3 > local[9]
    assert all(h < a for h, a in zip(head, local, strict=True))


def test_figure_shows_what_there_is():
    assert len(figure_of(convergence(samples=50)).to_dict()["concat"]) == 1
