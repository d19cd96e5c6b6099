"""Personal states are read and written by the processes that train, a few clients at a time, and nothing else changes."""

from __future__ import annotations

import os
from typing import ClassVar

import numpy as np
import pytest
import torch
from problems import ragged, small_net

from manyheads import (
    APFL,
    DSGD,
    SGD,
    Ditto,
    Engine,
    Evaluate,
    FedAvg,
    FedMTL,
    FedRep,
    FineTune,
    Scaffold,
    State,
    Update,
    settings,
    simulate,
)
from manyheads.core.contract import Algorithm
from manyheads.core.state_file import StateFile
from manyheads.core.store import PersonalStore
from manyheads.run.loop import Loop

SIZES = (3, 20, 11, 8, 30, 5, 14, 9, 26, 17, 2, 12)
METHODS = [FedAvg(), Scaffold(), Ditto(), FedRep(head_epochs=2), APFL(), DSGD(), FedMTL()]


@pytest.fixture
def in_pieces(monkeypatch, divided):
    """Chunks are trained two or three clients at a time, as those of large models are."""
    parameters = sum(p.numel() for p in small_net().parameters())
    monkeypatch.setattr("manyheads.engines.chunks.TOGETHER", 3 * parameters)
    monkeypatch.setattr("manyheads.engines.chunks.HELD", 2 * 4 * parameters)


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize("algorithm", METHODS, ids=lambda a: a.name)
def test_who_reads_and_writes_the_states_changes_no_bit(algorithm, monkeypatch):
    def run(workers):
        tuned, watched = (
            FineTune(scope="head", epochs=1),
            Evaluate(model="local" if algorithm.name == "fedavg" else "auto"),
        )
        engine = Engine(workers=workers)
        done = simulate(
            algorithm,
            small_net(),
            ragged(SIZES),
            rounds=3,
            participation=0.8,
            engine=engine,
            finetune=tuned,
            evaluate=watched,
        )
        records = [{k: v for k, v in record.items() if k != "seconds"} for record in done.history]
        return done.checksum, records

    one, two = run(1), run(2)
    monkeypatch.setattr(PersonalStore, "given", PersonalStore.read)  # as for other machines
    assert one == two == run(2)


@pytest.mark.parametrize("algorithm", METHODS, ids=lambda a: a.name)
def test_clients_in_groups_are_trained_as_all_at_once(algorithm, request):
    whole = simulate(algorithm, small_net().double(), ragged(SIZES), rounds=3)
    request.getfixturevalue("in_pieces")
    parts = simulate(algorithm, small_net().double(), ragged(SIZES), rounds=3)
    for name, value in parts.server.flat.items():
        torch.testing.assert_close(value, whole.server.flat[name], atol=1e-10, rtol=1e-9)
    everyone = range(len(SIZES))
    for name, value in parts._store.read(everyone).flat.items():
        torch.testing.assert_close(value, whole._store.read(everyone).flat[name], atol=1e-10, rtol=1e-9)
    assert parts.loss == pytest.approx(whole.loss, rel=1e-9)


@settings
class Counting(Algorithm):
    """Clients keep how often they took part; some send rubbish in the second round."""

    name: ClassVar[str] = "counting"
    models: ClassVar[tuple[str, ...]] = ("global",)
    bad: tuple[int, ...] = (2, 5, 6, 7)

    def init_server(self, params, population):
        return State(model=params.all)

    def init_client(self, params):
        return State(count=torch.zeros(1))

    def local(self, cohort, server, client):
        model = cohort.sgd(server.model, opt=SGD(), batch=10, epochs=1)
        bad = torch.tensor([c in self.bad and cohort.round.index == 2 for c in cohort.addresses])
        upload = model.map(lambda v: torch.where(bad.reshape(-1, *[1] * (v.ndim - 1)), torch.nan, v))
        return Update(State(model=upload), State(count=client.count + 1))

    def global_model(self, server):
        return server.model


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_client_whose_upload_is_dropped_keeps_its_old_state(workers):
    run = simulate(Counting(), small_net(), ragged(SIZES), rounds=3, engine=Engine(workers=workers))
    assert [d["client"] for d in run.history[1]["dropped"]] == [2, 5, 6, 7]
    counts = run._store.read(range(len(SIZES))).count.flatten().tolist()
    assert counts == [2.0 if client in (2, 5, 6, 7) else 3.0 for client in range(len(SIZES))]


@pytest.mark.usefixtures("in_pieces")
def test_this_process_reads_and_writes_no_state_while_workers_train(monkeypatch):
    here = os.getpid()

    def refusing(usual):
        def refused(*given):  # workers are forked from this process once there is work for them
            assert os.getpid() != here, "states pass through this process"
            return usual(*given)

        return refused

    def all_rounds(self, on_round, enough=None):
        with monkeypatch.context() as patch:
            patch.setattr(StateFile, "read", refusing(StateFile.read))
            patch.setattr(StateFile, "write", refusing(StateFile.write))
            yield from usual(self, on_round)

    usual = Loop.run
    monkeypatch.setattr(Loop, "run", all_rounds)
    run = simulate(Ditto(), small_net(), ragged(SIZES), rounds=2, engine=Engine(workers=2))
    assert run._store.slot.all()


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize("workers", [1, 2])
def test_no_more_states_are_read_at_a_time_than_are_used_together(monkeypatch, workers):
    """Also by the evaluation, of all clients."""
    real = StateFile.read

    def few(self, clients, slots):
        assert len(clients) <= 3
        return real(self, clients, slots)

    monkeypatch.setattr(StateFile, "read", few)  # before the workers are forked
    done = simulate(Ditto(), small_net(), ragged(SIZES), rounds=2, engine=Engine(workers=workers))
    assert np.isfinite(done.loss)
