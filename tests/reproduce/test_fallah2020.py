"""Figure 1 of Fallah et al. 2020 at a tiny size: what is measured, and how its claims are judged."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from manyheads.reproduce.experiment import Place
from manyheads.reproduce.fallah2020.figure1 import Figure1
from manyheads.reproduce.training import trained

TINY = Figure1(data="digits", seeds=1, rounds=4, a=8, taus=(2,), active=(1.0,), batch=5, alpha=0.2, fedavg_lr=0.1)
FEDAVG, PER = TINY.parts()


def test_the_step_at_test_time_is_one_gradient_step_on_all_training_samples(tmp_path):
    place = Place(tmp_path)
    facts = TINY.measure(FEDAVG, 0, place)
    run, federation = trained(TINY._config(FEDAVG, 0), place)
    plain, stepped = [], []
    for client in range(len(federation)):
        module = run.client_module(client)
        train, test = (split.select([client]) for split in (federation.train, federation.test))
        x, y = torch.from_numpy(test.x), torch.from_numpy(test.y)
        if not len(y):
            continue
        plain.append(float((module(x).argmax(1) == y).float().mean()))
        loss = torch.nn.functional.cross_entropy(module(torch.from_numpy(train.x)), torch.from_numpy(train.y))
        for w, slope in zip(module.parameters(), torch.autograd.grad(loss, list(module.parameters())), strict=True):
            w.data -= TINY.alpha * slope
        stepped.append(float((module(x).argmax(1) == y).float().mean()))
    assert facts["rounds"] == [1, 2, 3, 4]
    assert facts["plain"][-1] == pytest.approx(np.mean(plain), abs=1e-6)
    assert facts["stepped"][-1] == pytest.approx(np.mean(stepped), abs=1e-6)
    assert stepped != plain


def test_per_fedavg_is_evaluated_after_its_step(tmp_path):
    facts = TINY.measure(PER, 0, Place(tmp_path))
    assert sorted(facts) == ["rounds", "stepped"]
    assert len(facts["stepped"]) == 4


def made_up(plain: float, stepped: float, per: float) -> dict[str, dict[int, dict[str, list[float]]]]:
    rounds = [10, 90, 100]
    shifts = (0.0, 0.01, 0.02)
    return {
        FEDAVG: {
            s: {"rounds": rounds, "plain": [0, 0, plain + d], "stepped": [0, 0, stepped + d]}
            for s, d in enumerate(shifts)
        },
        PER: {s: {"rounds": rounds, "stepped": [1, 1, per + 0.5 * d]} for s, d in enumerate(shifts)},
    }


@pytest.mark.parametrize(
    ("values", "verdicts"),
    [
        ((0.6, 0.7, 0.8), ["reproduced", "reproduced"]),
        ((0.7, 0.6, 0.8), ["not reproduced", "reproduced"]),
        ((0.6, 0.8, 0.7), ["reproduced", "not reproduced"]),
        ((0.6, 0.7, 0.705), ["reproduced", "undecided"]),
    ],
)
def test_claims_are_about_the_last_tenth_of_the_rounds(values, verdicts):
    assert [claim.verdict for claim in TINY.claims(made_up(*values))] == verdicts


def test_a_panel_without_one_of_its_runs_is_not_judged():
    found = made_up(0.6, 0.7, 0.8)
    del found[PER]
    assert [len(claim.checks) for claim in TINY.claims(found)] == [1, 0]
    assert TINY.figure(found).to_dict()


def test_the_settings_are_the_papers():
    paper = Figure1()
    assert len(paper.parts()) == 8
    tables = [paper._config(part, 0).algorithm for part in ("tau 10, r 0.5: FedAvg", "tau 4, r 1: Per-FedAvg")]
    assert tables[0] == {"name": "fedavg", "steps": 10, "batch": 50, "sgd": {"lr": 0.001, "momentum": 0.0}}
    assert {name: tables[1][name] for name in ("variant", "steps", "alpha", "beta", "batch", "outer_batch")} == {
        "variant": "fo", "steps": 4, "alpha": 0.01, "beta": 0.001, "batch": 50, "outer_batch": 50,
    }  # fmt: skip
