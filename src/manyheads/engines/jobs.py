"""The jobs of a run, for an executor that holds a workbench: train a chunk of clients, evaluate a chunk of clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from manyheads.core.contract import Each, Mean, Round
from manyheads.core.replies import Accepted, Gathering, Reply, accepted, check_upload, finite_clients
from manyheads.core.rounds import Weighting, client_round, weights_of
from manyheads.core.state_file import Places, Written
from manyheads.core.tasks import task_named
from manyheads.core.trees import State
from manyheads.engines.client_data import ClientData
from manyheads.engines.cohort import LocalCohort
from manyheads.engines.workbench import Evaluation, Members, Workbench
from manyheads.metrics import Metric, Scores

__all__ = [
    "Broadcast",
    "Chunk",
    "Done",
    "ToEvaluate",
    "Trained",
    "checked",
    "evaluate_chunk",
    "reply_of",
    "train_chunk",
]


@dataclass(frozen=True)
class Broadcast:
    """What all chunks of a round have in common."""

    round: Round
    download: State
    """what was sent to all clients alike"""
    expected: State
    """the form of an upload"""
    weighting: Weighting | None


@dataclass(frozen=True)
class Chunk:
    """Clients that are trained together."""

    members: Members
    own: State
    """what was sent to each of them, with a client dimension"""
    kept: State | Places
    """the personal state of each of them, with a client dimension; or where to read and write it"""
    together: int
    """how many of them are trained at a time"""

    def pieces(self) -> Iterator[Chunk]:
        """The clients that are trained at a time, one such group after the other."""
        for here in _pieces(len(self.members.rows), self.together):
            own, kept = self.own.map(lambda v, here=here: v[here]), _taken(self.kept, here)  # type: ignore[misc]
            yield replace(self, members=self.members.take(here), own=own, kept=kept)


def _pieces(clients: int, together: int) -> list[slice]:
    """Groups of at most so many clients, about equally large."""
    parts = np.array_split(np.arange(clients), max(1, -(-clients // together)))
    return [slice(int(rows[0]), int(rows[-1]) + 1) for rows in parts if len(rows)]


def _taken(kept: State | Places, here: slice) -> State | Places:
    return kept.take(here) if isinstance(kept, Places) else kept.map(lambda v: v[here])


@dataclass(frozen=True)
class Trained:
    """The result of training a chunk: replies that the worker has checked for the server, and perhaps averaged."""

    accepted: Accepted
    kept: State | Written
    """new personal states of the clients whose replies were accepted; or where they were written"""
    losses: np.ndarray
    """mean training loss of each client, or a single one if the chunk was pooled"""
    passes: np.ndarray
    """passes over its samples that each client made"""

    @classmethod
    def joined(cls, parts: Iterable[Trained], weight: float) -> Trained:
        """The results of clients that were trained one group after the other; ``weight`` is that of all of them."""
        gathering, kept, losses, passes = Gathering(weight), [], [], []
        for part in parts:
            gathering.add(part.accepted)
            kept.append(part.kept)
            losses.append(part.losses)
            passes.append(part.passes)
            del part  # frees its mean before the next group is trained
        return cls(_one(gathering.parts()), _kept(kept), np.concatenate(losses), np.concatenate(passes))


def train_chunk(bench: Workbench, common: Broadcast, chunk: Chunk) -> Trained:
    """Train a chunk of clients, and do the server's check of their replies."""
    pooled = _pooled(bench, common, chunk)
    if pooled is not None:
        return pooled
    if bench.keep.each or len(chunk.members.rows) <= chunk.together:
        return _trained(bench, common, chunk)
    weight = weights_of(bench.algorithm, bench.federation.train.sizes[chunk.members.rows], common.weighting).sum()
    return Trained.joined((_trained(bench, common, piece) for piece in chunk.pieces()), weight)


def _trained(bench: Workbench, common: Broadcast, chunk: Chunk) -> Trained:
    done = _rounded(bench, common, chunk.members, *_inputs(bench, common, chunk))
    found = checked(done, common.expected, bench.keep.each)
    if isinstance(chunk.kept, State):
        return found
    assert isinstance(found.kept, State)
    good = np.isin(chunk.members.addresses, found.accepted.clients)
    return replace(found, kept=bench.write(chunk.kept.take(good), found.kept))


def _inputs(bench: Workbench, common: Broadcast, chunk: Chunk) -> tuple[ClientData, State, State]:
    """A chunk's training samples, what was downloaded, and what its clients keep, on the device."""
    data = bench.training_data(bench.federation, chunk.members.rows)
    return data, bench.on_device(common.download | chunk.own), bench.on_device(bench.read(chunk.kept))


