"""Trainings in lockstep: the work that all of them ask for goes to the sites in one message, round by round."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyheads.core.errors import Diverged, UserError
from manyheads.core.replies import Accepted, Reply, accepted
from manyheads.core.rounds import weights_of
from manyheads.core.settings import as_dict
from manyheads.core.state_file import Places
from manyheads.core.trees import State
from manyheads.data import Federation
from manyheads.engines.executor import Ask, Asking
from manyheads.engines.jobs import Broadcast, Chunk, Done, ToEvaluate, Trained, checked, train_chunk
from manyheads.engines.workbench import Members
from manyheads.federate.link import Link, Replies
from manyheads.federate.trial import Trial
from manyheads.federate.wire import Message, prefixed, state_of, taken
from manyheads.metrics import Scores
from manyheads.metrics.metric import Measured

__all__ = ["InStep", "foreseen", "in_lockstep"]

Facts = dict[str, Any]


AHEAD = 20
"""steps that a training which sends nothing makes in one message"""


@dataclass(frozen=True)
class InStep:
    """One of several trainings: what coordinator and sites know of it, and the computation that asks for work."""

    trial: Trial
    federation: Federation
    asking: Asking[None]
    foreseen: Sequence[Sequence[Ask]] = ()
    """all that it will ask for, if that does not depend on what it is told: as of training alone"""


def in_lockstep(
    trainings: Sequence[InStep],
    link: Link,
    common: Facts,
    diverged: Callable[[Trial, Diverged], None],
    after: Callable[[], None] = lambda: None,
) -> None:
    """Go on with all trainings until each has ended; ``common`` are facts that every message needs.

    ``after`` is called after each exchange of messages.
    """
    running = [each for each in (_Running(training, diverged) for training in trainings) if each.steps]
    while running:
        asked = [(each, step) for each in running for step in each.steps]
        single = [(each.training, ask) for each, step in asked for ask in step]
        pieces = [_pieces(training, ask) for training, ask in single]
        replies = link.ask("work", _messages(link.study.sites, single, pieces, common))
        numbers = iter(range(len(single)))
        for each in running:
            for step in each.steps:
                found = [(ask, _of_ask(next(numbers), pieces, replies, link.study.sites)) for ask in step]
                each.take([_results(each.training, ask, own, link) for ask, own in found])
            each.advance()
        running = [each for each in running if each.steps]
        after()


class _Running:
    """A training that goes on; ``steps`` are what it asks for next, empty when it has ended."""

    def __init__(self, training: InStep, diverged: Callable[[Trial, Diverged], None]) -> None:
        self.training, self._diverged = training, diverged
        self._foreseen = deque(training.foreseen)
        self._next: Sequence[Ask] | None = None
        self._send(None)
        self.advance()

    def take(self, results: Sequence[Iterable[Any]]) -> None:
        """Hand over the results of one step; those that come after its end are of no use."""
        if self._next is not None:
            self._send(results)

    def advance(self) -> None:
        if self._next is None:
            self.steps: list[Sequence[Ask]] = []
        elif self.training.foreseen:
            self.steps = [self._foreseen.popleft() for _ in range(min(AHEAD, len(self._foreseen)))]
        else:
            self.steps = [self._next]

    def _send(self, results: Sequence[Iterable[Any]] | None) -> None:
        asking = self.training.asking
        try:
            self._next = next(asking) if results is None else asking.send(results)
        except StopIteration:
            self._next = None
        except Diverged as error:
            self._next = None
            self._diverged(self.training.trial, error)


def foreseen(rehearsal: Asking[None], done: int) -> list[Sequence[Ask]]:
    """What a training that is told nothing will ask for after the round ``done``, from a rehearsal with made-up answers."""
    found = []
    try:
        asks = next(rehearsal)
        while True:
            if asks[0].common.round.index > done:
                found.append(asks)
            asks = rehearsal.send([[_made_up(ask, task) for task in ask.tasks] for ask in asks])
    except StopIteration:
        return found


def _made_up(ask: Ask, task: Any) -> Trained | Scores:
    if ask.job is train_chunk:
        clients, numbers = task.members.addresses, np.ones(len(task.members.addresses))
        version = State(version=torch.full((len(clients),), ask.common.round.index))
        return checked(Done(Reply(clients, numbers, State(), {}), version, numbers, numbers), State(), each=False)
    numbers = np.ones(len(task[0].addresses))
    return Scores(numbers, {metric.name: Measured(numbers, numbers > 0) for metric in ask.common.metrics})


@dataclass(frozen=True)
class _Piece:
    """What one site is asked for."""

    facts: Facts
    tensors: dict[str, Tensor]


def _pieces(training: InStep, ask: Ask) -> dict[int, _Piece]:
    """An ask divided by client."""
    if ask.job is train_chunk:
        return _training(training.trial, ask.common, ask.tasks)
    return _evaluation(training.trial, ask.common, ask.tasks)


def _training(trial: Trial, common: Broadcast, chunks: Sequence[Chunk]) -> dict[int, _Piece]:
    down, pieces = prefixed("down/", common.download), {}
    for chunk in chunks:
        for row, client in enumerate(chunk.members.addresses):
            own = prefixed("own/", chunk.own.map(lambda v, row=row: v[row : row + 1]))  # type: ignore[misc]
            facts = _facts(trial, "train", common.round, chunk.kept, row) | {"weighting": common.weighting}
            pieces[client] = _Piece(facts, down | own)
    return pieces


def _evaluation(trial: Trial, common: ToEvaluate, tasks: Sequence[tuple[Members, State | Places]]) -> dict[int, _Piece]:
    server, what = prefixed("server/", common.server), common.what
    asked = {
        "kind": what.kind,
        "tune": as_dict(what.tune),
        "split": what.split,
        "metrics": [metric.name for metric in common.metrics],
    }
    return {
        client: _Piece(_facts(trial, "evaluate", common.round, versions, row) | asked, server)
        for members, versions in tasks
        for row, client in enumerate(members.addresses)
    }


def _facts(trial: Trial, job: str, round: Any, versions: State | Places, row: int) -> Facts:
    assert isinstance(versions, State)
    return {"trial": trial.key, "job": job, "round": round.__dict__, "version": int(versions.version[row])}


def _messages(
    sites: Sequence[str], asked: Sequence[tuple[InStep, Ask]], pieces: Sequence[Mapping[int, _Piece]], common: Facts
) -> dict[str, Message]:
    """For every site that has something to do: all pieces, each with its number, and the trials they belong to."""
    messages = {}
    for client, site in enumerate(sites):
        own = [(number, each[client]) for number, each in enumerate(pieces) if client in each]
        if own:
            trials = {asked[number][0].trial.key: asked[number][0].trial.facts for number, _ in own}
            tensors = {f"{i}/{name}": v for i, (_, piece) in enumerate(own) for name, v in piece.tensors.items()}
            facts = common | {"trials": trials, "asks": [piece.facts for _, piece in own]}
            messages[site] = Message(facts, tensors)
    return messages


def _of_ask(
    number: int, pieces: Sequence[Mapping[int, _Piece]], replies: Replies, sites: Sequence[str]
) -> dict[int, Facts | str]:
    """The results of one ask by client, with its tensors; or why there is none."""
    found: dict[int, Facts | str] = {}
    for client, piece in pieces[number].items():
        site = sites[client]
        if site not in replies.good:
            found[client] = replies.missing.get(site, "not asked")
            continue
        place = sum(client in each for each in pieces[:number])
        reply = replies.good[site]
        results = reply.facts.get("results")
        own = results[place] if isinstance(results, list) and len(results) > place else None
        asked = {"trial": piece.facts["trial"], "round": piece.facts["round"]["index"], "job": piece.facts["job"]}
        if not isinstance(own, dict) or any(own.get(name) != value for name, value in asked.items()):
            found[client] = "a reply for another round"
        else:
            tensors = taken(f"{place}/", reply.tensors)
            found[client] = str(own["error"]) if "error" in own else own | {"tensors": tensors}
    return found


def _results(training: InStep, ask: Ask, found: Mapping[int, Facts | str], link: Link) -> list[Any]:
    """What the training expects for each of its tasks, with every site's part checked."""
    if ask.job is not train_chunk:
        return [_scores(ask.common, members, found) for members, _ in ask.tasks]
    algorithm, whole = training.trial.algorithm, training.federation.train.sizes
    each = algorithm.reads_each or bool(training.trial.training.monitor)
    results = []
    for chunk in ask.tasks:  # averaged in the same groups as in a simulation
        weight = weights_of(algorithm, whole[chunk.members.rows], ask.common.weighting).sum()
        pieces = [chunk] if each else chunk.pieces()
        results.append(Trained.joined((_trained(training, ask.common, p, found, each, link) for p in pieces), weight))
    return results


