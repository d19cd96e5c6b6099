"""A study of real sites trains and compares as the simulator does on the same tables, to the last bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import COMPARED, SITES, Here, agents, linked, numbers, simulated, study, tables

from manyheads.core.contract import ALGORITHMS
from manyheads.core.errors import UserError
from manyheads.core.schedule import Schedule
from manyheads.data import source_of
from manyheads.engines.engine import Engine
from manyheads.experiments.compare import compare as simulated_comparison
from manyheads.federate.comparison import compare
from manyheads.federate.conduct import train
from manyheads.federate.rules import Policy
from manyheads.federate.wire import Message
from manyheads.onboarding.personal_model import PersonalModel
from manyheads.run import load

METHODS = [name for name in ALGORITHMS if name != "fedrep-linear" and ":" not in name]


NORMED = {"name": "mlp", "norm": "batch"}
STEPPED = {"name": "fedrep", "server": {"kind": "adam", "lr": 0.05}}
TOLD = {"fedpac": {"fewest": 5}}
"""settings by which a method tells no more than sites allow"""
SCHEDULE = Schedule(kind="step", every=1, factor=0.5)
CASES = [
    *(pytest.param({"name": name, **TOLD.get(name, {})}, None, id=name) for name in METHODS),
    pytest.param(STEPPED, None, id="fedrep with adam"),
    pytest.param({"name": "fedavg"}, SCHEDULE, id="fedavg by a schedule"),
]


@pytest.mark.parametrize(("algorithm", "schedule"), CASES)
def test_every_method_is_trained_as_in_the_simulator(algorithm, schedule, tmp_path):
    data = tables(tmp_path / "data")
    own = agents(data, tmp_path)
    model = NORMED if algorithm["name"] == "fedbn" else {"name": "mlp"}
    made = study(algorithm=algorithm, model=model, training=replace(study().training, schedule=schedule))
    run = train(linked(made, Here(own), tmp_path), tmp_path / "run")
    wanted = simulated(data, algorithm, schedule=schedule, model=model)
    assert run.server.flat.keys() == wanted.server.flat.keys()
    for name, value in wanted.server.flat.items():
        assert torch.equal(run.server.flat[name], value), name
    for found, other in zip(run.history, wanted.history, strict=True):
        for entry in ("round", "cohort", "dropped", "train_loss", "bytes_up", "bytes_down", "evaluation"):
            assert found[entry] == other[entry], entry
    for number, site in enumerate(SITES):  # what each site has kept is what the simulator keeps of it
        (folder,) = (own[site].folder / "runs").iterdir()
        kept, asked = load(folder), wanted._store.read([number])
        for name, value in asked.flat.items():
            assert torch.equal(kept._store.read([0]).flat[name], value), name


def test_a_study_is_a_run_like_any_other(tmp_path):
    data = tables(tmp_path / "data")
    own = agents(data, tmp_path)
    run = train(linked(study(), Here(own), tmp_path), tmp_path / "run")
    again = load(tmp_path / "run")
    assert again.checksum == run.checksum
    assert again.encoding.columns.features[:3] == ("p", "q", "r")
    with pytest.raises(ValueError, match="are at its sites"):
        again.client_model(0)
    (place,) = (own["ash"].folder / "models").iterdir()
    model = PersonalModel.load(place)
    assert model.card["measured"]["site"] == "ash"
    assert model.card["measured"]["test"]["accuracy"] is not None


def test_new_clients_get_a_model_from_a_run_of_sites(tmp_path):
    from manyheads.onboarding import personalize

    data = tables(tmp_path / "data", (*SITES, "dogwood"))
    run = train(linked(study(), Here(agents(data, tmp_path)), tmp_path), tmp_path / "run")
    mine = personalize(load(tmp_path / "run"), data / "dogwood.csv", finetune="head:2")
    assert mine.facts["after"]["accuracy"] is not None
    assert mine.facts["seen"] is None
    assert "are known to its sites alone: if these samples are among them" in " ".join(mine.facts["warnings"])
    assert run.rounds == 2


@pytest.mark.parametrize("start", [train, compare])
def test_a_folder_that_is_in_use_is_an_error_before_any_site_is_asked(start, tmp_path):
    carrier = Here(agents(tables(tmp_path / "data"), tmp_path))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="out exists already"):
        start(linked(study(), carrier, tmp_path), tmp_path / "out")
    assert carrier.count == 0


def test_a_comparison_gives_the_simulators_result(tmp_path):
    data = tables(tmp_path / "data")
    made = study(compare=COMPARED, training=replace(study().training, rounds=3))
    carrier, told = Here(agents(data, tmp_path)), list[int]()
    found = compare(linked(made, carrier, tmp_path), tmp_path / "compare", progress=lambda done, _: told.append(done))
    assert told == sorted(told)  # from stage to stage, too
    federation = source_of({"name": "sites", "path": str(data)}).federation(1)
    wanted = simulated_comparison(
        federation, "mlp", methods=list(COMPARED.methods), rounds=3, seeds=2, folds=2, rates=COMPARED.rates,
        baselines=COMPARED.baselines, local_rounds=25, pooled=False, seed=1, engine=Engine(mode="loop"),
    )  # fmt: skip
    assert numbers(found) == numbers(wanted)
    assert found.data.labels == wanted.data.labels
    assert found.data.total_variation == wanted.data.total_variation
    assert found.data.input_wasserstein is None  # inputs do not leave a site
    assert carrier.count < 35  # all trainings share their messages; 25 rounds alone take a dozen, between decisions
    (page,) = (tmp_path / "kit-birch" / "comparisons").glob("*/site.md")
    assert "birch" in page.read_text()
    assert "fedrep" in page.read_text()


def test_a_search_gives_the_simulators_result(tmp_path):
    data = tables(tmp_path / "data")
    few = replace(COMPARED, methods=("local", "fedprox"), seeds=1, folds=1, search=3, local_rounds=3)
    made = study(compare=few, training=replace(study().training, rounds=3))
    found = compare(linked(made, Here(agents(data, tmp_path)), tmp_path), tmp_path / "compare")
    federation = source_of({"name": "sites", "path": str(data)}).federation(1)
    wanted = simulated_comparison(
        federation, "mlp", methods=["local", "fedprox"], rounds=3, seeds=1, folds=1, rates=COMPARED.rates, search=3,
        baselines=COMPARED.baselines, local_rounds=3, pooled=False, seed=1, engine=Engine(mode="loop"),
    )  # fmt: skip
    assert numbers(found) == numbers(wanted)
    assert len(found["fedprox"].rates) == 3
    assert all("mu" in each.knobs for each in found["fedprox"].rates)


def test_a_comparison_that_is_interrupted_goes_on_to_the_same_result(tmp_path):
    data = tables(tmp_path / "data")
    few = replace(COMPARED, methods=("local", "fedrep"), seeds=1, rates=(0.1,), local_rounds=3)
    made = study(compare=few, training=replace(study().training, rounds=3))

    class Stops(Here):
        def exchange(self, messages, seconds):
            if self.count == 5:
                raise KeyboardInterrupt
            return super().exchange(messages, seconds)

    own = agents(data, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        compare(linked(made, Stops(own), tmp_path), tmp_path / "compare")
    found = compare(linked(made, Here(agents(data, tmp_path)), tmp_path), tmp_path / "compare", resume=True)
    whole = compare(linked(made, Here(agents(data, tmp_path / "other")), tmp_path), tmp_path / "whole")
    assert numbers(found) == numbers(whole)


def test_what_too_few_samples_say_is_not_told(tmp_path):
    data = tables(tmp_path / "data")
    head, *rows = (data / "ash.csv").read_text().splitlines()
    kept = [row for row in rows if row.endswith("no")][:3]
    changed = [row if row in kept else row.replace(",no", ",yes") for row in rows]
    (data / "ash.csv").write_text("\n".join([head, *changed]) + "\n")
    few = replace(COMPARED, methods=("local", "fedavg"), seeds=1, rates=(0.1,), local_rounds=2, metric="auc")
    made = study(compare=few, training=replace(study().training, rounds=2), data={"label": "label"})
    seen = {}

    def look(site, asked, reply):
        if asked.facts["action"] == "tell":
            seen[site] = Message.from_bytes(reply).facts["told"]["methods"]
        return reply

    carrier = Here(agents(data, tmp_path, Policy(min_count=4)), look)
    found = compare(linked(made, carrier, tmp_path), tmp_path / "compare")
    assert not any(
        method.get("score") or method.get("gain") for method in seen["ash"].values()
    )  # three rows of a class
    assert all(min(method["score"]["counts"]) >= 4 for method in seen["cedar"].values())
    assert [gain.name for gain in found.methods["fedavg"].gains] == ["birch", "cedar"]


def test_a_comparison_with_parts_that_are_too_small_says_so(tmp_path):
    few = replace(COMPARED, methods=("local", "fedavg"), seeds=1, rates=(0.1,), local_rounds=2)
    carrier = Here(agents(tables(tmp_path / "data"), tmp_path, Policy(min_count=20)))
    with pytest.raises(UserError, match="would be smaller than its min_count"):
        compare(linked(study(compare=few), carrier, tmp_path), tmp_path / "compare")
