"""What a site sends is checked before it is merged: what cannot be used is dropped and named, and the run goes on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from federations import QUICK, SITES, Here, agents, linked, study, tables

from manyheads.core.errors import UserError
from manyheads.federate.conduct import train
from manyheads.federate.wire import Message
from manyheads.run.training import Training


def spoiled(change):
    """Change what birch sends back after its training in round 2."""

    def alter(site, asked, reply):
        asks = asked.facts.get("asks", ())
        if site != "birch" or not any(a["job"] == "train" and a["round"]["index"] == 2 for a in asks):
            return reply
        return change(Message.from_bytes(reply), asked)

    return alter


def with_tensors(change):
    def spoil(reply, asked):
        return Message(reply.facts, {name: change(value) for name, value in reply.tensors.items()}).to_bytes()

    return spoil


def with_result(**values):
    def spoil(reply, asked):
        results = [result | values for result in reply.facts["results"]]
        return Message(reply.facts | {"results": results}, reply.tensors).to_bytes()

    return spoil


def of_facts(**values):
    return lambda reply, asked: Message(reply.facts | values, reply.tensors).to_bytes()


FAULTS = {
    "nan": (with_tensors(lambda v: v * float("nan")), "values are not finite"),
    "infinite": (with_tensors(lambda v: v + float("inf")), "values are not finite"),
    "wrong shape": (with_tensors(lambda v: torch.cat([v, v], dim=-1)), "wrong shape"),
    "broadcastable shape": (with_tensors(lambda v: v.mean(dim=-1, keepdim=True)), "wrong shape"),
    "wrong type": (with_tensors(lambda v: v.double()), "wrong type"),
    "other names": (
        lambda reply, asked: Message(
            reply.facts, {name.replace("body", "spirit"): value for name, value in reply.tensors.items()}
        ).to_bytes(),
        "wrong names",
    ),
    "no tensors": (lambda reply, asked: Message(reply.facts).to_bytes(), "wrong names"),
    "huge weight": (with_result(weight=1e30), "a weight of 1e+30, where its rows give"),
    "negative weight": (with_result(weight=-5.0), "a weight of -5"),
    "no weight": (with_result(weight=None), "a weight of nan"),
    "another round": (with_result(round=1), "a reply for another round"),
    "another exchange": (of_facts(exchange="earlier"), "a reply of another exchange"),
    "another run": (of_facts(run="other"), "a reply of another run"),
    "another site": (of_facts(site="ash"), "a reply of another site"),
    "no results": (of_facts(results=[]), "a reply for another round"),
    "results of another kind": (of_facts(results="all well"), "a reply for another round"),
    "nothing": (lambda reply, asked: None, "no answer within"),
    "noise": (lambda reply, asked: b"\x00\xff" * 50, "not a message"),
    "cut off": (lambda reply, asked: reply.to_bytes()[:200], "not a message"),
    "an error": (lambda reply, asked: Message({"error": "the disk is full"}).to_bytes(), "the disk is full"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_used_is_dropped_and_named(fault, tmp_path):
    change, why = FAULTS[fault]
    data = tables(tmp_path / "data")
    made = study(training=Training(rounds=3, seed=1), rules=replace(QUICK, min_sites=2))
    run = train(linked(made, Here(agents(data, tmp_path), spoiled(change)), tmp_path), tmp_path / "run")
    assert run.rounds == 3
    assert [len(record["dropped"]) for record in run.history] == [0, 1, 0]
    (dropped,) = run.history[1]["dropped"]
    assert dropped["client"] == SITES.index("birch")
    assert why in dropped["why"]
    assert all(torch.isfinite(value).all() for value in run.server.flat.values())


def test_a_reply_that_is_too_large_is_not_even_read(tmp_path):
    data = tables(tmp_path / "data")
    made = study(rules=replace(QUICK, max_megabytes=0.02))
    said: list[str] = []
    large = spoiled(lambda reply, asked: reply.to_bytes() + b"0" * 30_000)
    run = train(linked(made, Here(agents(data, tmp_path), large), tmp_path, said), tmp_path / "run")
    assert "larger than allowed" in run.history[1]["dropped"][0]["why"]
    events = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert any(e["event"] == "dropped" and e["site"] == "birch" for e in events)


def test_a_site_that_leaves_and_comes_back_goes_on_with_its_own_head(tmp_path):
    data = tables(tmp_path / "data")
    own = agents(data, tmp_path)

    class Leaves(Here):
        def exchange(self, messages, seconds):
            rounds = [
                a["round"]["index"] for m in messages.values() for a in Message.from_bytes(m).facts.get("asks", ())
            ]
            self.away = {"birch"} if rounds and max(rounds) == 2 else set()
            return super().exchange({s: m for s, m in messages.items() if s not in self.away}, seconds)

    run = train(linked(study(training=Training(rounds=4, seed=1)), Leaves(own), tmp_path), tmp_path / "run")
    assert run.rounds == 4
    birch = SITES.index("birch")
    assert [d["client"] for d in run.history[1]["dropped"]] == [birch]
    assert run.kept_rounds() == [4, 4, 4]
    assert not run.history[3]["dropped"]


def test_with_fewer_sites_than_the_quorum_the_run_ends_at_its_deadline(tmp_path):
    data = tables(tmp_path / "data")
    here = Here(agents(data, tmp_path))
    here.away = {"ash", "birch", "cedar"}
    with pytest.raises(UserError, match="0 of 3 sites are there after"):
        train(linked(study(), here, tmp_path), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    here.away = {"ash", "birch"}
    with pytest.raises(UserError, match="1 of 3 sites are there after"):
        train(linked(study(), here, tmp_path), tmp_path / "run")


def test_a_site_that_is_away_at_the_start_is_not_part_of_the_run(tmp_path):
    data = tables(tmp_path / "data")
    here, said = Here(agents(data, tmp_path)), list[str]()
    here.away = {"birch"}
    run = train(linked(study(), here, tmp_path, said), tmp_path / "run")
    assert run.directory.about().site(1) == "cedar"
    assert any("birch does not take part" in words for words in said)


def test_after_the_quorum_is_lost_resume_ends_with_the_same_numbers(tmp_path):
    data = tables(tmp_path / "data")
    made = study(training=Training(rounds=4, seed=1))
    whole = train(linked(made, Here(agents(data, tmp_path / "a")), tmp_path), tmp_path / "whole")

    class Dies(Here):
        def exchange(self, messages, seconds):
            rounds = [
                a["round"]["index"] for m in messages.values() for a in Message.from_bytes(m).facts.get("asks", ())
            ]
            found = super().exchange(messages, seconds)
            if rounds and max(rounds) == 3:  # the sites have trained round 3, the server never hears of it
                raise KeyboardInterrupt
            return found

    own = agents(data, tmp_path / "b")
    with pytest.raises(KeyboardInterrupt):
        train(linked(made, Dies(own), tmp_path), tmp_path / "run")
    restarted = Here(agents(data, tmp_path / "b"))  # other processes, the same folders
    run = train(linked(made, restarted, tmp_path), tmp_path / "run", resume=True)
    assert run.rounds == 4
    assert run.checksum == whole.checksum


def test_a_finished_run_is_gone_on_with_for_more_rounds(tmp_path):
    data = tables(tmp_path / "data")
    few, more = (study(training=Training(rounds=rounds, seed=1)) for rounds in (2, 4))
    train(linked(few, Here(agents(data, tmp_path / "a")), tmp_path), tmp_path / "run")
    run = train(linked(more, Here(agents(data, tmp_path / "a")), tmp_path), tmp_path / "run", resume=True)
    whole = train(linked(more, Here(agents(data, tmp_path / "b")), tmp_path), tmp_path / "whole")
    assert run.rounds == 4
    assert run.checksum == whole.checksum
