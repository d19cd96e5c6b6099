"""The rate of FedAvg: leading terms, closed forms and the limit against runs; how far local steps help."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads.core.errors import UserError
from manyheads.theory import Collins2022, figure_of, sweep, theory
from manyheads.theory.collins2022 import local_steps
from manyheads.theory.collins2022.linear_fedavg import Problem
from manyheads.theory.collins2022.rates import closed_form, limit_rate, printed_term, sharp_term


@pytest.mark.parametrize("seed", range(3))
def test_the_fitted_rate_is_the_limit_and_nearer_to_the_sharp_term_than_to_the_printed_one(seed):
    found = theory(Collins2022(seed=seed, instances=0))["measured"]
    fit, limit = found["fit"]["contraction"], found["limit_rate"]
    assert fit == pytest.approx(limit, abs=2e-4)
    problem = Collins2022(seed=seed).problem()
    assert found["leading_term"] == pytest.approx(1 - 0.4**2 * problem.diversity**2)
    # the printed term is a bound, up to higher powers of alpha; the sharp one is the first power
    small = [abs(f(problem, 0.05, 2) - limit_rate(problem, 0.05, 2)) for f in (sharp_term, printed_term)]
    assert small[0] < 0.2 * small[1]


def test_the_sharp_term_is_the_first_order_of_the_closed_form():
    problem = Collins2022(seed=1).problem()
    for tau in (3, 5):
        off = [sharp_term(problem, a, tau) - closed_form(problem, a, tau) for a in (0.04, 0.02)]
        assert off[0] / off[1] == pytest.approx(16, rel=0.1)  # what is left is of order alpha^4


def test_without_a_mean_head_the_two_terms_are_one():
    heads = np.random.default_rng(0).normal(size=(20, 3))
    problem = Problem(np.eye(6)[:, :3], heads - heads.mean(axis=0))
    assert sharp_term(problem, 0.1, 4) == pytest.approx(printed_term(problem, 0.1, 4), abs=1e-12)
    assert sharp_term(Problem(problem.body, heads + 1), 0.1, 4) < printed_term(Problem(problem.body, heads + 1), 0.1, 4)


def test_the_closed_form_holds_for_every_tau_and_ends_at_the_mean_projection():
    problem, alpha = Collins2022(seed=2).problem(), 0.1
    for tau in (2, 8, 64, 256):
        assert 1 - closed_form(problem, alpha, tau) == pytest.approx(1 - limit_rate(problem, alpha, tau), rel=2e-3)
    units = problem.heads / np.linalg.norm(problem.heads, axis=1, keepdims=True)
    first = np.eye(5) - alpha**2 * np.outer(problem.mean, problem.mean)
    end = np.abs(np.linalg.eigvals(first @ (np.eye(5) - units.T @ units / 40))).max()
    assert closed_form(problem, alpha, np.inf) == pytest.approx(end)
    assert closed_form(problem, 1.0, 2) is None  # |w_i|^2 is above 2: local steps diverge


def test_local_steps_help_up_to_the_order_of_alpha_squared_and_then_no_more(monkeypatch):
    monkeypatch.setattr(local_steps, "FAR", 6)
    monkeypatch.setattr(local_steps, "MEASURED", 16)
    facts = sweep(Collins2022(), "tau")
    assert [row["name"] for row in facts["outcome"] if row["holds"] is not True] == []
    assert {row["alpha"] for row in facts["rows"]} == {0.4, 0.2, 0.1}
    few = {row["alpha"]: row["tau"] for row in facts["turns"]}
    assert few[0.1] / few[0.2] == pytest.approx(4, rel=0.2)
    # from twice the turn on, doubling tau adds less and less
    gains = [row["gain"] for row in facts["rows"] if row["alpha"] == 0.1]
    assert gains[1] / gains[0] > 2
    assert gains[-1] / gains[-2] < 1.01
    assert len(figure_of(facts).to_dict()["hconcat"]) == 2


@pytest.mark.parametrize("setting", [{"alpha": 0.0}, {"alpha": 30.0}, {"clients": 4}])
def test_a_sweep_that_cannot_be_is_refused(setting):
    with pytest.raises(UserError, match="no step size for a sweep"):
        sweep(Collins2022(**setting), "tau")