@dataclass(frozen=True)
class Done:
    """What clients have done in a round, before anybody has checked it."""

    reply: Reply
    kept: State
    losses: np.ndarray
    passes: np.ndarray


def reply_of(bench: Workbench, common: Broadcast, chunk: Chunk) -> Done:
    """Train a chunk of clients where they are; the server is yet to check their replies."""
    done = _rounded(bench, common, chunk.members, *_inputs(bench, common, chunk))
    reply = replace(done.reply, upload=done.reply.upload.map(_to_cpu))
    return replace(done, reply=reply, kept=done.kept.map(_to_cpu))


def _rounded(
    bench: Workbench, common: Broadcast, members: Members, data: ClientData, download: State, kept: State
) -> Done:
    cohort = LocalCohort(bench.model, data, members.addresses, common.round, bench.mode)
    done = client_round(
        bench.algorithm, cohort, download, kept, weighting=common.weighting, keep_local=bench.keep.local
    )
    return Done(done.reply, done.kept, done.losses, cohort.passes)


def checked(done: Done, expected: State, each: bool) -> Trained:
    """The server's check of replies, which are averaged unless ``each`` of them is needed."""
    found, stays = accepted(done.reply, expected), done.kept
    if found.dropped:
        good = [i for i, client in enumerate(done.reply.clients) if client not in found.dropped]
        stays = stays.map(lambda v: v[good])
    if not each:
        found = found.averaged()
    return Trained(_home(found), stays.map(_to_cpu), done.losses, done.passes)


def _one(parts: list[Accepted]) -> Accepted:
    """Parts of which one has the mean, and the others were dropped."""
    used = [part for part in parts if part.uploads is not None] or parts[:1]
    return replace(used[0], dropped={client: why for part in parts for client, why in part.dropped.items()})


def _kept(parts: list[State | Written]) -> State | Written:
    states = [part for part in parts if isinstance(part, State)]
    written = [part for part in parts if isinstance(part, Written)]
    if written:
        return Written(*map(np.concatenate, zip(*written, strict=True)))
    leaves = [state.flat for state in states]
    return states[0].unflat({k: torch.cat([each[k] for each in leaves]) for k in leaves[0]})


def _pooled(bench: Workbench, common: Broadcast, chunk: Chunk) -> Trained | None:
    """Train all clients as one whose loss is the weighted mean of theirs; None if that is not possible, or not finite."""
    joint = task_named(bench.federation.task).joint
    if not bench.algorithm.pooled or bench.mode == "loop" or bench.model.mixes or joint:
        return None
    members, (data, download, kept) = chunk.members, _inputs(bench, common, chunk)
    weights = weights_of(bench.algorithm, data.sizes, common.weighting)
    cohort = LocalCohort(
        bench.model, data, members.addresses, common.round, bench.mode, pooled=torch.from_numpy(weights)
    )
    upload = bench.algorithm.local(cohort, download, kept).upload
    if not finite_clients(upload, 1).all():
        return None
    check_upload(upload, common.expected, 1)
    mean = Mean(upload.map(lambda v: v[0]))
    reply = Accepted(members.addresses, weights, mean, {})
    return Trained(_home(reply), State(), cohort.train_loss[:1], cohort.passes)


@dataclass(frozen=True)
class ToEvaluate:
    """What all chunks of an evaluation have in common."""

    round: Round
    what: Evaluation
    server: State
    metrics: tuple[Metric, ...]
    together: int
    """how many clients of a chunk have their models in memory at a time"""


def evaluate_chunk(bench: Workbench, common: ToEvaluate, task: tuple[Members, State | Places]) -> Scores:
    """The scores of some clients (of the federation, or new ones), after fine-tuning if that is asked for."""
    members, kept = task
    parts = []
    for here in _pieces(len(members.rows), common.together):
        states = bench.read(_taken(kept, here))
        found = bench.predictions(common.round, common.what, common.server, members.take(here), states)
        parts.append(Scores.of(found, common.metrics))
    return Scores.joined(parts, np.arange(len(members.rows)))


def _home(found: Accepted) -> Accepted:
    """The same with its uploads on the CPU."""
    if found.uploads is None:
        return found
    uploads = found.uploads
    moved = Mean(uploads.value.map(_to_cpu)) if isinstance(uploads, Mean) else Each(uploads.rows.map(_to_cpu))
    return replace(found, uploads=moved)


def _to_cpu(value: Tensor) -> Tensor:
    return value.detach().cpu()
