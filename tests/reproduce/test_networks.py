"""Experiments with networks on CIFAR: their recipes are valid, and their claims follow from what is measured."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads.core.contract import ALGORITHMS
from manyheads.core.settings import build
from manyheads.data import parse_partition
from manyheads.reproduce import EXPERIMENTS
from manyheads.reproduce.collins2021.columns import COLUMNS, ROWS
from manyheads.reproduce.collins2021.switches import SWITCHES
from manyheads.reproduce.collins2021.table1 import Table1, cell_config
from manyheads.reproduce.collins2022.rates import CHOSEN, PAPERS
from manyheads.reproduce.records import key_of

NAMES = [
    "collins2021.figure5", "collins2021.figure6", "collins2021.table1", "collins2021.switches",
    "collins2022.figure2", "collins2022.figure4", "collins2022.figure5",
]  # fmt: skip
RNG = np.random.default_rng(0)


def facts(name: str, part: str, good: bool) -> dict:
    """Made-up facts of a part: with ``good``, those that the paper claims."""
    ours = any(word in part for word in ("FedRep", "tau 50", "tau 30")) == good
    level = 0.8 + 0.1 * ours + 0.01 * RNG.random()
    if name == "collins2021.figure5":
        e = int(part.split()[-1])
        worse = (0.5 if part.startswith("FedAvg") else -0.1) if good else 3.0
        return {"error": 20 + worse * e}
    if name == "collins2021.figure6":
        return {"epochs": [0, 1], "accuracies": [[0.1] * 5, (level + 0.001 * np.arange(5)).tolist()]}
    if name == "collins2022.figure2":
        return {"cka": (level + 0.01 * RNG.random((5, 9))).tolist(), "accuracy": 0.5}
    if name == "collins2022.figure4":
        tau = int(part.split()[1])
        shift = {1: 0.01, 10: 0.2, 30: 0.3, 50: 0.5}[tau] if good else {1: 0.5, 10: 0.4, 30: 0.3, 50: 0.2}[tau]
        return {"similarity": (0.3 + shift * np.eye(10) + 0.01 * RNG.random((10, 10))).tolist(), "accuracy": 0.5}
    if name == "collins2022.figure5":
        values = level + 0.01 * RNG.random((6, 5))
        return {"samples": [50, 100, 200, 300, 400, 500], "accuracies": values.tolist()}
    paper = dict(zip(ROWS, COLUMNS["CIFAR-10 (100, 2)"].published, strict=True))
    row = part.partition(": ")[2]
    return {"accuracy": paper.get(row, 50) / 100, "finetuned": paper.get(f"{row}+FT", 50) / 100}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("good", [True, False])
def test_claims_follow_from_what_is_measured(name, good):
    kind = EXPERIMENTS.find(name)
    experiment = kind(**({"columns": ("CIFAR-10 (100, 2)",)} if name.endswith("table1") else {}))
    if name.endswith("figure6"):
        experiment = kind(epochs=(0, 1))
    found = {part: {0: facts(name, part, good)} for part in experiment.parts()}
    assert experiment.figure(found).to_dict()["$schema"]
    verdicts = [claim.verdict for claim in experiment.claims(found)]
    if name == "collins2021.table1":
        assert len(experiment.table(found)) == 15
        assert verdicts == ["reproduced", "reproduced"]  # of the paper's own numbers
        found["CIFAR-10 (100, 2): FedRep"] = {0: {"accuracy": 0.7, "finetuned": 0.7}}
        assert [claim.verdict for claim in experiment.claims(found)] == ["not reproduced", "partly"]
    elif name == "collins2021.switches":
        assert verdicts == []
        rows = [f"{switch.method}: {name}" for name, switch in SWITCHES.items()]
        rows += [f"{switch.method}+FT: {name}" for name, switch in SWITCHES.items() if f"{switch.method}+FT" in ROWS]
        assert sorted(cell.row for cell in experiment.table(found)) == sorted(2 * rows)
    elif name == "collins2022.figure4":
        assert verdicts == ["reproduced" if good else "not reproduced"] * 3
        assert "D-SGD learns here" in experiment.claims(found)[0].reason
        found["tau 50"][0]["accuracy"] = 0.6
        assert not experiment.claims(found)[0].reason  # D-SGD's network is the worse one
    else:
        assert verdicts[0] == ("reproduced" if good else "not reproduced")


def test_every_cell_of_the_table_is_a_run_of_its_own():
    keys = set()
    for column in COLUMNS.values():
        for row, kind in ROWS.items():
            config = cell_config(column, kind.algorithm, 0)
            table = dict(config.algorithm)
            algorithm = build(ALGORITHMS.find(table.pop("name")), table, where=row)
            assert getattr(algorithm, "batch", column.batch) == column.batch
            assert algorithm.sgd.weight_decay == 1e-4 if hasattr(algorithm, "sgd") else True
            parse_partition(config.partition)
        assert len(column.published) == len(ROWS)
    experiment = Table1()
    for part in experiment.parts():
        keys.add(key_of(experiment, part, 0))
    assert len(keys) == len(experiment.parts()) == 12 * len(COLUMNS)
    assert cell_config(COLUMNS["CIFAR-10 (100, 2)"], ROWS["L2GD"].algorithm, 0).rounds == 1111
    assert cell_config(COLUMNS["CIFAR-10 (100, 5)"], ROWS["FedRep"].algorithm, 0).algorithm["body_epochs"] == 5


def test_a_switch_changes_one_thing():
    experiment = EXPERIMENTS.find("collins2021.switches")()
    for name, switch in SWITCHES.items():
        without = experiment.recipe(switch.without, 0)
        with_it = experiment.recipe(name, 0)
        changed = {k for k in with_it.keys() | without.keys() if with_it.get(k) != without.get(k)}
        if name.endswith("100 iterations"):
            assert changed == {"algorithm", "rounds"}, name
        else:
            assert len(changed) == 1, name


def test_more_epochs_are_judged_seed_by_seed_and_a_small_rise_is_undecided():
    """Seeds differ by tens of points, and each rises by 0.3: that is known to the digit, and may still be chance."""
    experiment = EXPERIMENTS.find("collins2021.figure5")(epochs=(1, 2))
    found = {
        f"{method}, E {e}": {seed: {"error": 20.0 * seed + rise * (e == 2)} for seed in range(3)}
        for method, rise in (("FedRep", 0.3), ("FedAvg", 0.3))
        for e in (1, 2)
    }
    fedrep, fedavg = experiment.claims(found)
    assert fedrep.checks[0].evidence == "+0.30 points of error ± 0.00"
    assert (fedrep.verdict, fedavg.verdict) == ("reproduced", "undecided")
    for seed in range(3):
        found["FedAvg, E 2"][seed] = {"error": 20.0 * seed - 1}
    assert experiment.claims(found)[1].verdict == "not reproduced"


def test_networks_that_have_learned_nothing_decide_nothing_about_what_is_kept():
    experiment = EXPERIMENTS.find("collins2022.figure2")()
    found = {part: {0: facts("collins2022.figure2", part, True)} for part in experiment.parts()}
    found["tau 50"][0]["accuracy"] = 0.011
    (claim,) = experiment.claims(found)
    assert claim.verdict == "undecided"
    assert "FedAvg, 50 local steps has an accuracy of 1.1 %, where chance is 1 %" in claim.reason
    assert "D-SGD" not in claim.reason


def test_a_line_at_chance_is_named():
    experiment = EXPERIMENTS.find("collins2022.figure5")(classes=(5,))
    found = {part: {0: facts("collins2022.figure5", part, True)} for part in experiment.parts()}
    assert experiment.claims(found)[0].reason == ""
    found["new data, C 5, tau 1"][0]["accuracies"] = [[0.1] * 5] * 6
    (claim,) = experiment.claims(found)
    assert claim.verdict == "reproduced"
    assert "D-SGD (C 5) has an accuracy of 10.0 %, where chance is 10 % even after fine-tuning" in claim.reason


def test_what_the_figures_take_must_have_the_lowest_training_loss():
    experiment = EXPERIMENTS.find("collins2022.rates")()
    found = {part: {0: {"loss": 2.0, "differs": 0.5}} for part in experiment.parts()}
    for what, choice in CHOSEN.items():
        found[f"{what}, {choice}"][0]["loss"] = 1.0
    del found["tau 50, he, step 0.5"]  # it diverged
    found[PAPERS][0]["differs"] = 0.001
    assert [claim.verdict for claim in experiment.claims(found)] == ["reproduced", "reproduced"]
    assert len(experiment.figure(found).to_dict()["hconcat"]) == 2
    assert {cell.column for cell in experiment.table(found)} == {"0.5", "0.1", "0.05", "0.01", "0.005"}
    found["tau 1, torch, step 0.05"][0]["loss"] = 0.5
    found[PAPERS][0]["differs"] = 0.3
    chosen, lost = experiment.claims(found)
    assert (chosen.verdict, lost.verdict) == ("partly", "not reproduced")
    assert chosen.checks[1].evidence == "lowest with torch, step 0.05: 0.500"
