"""Real federations at length: ``make test-federation``. Everything that takes minutes, since Flower starts processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from federations import COMPARED, numbers, simulated, study, tables
from flowering import Flowering, flowering, processes_of

from manyheads.core.errors import UserError
from manyheads.data import source_of
from manyheads.engines.engine import Engine
from manyheads.experiments.compare import compare as simulated_comparison
from manyheads.experiments.results import ComparisonResult
from manyheads.federate.keys import make_key_pair
from manyheads.federate.kit import Kit, add_site
from manyheads.federate.rules import Rules
from manyheads.onboarding import personalize
from manyheads.run import Evaluate, load

pytestmark = pytest.mark.skipif(not os.environ.get("MANYHEADS_FEDERATION"), reason="make test-federation runs it")
PAIR = ("ash", "birch")
PATIENT = Rules(gather=300, wait=300, deadline=300)
END = Evaluate(every=100)


def of_two(**changes):
    usual = {"sites": PAIR, "rules": PATIENT, "training": replace(study().training, evaluate=END)}
    return study(**usual | changes)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return tables(tmp_path_factory.mktemp("tables") / "data", (*PAIR, "cedar"))


@pytest.fixture(scope="module")
def federation(tmp_path_factory, data):
    with flowering(tmp_path_factory.mktemp("study"), data, of_two()) as made:
        yield made


def pair_of(data: Path, tmp_path: Path) -> Path:
    """The tables of two sites in one place, for the simulator."""
    place = tmp_path / "both"
    place.mkdir()
    for site in PAIR:
        (place / f"{site}.csv").write_bytes((data / f"{site}.csv").read_bytes())
    return place


def changed(federation: Flowering, **settings) -> None:
    federation.folder.write(replace(federation.folder.read(), **settings))


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "ditto", "perfedavg"])
def test_other_methods_get_the_simulators_numbers(method, federation, data, tmp_path):
    changed(federation, algorithm={"name": method})
    federation.do("run", tmp_path / "run")
    run, wanted = load(tmp_path / "run"), simulated(pair_of(data, tmp_path), method, evaluate=END)
    for name, value in wanted.server.flat.items():
        assert torch.equal(run.server.flat[name], value), name


def test_a_comparison_in_lockstep_gets_the_simulators_table(federation, data, tmp_path):
    made = replace(COMPARED, methods=("local", "fedavg", "fedavg+ft", "fedrep"), local_rounds=5)
    changed(federation, compare=made, training=replace(of_two().training, rounds=2))
    federation.do("compare", tmp_path / "compare")
    whole = source_of({"name": "sites", "path": str(pair_of(data, tmp_path))}).federation(1)
    wanted = simulated_comparison(
        whole, "mlp", methods=list(made.methods), rounds=2, seeds=2, folds=2, rates=made.rates,
        baselines=made.baselines, local_rounds=5, pooled=False, seed=1, engine=Engine(mode="loop"),
    )  # fmt: skip
    assert numbers(ComparisonResult.read(tmp_path / "compare")) == numbers(wanted)
    assert (tmp_path / "compare" / "report.html").stat().st_size > 100_000
    assert len(list((federation.folder.kits / "birch").glob("comparisons/*/site.md"))) == 1


def wait_for(condition, seconds: float = 200.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.3)


def in_background(federation: Flowering, out: Path, resume: bool = False):
    """Start a run; gives a function that waits for its end."""
    found: dict = {}

    def go() -> None:
        try:
            found["done"] = federation.do("run", out, resume)
        except UserError as error:
            found["error"] = str(error)

    thread = threading.Thread(target=go)
    thread.start()

    def ended() -> dict:
        thread.join(timeout=600)
        assert not thread.is_alive()
        return found

    return ended


def test_a_site_killed_in_a_round_comes_back_and_keeps_its_head(federation, data, tmp_path):
    rounds = 6
    rules = replace(PATIENT, min_sites=1, deadline=40)
    changed(federation, algorithm={"name": "fedrep"}, training=replace(of_two().training, rounds=rounds), rules=rules)
    ended = in_background(federation, tmp_path / "run")
    history = tmp_path / "run" / "history.jsonl"
    wait_for(lambda: history.is_file() and history.read_text().count("\n") >= 1)
    os.killpg(federation.sites["birch"].process.pid, signal.SIGKILL)
    wait_for(lambda: history.read_text().count("\n") >= 3)
    federation.start_site("birch")
    assert ended()["done"]["rounds"] == rounds
    run = load(tmp_path / "run")
    assert any(each["client"] == 1 for record in run.history for each in record["dropped"])
    kept = run.kept_rounds()
    assert kept[0] == rounds
    assert kept[1] >= 1  # its head is that of the last round it took part in
    changed(federation, rules=PATIENT)


def test_a_server_killed_in_the_middle_is_gone_on_with_to_the_same_numbers(federation, data, tmp_path):
    rounds = 4
    changed(federation, algorithm={"name": "fedrep"}, training=replace(of_two().training, rounds=rounds))
    ended = in_background(federation, tmp_path / "run")
    history = tmp_path / "run" / "history.jsonl"
    wait_for(lambda: history.is_file() and history.read_text().count("\n") >= 2)
    os.killpg(federation.server.process.pid, signal.SIGKILL)
    assert "error" in ended()
    federation.server.end()
    federation.start_server()
    done = federation.do("run", tmp_path / "run", resume=True)
    wanted = simulated(pair_of(data, tmp_path), "fedrep", rounds=rounds, evaluate=END)
    run = load(tmp_path / "run")
    assert done["rounds"] == run.rounds == rounds
    for name, value in wanted.server.flat.items():
        assert torch.equal(run.server.flat[name], value), name


def test_a_third_site_joins_a_finished_run_and_takes_part_in_the_next(federation, data, tmp_path):
    changed(federation, training=replace(of_two().training, rounds=1))
    federation.do("run", tmp_path / "before")
    mine = personalize(load(tmp_path / "before"), data / "cedar.csv", finetune="head:2")
    assert mine.facts["after"]["accuracy"] is not None
    add_site(federation.folder, "cedar")
    from manyheads.federate.flower import Flower
    from manyheads.federate.serve import watch_keys

    watch_keys(federation.folder, Flower(federation.folder, federation.folder.read()), lambda words: None)
    federation.start_site("cedar")
    federation.do("run", tmp_path / "after")
    assert [load(tmp_path / "after").directory.about().site(i) for i in range(3)] == ["ash", "birch", "cedar"]


def test_another_program_is_refused_by_the_site(tmp_path, data):
    made = of_two(rules=Rules(gather=60, wait=30, deadline=60))
    with flowering(tmp_path, data, made, sites=()) as federation:
        for site in PAIR:
            kit = Kit(federation.folder.kits / site)
            kit.write(replace(kit.read(), bundle="0" * 64))  # the owner has approved something else
            federation.start_site(site)
        with pytest.raises(UserError, match="0 of 2 sites answered"):
            federation.do("run", tmp_path / "run")
        log = (federation.folder.kits / "ash" / "audit.jsonl").read_text()
        assert '"approved": false' in log
    assert not processes_of(tmp_path)


def test_who_has_no_registered_key_or_no_certificate_never_gets_in(tmp_path, data):
    made = of_two(rules=Rules(gather=15, wait=20, deadline=60))
    with flowering(tmp_path, data, made, sites=()) as federation:
        ash, birch = (Kit(federation.folder.kits / site) for site in PAIR)
        ash.key.unlink()
        make_key_pair(ash.key)
        other = tmp_path / "other"
        from manyheads.federate.keys import make_authority

        make_authority(other, "other")
        birch.authority.write_bytes((other / "ca.crt").read_bytes())
        for site in PAIR:
            federation.start_site(site)
        with pytest.raises(UserError, match="0 of 2 sites are there after"):
            federation.do("run", tmp_path / "run")
        for child in federation.sites.values():  # refused, and it goes on trying
            wait_for(lambda child=child: "once more in" in child.last_words(50))
    assert not processes_of(tmp_path)
