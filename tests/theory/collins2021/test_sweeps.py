"""What the sweeps state: FedAvg on FedRep's samples, the map against local training, batches, wrong models."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from manyheads import FedRepLinear
from manyheads.metrics import principal_angle_distance
from manyheads.theory import Collins2021, figure_of, sweep, theory
from manyheads.theory.collins2021 import batches, crossover, misfits
from manyheads.theory.collins2021.batches import limit_rate, limit_rate_of_fixed
from manyheads.theory.collins2021.fresh import fresh_rounds
from manyheads.theory.collins2021.misfits import expected_error
from manyheads.theory.collins2021.single_model import irreducible_error
from manyheads.theory.collins2021.tasks import Tasks, train_fedavg, train_fedrep
from manyheads.theory.facts import fitted_contraction


def fails(facts):
    return [row["name"] for row in facts["outcome"] if row["holds"] is not True]


def test_the_irreducible_error_is_that_of_section_2_1_and_the_least():
    rng = np.random.default_rng(0)
    body, heads = np.linalg.qr(rng.normal(size=(7, 3)))[0], rng.normal(size=(5, 3))
    printed = np.mean([np.square(body @ (heads - head).mean(axis=0)).sum() for head in heads]) / 2
    assert irreducible_error(heads) == pytest.approx(printed)

    def loss(weights):
        return np.square(weights - heads @ body.T).sum(axis=1).mean() / 2

    best = body @ heads.mean(axis=0)
    assert loss(best) == pytest.approx(printed)
    assert all(loss(best + 0.1 * rng.normal(size=7)) > printed for _ in range(20))


def test_fedavg_learns_the_representation_from_two_local_steps_on():
    """As in the paper's Figures 1 and 4, whose FedAvg makes one: n 100, d 20, k 2, m 10 noisy samples."""
    facts = sweep(Collins2021(), "fedavg")
    assert not fails(facts)
    assert [row["method"] for row in facts["rows"]] == [*(f"FedAvg, tau {t}" for t in (1, 2, 10)), "FedRep"]
    assert facts["rows"][0]["loss"] == pytest.approx(facts["irreducible"], rel=0.1)
    assert len(figure_of(facts).to_dict()["hconcat"]) == 2


@pytest.mark.parametrize("samples", [4, 10, 100])
def test_the_limit_rate_with_fresh_batches_is_that_of_the_run(samples):
    """1 - eta (1 - k/m) sigma_min^2: a fitted head takes k of the m degrees of freedom of a batch."""
    setting = Collins2021(only="convergence", clients=200, dim=20, samples=samples, rounds=150, seed=1)
    facts = theory(setting)
    fit, limit = facts["measured"]["FedRep"]["contraction"], facts["limit"]
    assert fit == pytest.approx(limit["batches"], abs=0.004)
    eta, sigma = facts["problem"]["eta"], facts["problem"]["sigma_min"][0]
    assert limit["population"] == pytest.approx(1 - eta * sigma**2)
    # B is a little longer than 1, which adds at most 1e-2 to the rate
    assert limit["batches"] == pytest.approx(1 - eta * (1 - 2 / samples) * sigma**2, abs=0.01)
    assert facts["single_model"]["irreducible"] == pytest.approx(irreducible_error(setting.truth().heads))


def test_the_limit_rate_is_the_mean_of_one_round():
    """Monte Carlo: of one step from a B close to the truth, the part outside the true subspace, over many batches."""
    rng, eta, m = np.random.default_rng(0), 0.2, 5
    body, heads = np.eye(6)[:, :2], rng.normal(size=(4, 2))
    outside = np.vstack([np.zeros((2, 2)), 1e-6 * rng.normal(size=(4, 2))])
    start, ends = body + outside, []
    for _ in range(4000):
        new = []
        for head in heads:
            x = rng.normal(size=(m, 6))
            y = x @ body @ head
            w = np.linalg.lstsq(x @ start, y, rcond=None)[0]
            new.append(start - eta * x.T @ np.outer(x @ start @ w - y, w) / m)
        ends.append(np.mean(new, axis=0)[2:])
    expected = outside[2:] @ (np.eye(2) - eta * (1 - 2 / m) * heads.T @ heads / 4)
    np.testing.assert_allclose(np.mean(ends, axis=0), expected, atol=0.03 * np.abs(outside).max())
    slowest = np.linalg.eigvalsh(np.eye(2) - eta * (1 - 2 / m) * heads.T @ heads / 4)[-1]
    assert limit_rate(heads, eta, m) == pytest.approx(slowest)


