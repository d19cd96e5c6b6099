"""Our own experiments: their recipes are valid, step sizes are chosen without test samples, claims follow from facts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from manyheads.core.contract import ALGORITHMS
from manyheads.core.settings import build
from manyheads.data import Federation, parse_partition
from manyheads.engines.engine import Engine
from manyheads.reproduce import EXPERIMENTS, reproduce
from manyheads.reproduce.experiment import Place
from manyheads.reproduce.own.digits_curves import ALONE, FEDAVG, FEDREP, Curves
from manyheads.reproduce.own.digits_methods import METHODS, Methods
from manyheads.reproduce.own.real_short import SETS, ShortRuns, majority
from manyheads.reproduce.own.theorems import (
    RATIOS,
    TheoryCollins2021,
    TheoryCollins2022,
    TheoryDeng2022,
    TheoryFallah2020,
)
from manyheads.reproduce.records import key_of, measured, rounded
from manyheads.run.config import Config
from manyheads.theory import PAPERS, Collins2022, Fallah2020, theory

OWN = [name for name in EXPERIMENTS if "paper" not in EXPERIMENTS.find(name).scales]


def verdicts(experiment, found):
    return [claim.verdict for claim in experiment.claims(found)]


def test_they_have_no_paper_to_differ_from():
    assert {name.partition(".")[0] for name in OWN} == {"collins2022", "digits", "real", "theory"}
    for name in OWN:
        kind = EXPERIMENTS.find(name)
        (scale,) = kind.scales
        assert kind.at(scale, seeds=7).smaller() == ""


@pytest.mark.parametrize("experiment", [Methods(), ShortRuns()], ids=["digits.methods", "real.short"])
def test_every_part_is_a_run_of_its_own(experiment):
    keys = set()
    for part in experiment.parts():
        config = experiment._config(part, 0)
        table = dict(config.algorithm)
        build(ALGORITHMS.find(table.pop("name")), table, where=part)
        if config.partition != "writer":
            parse_partition(config.partition)
        keys.add(key_of(experiment, part, 0))
    assert len(keys) == len(experiment.parts())


def test_curves_are_measured_and_judged(tmp_path):
    facts = Curves(rounds=2).measure(FEDAVG, 0, Place(tmp_path))
    assert len(facts["accuracy"]) == 2
    rising = {FEDREP: 0.3, ALONE: 0.1, FEDAVG: 0.02}

    def found(speed):
        return {
            name: {seed: {"accuracy": [min(0.95, (by + 0.001 * seed) * t) for t in range(1, 31)]} for seed in range(3)}
            for name, by in speed.items()
        }

    assert verdicts(Curves(), found(rising)) == ["reproduced", "reproduced"]
    assert verdicts(Curves(), found({FEDREP: 0.02, ALONE: 0.1, FEDAVG: 0.3})) == ["not reproduced", "not reproduced"]
    assert Curves().figure(found(rising)).to_dict()["$schema"]


def made_up(validation, accuracy):
    names = ("accuracy", "worst_decile", "spread", "finetuned")
    return {"validation": validation, **dict.fromkeys(names, accuracy), "megabytes_up": 1.0}


def test_step_sizes_are_chosen_by_validation_samples_alone():
    experiment = Methods(rates=(0.1, 0.3))
    found = {
        part: {seed: made_up(0.9 if "0.1" in part else 0.8, 0.5 if "0.1" in part else 1.0) for seed in range(3)}
        for part in experiment.parts()
    }
    assert {each.lr for each in experiment.chosen(found).values()} == {0.1}
    assert {cell.ours[0] for cell in experiment.table(found) if cell.column == "accuracy %"} == {50.0}
    assert len(experiment.chosen(found)) == len(METHODS)
    del found["fedrep, step 0.1"][2]  # it diverged
    assert experiment.chosen(found)["fedrep"].lr == 0.3
    del found["fedavg, step 0.1"], found["fedavg, step 0.3"]
    assert "fedavg" not in experiment.chosen(found)


def test_claims_on_methods_follow_from_what_is_measured():
    experiment = Methods(rates=(0.1,))

    def found(shared, personal, alone):
        level = {"local": alone} | {
            name: shared if ALGORITHMS.find(name).models[0] == "global" else personal
            for name in METHODS
            if name != "local"
        }
        return {
            f"{name}, step 0.1": {seed: made_up(value, value + 0.001 * seed) for seed in range(3)}
            for name, value in level.items()
        }

    assert verdicts(experiment, found(0.8, 0.9, 0.9)) == ["reproduced", "not reproduced", "reproduced"]
    assert verdicts(experiment, found(0.9, 0.8, 0.7)) == ["not reproduced", "reproduced", "not reproduced"]
    assert experiment.figure(found(0.8, 0.9, 0.9)).to_dict()["$schema"]


def test_a_step_size_that_diverges_is_told_and_not_chosen(tmp_path, monkeypatch):
    monkeypatch.setattr("manyheads.reproduce.own.digits_methods.METHODS", {"fedavg": METHODS["fedavg"]})
    experiment = Methods(rates=(0.1, 1e30), rounds=1, seeds=1)
    result = reproduce(experiment, "quick", out=tmp_path / "results", work=tmp_path / "work", engine=Engine(workers=1))
    assert result.diverged == ["fedavg, step 1e+30"]
    assert not result.missing
    chosen = experiment.chosen(measured(result.records))["fedavg"]
    assert chosen.lr == 0.1
    assert 0 < chosen.validation < 1


def test_the_majority_label_of_each_client():
    clients = [(np.zeros((3, 1)), np.array([0, 0, 1])), (np.zeros((2, 1)), np.array([1, 1]))]
    tests = [(np.zeros((2, 1)), np.array([0, 1])), (np.zeros((1, 1)), np.array([1]))]
    assert majority(Federation.from_clients(clients, test=tests, outputs=2)) == 0.75


def test_a_short_run_is_a_typed_configuration_and_is_judged_by_the_majority_label():
    assert SETS["CIFAR-100 (100, 5)"].run("fedrep", 0).rounds == 15
    assert SETS["CIFAR-100 (100, 5)"].run("fedavg", 0).rounds == 40
    tweets = SETS["tweets, label-skewed"].run("fedrep", 3)
    assert isinstance(tweets, Config)
    assert tweets.algorithm == {"name": "fedrep", "batch": 10, "body_epochs": 5, "sgd": {"lr": 0.1}}
    assert (tweets.seed, tweets.finetune.describe()) == (
        3,
        SETS["MNIST by writer"].run("fedavg", 0).finetune.describe(),
    )

    def found(tuned):
        facts = {"accuracy": 0.3, "finetuned": tuned, "majority": 0.5, "rounds": 30}
        return {part: {0: facts} for part in ShortRuns().parts()}

    assert verdicts(ShortRuns(), found(0.9)) == ["reproduced"]
    assert verdicts(ShortRuns(), found(0.4)) == ["not reproduced"]
    assert len(ShortRuns().table(found(0.9))) == 3 * len(ShortRuns().parts())
    assert ShortRuns().figure(found(0.9)).to_dict()["$schema"]


def changed(facts, violations, inside):
    return facts | {"bound": facts["bound"] | {"violations": violations}, "within_assumptions": inside}


def test_a_bound_that_is_exceeded_tells_against_the_theorem_only_within_its_assumptions():
    facts = rounded(theory(Collins2022(dim=20, rank=2, clients=10, rounds=50)))
    experiment = TheoryCollins2022()
    assert verdicts(experiment, {"run": {0: facts}})[0] == "reproduced"
    assert verdicts(experiment, {"run": {0: changed(facts, 3, False)}})[0] == "undecided"
    assert verdicts(experiment, {"run": {0: changed(facts, 3, True)}})[0] == "not reproduced"
    stuck = facts | {"proposition_1": facts["proposition_1"] | {"smallest_ratio": 0.5}}
    found = dict(zip(texts(experiment, facts), verdicts(experiment, {"run": {0: facts, 1: stuck}}), strict=True))
    assert found["Proposition 1: there are representations that D-GD does not learn"] == "not reproduced"
    assert experiment.figure({"run": {0: facts}}).to_dict()["$schema"]


def texts(experiment, facts):
    return [claim.text for claim in experiment.claims({"run": {0: facts}})]


def test_a_vacuous_hypothesis_counts_for_no_verdict():
    facts = rounded(theory(Collins2022(dim=20, rank=2, clients=10, rounds=50, instances=0)))
    claims = TheoryCollins2022().claims({"run": {0: facts}})
    first, nothing = [claim for claim in claims if claim.text.endswith("in every round")]
    assert (first.found_here, nothing.found_here) == (False, True)
    assert {check.what.partition(":")[0] for check in nothing.checks} >= {"local A1", "local A3", "A1", "A3"}
    assert all("would do" in check.evidence for check in nothing.checks)
    broken = facts | {"lemma_8": facts["lemma_8"] | {"smallest": 0.05}}
    (lemma8,) = [c for c in TheoryCollins2022().claims({"run": {0: broken}}) if c.text.startswith("Lemma 8")]
    assert lemma8.verdict == "not reproduced"


def test_every_sweep_is_an_experiment_judged_by_its_outcome():
    names = {f"theory.{paper}-{name}" for paper in PAPERS for name in PAPERS.find(paper).sweeps}
    assert names <= set(EXPERIMENTS)
    assert "theory.collins2022-tau" in names
    kind = EXPERIMENTS.find("theory.collins2022-cohort")
    experiment = kind.at("quick")
    facts = rounded(experiment.measure("cohort", 0, Place(None)))
    assert verdicts(experiment, {"cohort": {0: facts}}) == ["reproduced"]
    missed = facts | {"outcome": [row | {"holds": False} for row in facts["outcome"]]}
    assert verdicts(experiment, {"cohort": {0: facts, 1: missed}}) == ["not reproduced"]
    open_ = facts | {"outcome": [row | {"holds": None} for row in facts["outcome"]]}
    assert verdicts(experiment, {"cohort": {0: open_}}) == ["undecided"]
    assert experiment.figure({"cohort": {0: facts}}).to_dict()["$schema"]
    assert experiment.recipe("cohort", 1)["seed"] == 1


def test_lemmas_are_judged_one_by_one():
    facts = rounded(theory(Fallah2020(rounds=5, draws=5, views=2)))
    experiment = TheoryFallah2020()
    assert verdicts(experiment, {"run": {0: facts}}) == ["reproduced", "reproduced", "reproduced"]
    broken = facts | {"lemmas": [row | {"below": False} for row in facts["lemmas"]]}
    assert verdicts(experiment, {"run": {0: broken}})[1] == "partly"


def widths(**powers):
    keys = (*RATIOS.values(), "outputs", "outputs_m_d")
    rows = [{"width": m, **{key: 0.3 * m ** powers.get(key, 0.0) for key in keys}} for m in (32, 64, 128)]
    return {"run": {0: {"by_width": rows, "measured": {"fit": {"r2": 0.99}}, "conditions": []}}}


def test_a_ratio_may_fall_under_an_upper_bound_and_rise_over_a_lower_one():
    experiment = TheoryDeng2022()
    assert verdicts(experiment, widths())[:3] == ["reproduced"] * 3
    assert verdicts(experiment, widths(gradient_upper=-1, gradient_lower=1))[1] == "reproduced"
    assert verdicts(experiment, widths(gradient_upper=1, gradient_lower=-1))[1] == "partly"
    assert verdicts(experiment, widths(outputs=1))[2] == "not reproduced"


def test_the_facts_of_a_theorem_are_those_of_the_command(monkeypatch):
    asked = []
    monkeypatch.setattr("manyheads.reproduce.own.theorems.theory", lambda paper, say: asked.append(paper) or {})
    TheoryCollins2021().measure("run", 2, Place(None))
    assert asked == [replace(TheoryCollins2021.paper(), seed=2)]