def _trained(
    training: InStep, common: Broadcast, chunk: Chunk, found: Mapping[int, Facts | str], each: bool, link: Link
) -> Trained:
    good: list[tuple[int, Reply, Facts]] = []
    dropped: dict[int, str] = {}
    for client in chunk.members.addresses:
        result = found[client]
        reply = result if isinstance(result, str) else _reply(training, common, client, result, link)
        if isinstance(reply, str):
            dropped[client] = reply
        else:
            assert isinstance(result, dict)
            good.append((client, reply, result))
    joined = Reply(
        [client for client, _, _ in good],
        np.array([reply.weights[0] for _, reply, _ in good]),
        _stacked([reply.upload for _, reply, _ in good], common.expected),
        {},
    )
    numbers = (np.array([_number(result, name) for _, _, result in good]) for name in ("loss", "passes"))
    version = State(version=torch.full((len(good),), common.round.index))
    done = checked(Done(joined, version, *numbers), common.expected, each) if good else _nothing()
    done.accepted.dropped.update(dropped)
    return done


def _reply(training: InStep, common: Broadcast, client: int, result: Facts, link: Link) -> Reply | str:
    """One site's reply if it can be used, or why it cannot."""
    weight, size = _number(result, "weight"), training.federation.train.sizes[client : client + 1]
    expected = float(weights_of(training.trial.algorithm, size, common.weighting)[0])
    if weight != expected or weight > link.study.rules.max_weight:
        return f"a weight of {weight:g}, where its rows give {expected:g}"
    failed = {client: str(result["failed"])} if result.get("failed") else {}
    try:
        upload = state_of(taken("up/", result["tensors"]))
        reply = Reply([client], np.array([weight]), upload, failed)
        dropped = accepted(reply, common.expected).dropped
    except (UserError, TypeError, ValueError, RuntimeError) as error:
        return f"an upload that cannot be read: {error}"
    return dropped[client] if dropped else reply


def _number(result: Facts, name: str) -> float:
    value = result.get(name)
    return float(value) if isinstance(value, int | float) else float("nan")


def _stacked(uploads: Sequence[State], form: State) -> State:
    """The uploads of some clients as one, in the order that the server's own state has."""
    if not uploads:
        return State()
    leaves = [upload.flat for upload in uploads]
    return form.unflat({name: torch.cat([leaf[name] for leaf in leaves]) for name in form.flat})


def _nothing() -> Trained:
    nobody = np.zeros(0)
    return Trained(Accepted([], nobody, None, {}), State(version=torch.zeros(0, dtype=torch.int64)), nobody, nobody)


def _scores(common: ToEvaluate, members: Members, found: Mapping[int, Facts | str]) -> Scores:
    """The scores of some clients; those that told none have no samples."""
    told = [result if isinstance(result, dict) else {} for result in (found[c] for c in members.addresses)]
    samples = np.array([float(max(_number(each, "samples"), 0)) if each.get("metrics") else 0.0 for each in told])
    metrics = {}
    for metric in common.metrics:
        values = np.array([_number(each.get("metrics") or {}, metric.name) for each in told])
        metrics[metric.name] = Measured(values, np.isfinite(values))
    return Scores(samples, metrics)