def test_the_limit_rate_with_fixed_samples_is_that_of_the_run():
    tasks = Tasks(clients=40, dim=8, rank=2, samples=6, noise=0.0, seed=0)
    eta = float(40 / (4 * np.linalg.norm(tasks.truth.heads, ord=2) ** 2))
    fit = fitted_contraction(train_fedrep(tasks, 300, watch=True).distances, 1e-12, 1e-5)
    assert fit["contraction"] == pytest.approx(limit_rate_of_fixed(tasks, eta), abs=0.006)
    assert limit_rate_of_fixed(tasks, eta) > limit_rate(tasks.truth.heads, eta, 6)


def test_fixed_samples_are_slower_than_fresh_ones_and_may_be_too_few(monkeypatch):
    monkeypatch.setattr(batches, "ROUNDS", 150)
    facts = sweep(Collins2021(), "batches")
    assert not fails(facts)
    assert len(facts["rows"]) == 8
    assert len(figure_of(facts).to_dict()["hconcat"]) == 2


def test_the_distances_of_a_watched_run_are_those_of_its_bodies():
    tasks = Tasks(clients=20, dim=6, rank=2, samples=8, noise=0.0, seed=2)
    for train in (train_fedrep, lambda tasks, rounds, watch: train_fedavg(tasks, 2, 0.1, rounds, watch=watch)):
        found = train(tasks, 5, watch=True)
        assert len(found.distances) == 5
        assert found.distances[-1] == pytest.approx(found.distance(tasks))


def test_the_map_is_the_count_of_unknowns(monkeypatch):
    monkeypatch.setattr(crossover, "CLIENTS", (2, 3, 30))
    monkeypatch.setattr(crossover, "SAMPLES", (2, 3, 6, 80))
    facts = sweep(Collins2021(), "map")
    assert not fails(facts)
    assert {(r["clients"], r["samples"]) for r in facts["rows"]} == {(n, m) for n in (3, 30) for m in (3, 6, 80)}
    row = next(r for r in facts["rows"] if (r["dim"], r["clients"], r["samples"]) == (20, 30, 6))
    assert row["equations_per_unknown"] == pytest.approx(30 * 4 / 36)
    assert row["decades"] < -2
    assert len(figure_of(facts).to_dict()["hconcat"]) == 3


def test_too_few_features_cost_what_they_leave_out_and_too_many_cost_little(monkeypatch):
    monkeypatch.setattr(misfits, "RANKS", (1, 3, 10))
    facts = sweep(Collins2021(), "rank")
    assert not fails(facts)
    assert figure_of(facts).to_dict()["hconcat"]


def test_what_clients_do_not_share_costs_its_square(monkeypatch):
    monkeypatch.setattr(misfits, "APART", (0.03, 0.1, 0.3))
    facts = sweep(Collins2021(), "shared")
    assert not fails(facts)
    assert len(figure_of(facts).to_dict()["hconcat"]) == 2


def test_the_closed_form_of_a_given_subspace():
    """Monte Carlo: clients that fit the first k' principal directions of their weights, on samples of their own."""
    tasks = Tasks(clients=4000, dim=6, rank=3, samples=8, noise=0.3, seed=0, apart=0.4)
    values, vectors = np.linalg.eigh(tasks.weights.T @ tasks.weights / 4000)
    top = vectors[:, -2:]
    x, y = tasks.drawn
    found = np.stack([np.linalg.lstsq(a @ top, b, rcond=None)[0] for a, b in zip(x, y, strict=True)]) @ top.T
    error = np.square(found - tasks.weights).sum(axis=1).mean()
    assert error == pytest.approx(expected_error(tasks, 2), rel=0.05)
    assert expected_error(tasks, 2) > values[:-2].sum()


def test_what_clients_have_apart_has_the_length_asked_for():
    tasks = Tasks(clients=5, dim=7, rank=2, samples=3, noise=0.0, seed=1, apart=0.3)
    inside = tasks.weights @ tasks.truth.body @ tasks.truth.body.T
    np.testing.assert_allclose(inside, tasks.truth.heads @ tasks.truth.body.T, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(tasks.weights - inside, axis=1), 0.3 * np.sqrt(2))


def test_fresh_batches_need_more_samples_than_features_a_round():
    """m = k: the heads fit every sample, and B stays where it is."""
    truth = Tasks(clients=20, dim=6, rank=2, samples=2, noise=0.0, seed=0).truth
    found = islice(fresh_rounds(FedRepLinear(eta=0.2), truth, cohort=20, samples=2, noise=0.0, seed=0), 30)
    dist = [principal_angle_distance(body, truth.body) for body in found]
    assert dist[-1] == pytest.approx(dist[0], abs=1e-6)
    assert limit_rate(truth.heads, 0.2, 2) == 1
