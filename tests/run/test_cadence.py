"""How often a run is evaluated unless that is said: by its work, not by a clock, and always where it is reported."""

from __future__ import annotations

import pytest
from problems import ragged, small_net

from manyheads import Engine, Evaluate, FedAvg, FineTune, load, simulate
from manyheads.data import Federation
from manyheads.run.cadence import DIVIDED_ABOVE, SHARE, STEP, usual_every


@pytest.fixture
def small_counts(monkeypatch):
    """Evaluations with little work are rare too if they are most of it."""
    monkeypatch.setattr("manyheads.run.cadence.DIVIDED_ABOVE", 0)


@pytest.mark.parametrize("evaluated", [10, 300, 9_000, 10**6])
def test_evaluations_are_at_most_a_tenth_of_the_work_in_as_many_rounds_as_that_allows(evaluated):
    trained, rounds = 1_000.0, 10**6
    every = usual_every(evaluated, trained, DIVIDED_ABOVE, rounds)
    training = STEP * trained
    assert evaluated / (evaluated + every * training) <= SHARE
    before = {1: None, 2: 1, 5: 2, 10: 5, 20: 10, 50: 20, 5000: 2000}[every]
    assert before is None or evaluated / (evaluated + before * training) > SHARE


def test_a_run_is_evaluated_a_few_times_whatever_it_costs():
    assert [usual_every(10**9, 1.0, DIVIDED_ABOVE, rounds) for rounds in (1, 2, 5, 6, 30, 100)] == [1, 1, 1, 2, 10, 20]
    assert usual_every(10**9, 0.0, DIVIDED_ABOVE, 30) == 10  # a round without training


def test_little_work_is_evaluated_in_every_round():
    assert usual_every(100, 1.0, DIVIDED_ABOVE // 100 - 1, 100) == 1
    assert usual_every(100, 1.0, DIVIDED_ABOVE // 100, 100) == 20


def rounds_of(run) -> list[int]:
    return [round for round, _ in run.history.column("accuracy")]


def test_the_first_and_the_reported_rounds_are_always_there(small_counts):
    settings = {"rounds": 31, "cohort": 1}
    run = simulate(FedAvg(), small_net(), ragged(), **settings)
    assert rounds_of(run) == [1, 10, 20, 30, 31]
    assert run.history[9]["evaluation"]["every"] == 10
    assert run.protocol.endswith("mean over clients, last round, evaluated every 10 rounds")
    assert run.protocol == run.history[-1]["evaluation"]["protocol"]
    mean = simulate(FedAvg(), small_net(), ragged(), evaluate=Evaluate(report="mean_last_10"), **settings)
    assert rounds_of(mean) == [1, 10, 20, *range(22, 32)]
    each = simulate(FedAvg(), small_net(), ragged(), evaluate=Evaluate(every=1), **settings)
    assert rounds_of(each) == list(range(1, 32))
    assert "evaluated every" not in each.protocol
    assert "every" not in each.history[0]["evaluation"]
    assert each.checksum == run.checksum
    assert each.accuracy == run.accuracy


def test_work_decides_and_not_who_does_it(small_counts, divided):
    """More training, fewer samples evaluated or more rounds: more evaluations. Workers and modes: the same."""
    few = {"rounds": 30, "cohort": 2}
    usual = simulate(FedAvg(batch=10), small_net(), ragged(), **few)
    assert rounds_of(usual)[:2] != [1, 2]
    busy = simulate(FedAvg(batch=10, epochs=100), small_net(), ragged(), **few)
    assert rounds_of(busy) == list(range(1, 31))
    sampled = simulate(FedAvg(batch=10, epochs=10), small_net(), ragged(), evaluate=Evaluate(who="sampled"), **few)
    assert rounds_of(sampled) == list(range(1, 31))
    for engine in (Engine(workers=2), Engine(mode="loop", workers=1)):
        other = simulate(FedAvg(batch=10), small_net(), ragged(), engine=engine, **few)
        assert rounds_of(other) == rounds_of(usual)


def test_fine_tuning_before_each_evaluation_is_work_too(small_counts):
    method, federation = FedAvg(epochs=20, batch=10), ragged()
    settings = {"rounds": 30, "finetune": FineTune(scope="all", epochs=10, batch=10)}
    assert rounds_of(simulate(method, small_net(), federation, **settings)) == list(range(1, 31))
    tuned = simulate(method, small_net(), federation, evaluate=Evaluate(model="finetuned"), **settings)
    also = simulate(method, small_net(), federation, evaluate=Evaluate(also="always"), **settings)
    assert rounds_of(tuned) == rounds_of(also) == [1, 5, 10, 15, 20, 25, 30]
    assert [record["round"] for record in also.history if "also" in record] == rounds_of(also)


def test_a_resumed_run_goes_on_in_the_same_rounds(small_counts, tmp_path):
    federation: Federation = ragged()
    simulate(FedAvg(), small_net(), federation, rounds=12, cohort=1, out=tmp_path / "run")
    assert rounds_of(load(tmp_path / "run", small_net())) == [1, 2, 4, 6, 8, 10, 12]
    longer = simulate(FedAvg(), small_net(), federation, rounds=30, cohort=1, out=tmp_path / "run", resume=True)
    assert rounds_of(longer) == [1, *range(2, 31, 2)]
    assert load(tmp_path / "run", small_net()).protocol == longer.protocol
