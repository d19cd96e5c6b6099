"""The jobs of a run, for an executor that holds a workbench: train a chunk of clients, evaluate a chunk of clients."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from manyheads.core.contract import Each, Mean, Round
from manyheads.core.replies import Accepted, Reply, accepted, check_upload, finite_clients
from manyheads.core.rounds import Weighting, client_round, weights_of
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
    kept: State
    """the personal state of each of them, with a client dimension"""


@dataclass(frozen=True)
class Trained:
    """The result of training a chunk: replies that the worker has checked for the server, and perhaps averaged."""

    accepted: Accepted
    kept: State
    """new personal states of the clients whose replies were accepted"""
    losses: np.ndarray
    """mean training loss of each client, or a single one if the chunk was pooled"""
    passes: np.ndarray
    """passes over its samples that each client made"""


def train_chunk(bench: Workbench, common: Broadcast, chunk: Chunk) -> Trained:
    """Train a chunk of clients, and do the server's check of their replies."""
    data, download, kept = _inputs(bench, common, chunk)
    if bench.algorithm.pooled and bench.mode != "loop" and not bench.model.mixes and not data.task.joint:
        pooled = _pooled(bench, common, chunk.members, data, download, kept)
        if pooled is not None:
            return pooled
    done = _rounded(bench, common, chunk.members, data, download, kept)
    return checked(done, common.expected, bench.keep.each)


def _inputs(bench: Workbench, common: Broadcast, chunk: Chunk) -> tuple[ClientData, State, State]:
    """A chunk's training samples, what was downloaded, and what its clients keep, on the device."""
    data = bench.training_data(bench.federation, chunk.members.rows)
    return data, bench.on_device(common.download | chunk.own), bench.on_device(chunk.kept)


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


def _pooled(
    bench: Workbench, common: Broadcast, members: Members, data: ClientData, download: State, kept: State
) -> Trained | None:
    """Train all clients as one whose loss is the weighted mean of theirs; None if the result is not finite."""
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


def evaluate_chunk(bench: Workbench, common: ToEvaluate, task: tuple[Members, State]) -> Scores:
    """The scores of some clients (of the federation, or new ones), after fine-tuning if that is asked for."""
    members, kept = task
    predictions = bench.predictions(common.round, common.what, common.server, members, kept)
    return Scores.of(predictions, common.metrics)


def _home(found: Accepted) -> Accepted:
    """The same with its uploads on the CPU."""
    if found.uploads is None:
        return found
    uploads = found.uploads
    moved = Mean(uploads.value.map(_to_cpu)) if isinstance(uploads, Mean) else Each(uploads.rows.map(_to_cpu))
    return replace(found, uploads=moved)


def _to_cpu(value: Tensor) -> Tensor:
    return value.detach().cpu()
