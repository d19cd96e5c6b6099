"""Fallah et al. 2020 on runs: Theorem 4.5, and what is reported outside its assumptions."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from landscapes import SMALL

from manyheads import PerFedAvg, UserError
from manyheads.models import MLP, build_model
from manyheads.theory import PAPERS, theory
from manyheads.theory.fallah2020 import Fallah2020
from manyheads.theory.fallah2020.meta import (
    meta_gradients,
)
from manyheads.theory.landscape import Landscape


def test_a_run_within_the_assumptions_stays_below_every_bound():
    facts = theory(SMALL)
    assert PAPERS.find("fallah2020") is Fallah2020
    assert facts["within_assumptions"]
    assert facts["bound"]["violations"] == 0
    assert facts["measured"]["last_loss"] < facts["measured"]["first_loss"]
    assert all(row["below"] for row in (*facts["lemmas"], *facts["similarity"]))
    terms = facts["bound"]["terms"]
    assert sum(terms.values()) == pytest.approx(facts["bound"]["value"])
    assert terms[facts["bound"]["dominant"]] == max(terms.values())
    assert len(facts["series"]["bound"]) == SMALL.rounds
    json.dumps(facts, allow_nan=False)
    assert Fallah2020.figure(facts).to_dict()["hconcat"]


def test_the_theorem_is_about_the_random_iterate_of_each_round():
    """With one local step, t_k = 0: the iterate of round k + 1 is w_k."""
    seen = []
    setting = replace(SMALL, tau=1, rounds=3)
    federation = setting.federation()
    facts = setting.run(seen.append)
    model = build_model(MLP(hidden=()), federation.sample_shape, federation.outputs, 0, "float64")
    clients = Landscape(model, federation)
    first = meta_gradients(clients, PerFedAvg(alpha=setting.alpha), clients.flat(model.params.all)).mean(dim=0)
    assert facts["series"]["gradient_square"][0] == pytest.approx(first.square().sum().item())
    assert seen


@pytest.mark.parametrize(
    ("change", "name", "holds"),
    [
        ({"alpha": 5.0}, "inner step size: alpha", False),
        ({"alpha": 0.0}, "inner step size: alpha", False),
        ({"beta": 1.0}, "outer step size: beta", False),
        ({"model": "elu", "hidden": 2}, "Assumptions 2 and 3: elu", False),
        ({"model": "tanh", "hidden": 2}, "Assumptions 2 and 3: tanh", None),
    ],
)
def test_a_run_outside_the_assumptions_is_reported_as_outside(change, name, holds):
    facts = replace(SMALL, rounds=3, draws=3, **change).run(lambda _: None)
    found = {c["name"]: c["holds"] for c in facts["conditions"]}
    assert found[name] is holds
    assert facts["within_assumptions"] is holds
    json.dumps(facts, allow_nan=False)


def test_more_points_than_clients_are_needed():
    with pytest.raises(UserError, match="fewer points than clients; given 3; allowed: 4 or more"):
        replace(SMALL, points=3).federation()
