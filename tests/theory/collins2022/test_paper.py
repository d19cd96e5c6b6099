"""Collins et al. 2022 on runs: Theorem 1 with its conditions and hypotheses, Figures 1 and 3."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from manyheads.core.errors import UserError
from manyheads.metrics import principal_angle_distance
from manyheads.theory import Collins2022, figure_of, theory
from manyheads.theory.collins2022.linear_fedavg import d_gd_step


@pytest.fixture(scope="module")
def paper():
    """The paper's setting: d 100, k 5, M 40, alpha 0.4, tau 2."""
    return theory(Collins2022())


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


def test_figure_has_three_panels(paper):
    assert len(figure_of(paper).to_dict()["hconcat"]) == 3
