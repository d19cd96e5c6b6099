"""The round loop: sample a cohort, train it, check the uploads, merge, evaluate, record, checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from manyheads.core.contract import Algorithm, Round, Uploads
from manyheads.core.errors import Diverged, UserError
from manyheads.core.history import History
from manyheads.core.randomness import Purpose, generator
from manyheads.core.replies import Accepted, Gathering, gathered
from manyheads.core.round_end import RoundEnd
from manyheads.core.rounds import NoUploads, ServerRound, likely_cause, server_round, weights_of
from manyheads.core.store import PersonalStore
from manyheads.core.tasks import task_named
from manyheads.core.trees import State
from manyheads.data import Federation
from manyheads.engines.chunks import chunked, trained_together
from manyheads.engines.executor import Ask, Asking
from manyheads.engines.jobs import Broadcast, Chunk, train_chunk
from manyheads.engines.workbench import Members
from manyheads.models import Model, TriedModel
from manyheads.monitors import Monitors
from manyheads.run.directory import RunDirectory
from manyheads.run.evaluation import Evaluator
from manyheads.run.result import Run
from manyheads.run.training import Training

__all__ = ["Loop", "sample_cohort"]

COHORT_LISTED_UP_TO = 1000
"""largest cohort that the history lists client by client"""


def sample_cohort(training: Training, population: int, round: int, everyone: bool = False) -> list[int]:
    """The clients of a round, uniformly without replacement, in ascending order."""
    size = training.cohort or max(1, round_half_up(training.participation * population))
    if size > population:
        raise UserError("more clients a round than there are", where="cohort", given=size, allowed=f"1 to {population}")
    if everyone or size == population:
        return list(range(population))
    rng = generator(training.seed, Purpose.SAMPLING, round)
    return sorted(rng.choice(population, size, replace=False, shuffle=False).tolist())


def round_half_up(value: float) -> int:
    return int(np.floor(value + 0.5))


@dataclass
class Loop:
    """The state of a run while it runs, and the step from one round to the next."""

    algorithm: Algorithm
    model: TriedModel
    federation: Federation
    training: Training
    directory: RunDirectory
    store: PersonalStore
    server: State
    history: History
    done: int
    temporary: TemporaryDirectory[str] | None = None
    """holds the folder, if it is to be removed with the result"""

    def result(self, model: Model) -> Run:
        """The run as far as it has got."""
        done = (self.algorithm, model, self.training, self.server, self.history, self.directory, self.store)
        return Run(*done, self.temporary, self.model)

    def run(
        self, on_round: Callable[[RoundEnd], None], enough: Callable[[History], bool] = lambda history: False
    ) -> Asking[None]:
        """Run the remaining rounds, or until ``enough``; who trains and evaluates the clients is up to the caller."""
        saved = time.monotonic()
        for index in range(self.done + 1, self.training.rounds + 1):
            if enough(self.history):
                self._commit()
                return
            end = yield from self._round_within_range(index)
            self.history.append(end.record)
            self.done = index
            on_round(end)
            del end  # frees its uploads before the next round makes new ones
            if index == self.training.rounds or time.monotonic() - saved >= self.training.checkpoint_seconds:
                self._commit()
                saved = time.monotonic()

    def _commit(self) -> None:
        self.directory.commit(self.done, self.server, self.store, self.history)

    def _round_within_range(self, index: int) -> Asking[RoundEnd]:
        """Run a round; torch's error for a step size out of the range of its number type becomes :class:`Diverged`."""
        try:
            return (yield from self._round(index))
        except RuntimeError as error:
            if "without overflow" not in str(error):
                raise
            cause = likely_cause(self.algorithm, len(self.federation))
            raise Diverged(f"round {index}: a number is too large to compute with", fix=cause) from error

    def _round(self, index: int) -> Asking[RoundEnd]:
        started = time.perf_counter()
        cohort = sample_cohort(self.training, len(self.federation), index, self.algorithm.everyone(index))
        round = Round(index, self.training.seed, len(self.federation), len(cohort), self.training.rate(index))
        common, chunks = self._broadcast(round), self._chunks(round, cohort)
        weights = weights_of(self.algorithm, self.federation.train.sizes[cohort], common.weighting)
        losses, passes, gathering = [], [], Gathering(float(weights.sum()))
        (answers,) = yield [Ask(train_chunk, common, chunks, large=True)]
        for trained in answers:
            losses.append(trained.losses)
            passes.append(trained.passes)
            gathering.add(trained.accepted)
            if trained.accepted.clients:
                self.store.accept(trained.accepted.clients, trained.kept)
            del trained  # frees its mean before the next one comes
        parts = gathering.parts()
        after = self._server_round(parts, round)
        sent = common.download.nbytes * len(cohort) + sum(chunk.own.nbytes for chunk in chunks)
        received = common.expected.nbytes * len(cohort)
        self.server = after.server
        del common, chunks, answers, gathering  # the state before, which nobody needs in the evaluation
        found = np.concatenate(losses)
        found = found[np.isfinite(found)]
        record: dict[str, Any] = {
            "round": index,
            "clients": len(cohort),
            "cohort": cohort if len(cohort) <= COHORT_LISTED_UP_TO else None,
            "train_loss": task_named(self.federation.task).reported * float(found.mean()) if len(found) else None,
            "dropped": [{"client": c, "why": why} for c, why in sorted(after.dropped.items())],
            "passes": float(np.concatenate(passes).mean()),
            "bytes_down": sent,
            "bytes_up": received,
            "seconds": time.perf_counter() - started,
        }
        end = RoundEnd(record, self.server, partial(_uploads, parts), self.store.read)
        if self.training.monitor:
            record["monitors"] = self._monitors(end)
        record |= yield from self._evaluation(round, self.server, cohort, self._every(cohort, record["passes"]))
        return end

    def _every(self, cohort: Sequence[int], passes: float) -> int:
        """Rounds between evaluations: as the protocol says or, if it says nothing, as the work of the first round does."""
        given = self.training.evaluate.every
        if given or not len(self.history):
            return given or self._evaluation.usual_every(cohort, passes)
        return int(self.history[0]["evaluation"]["every"])

    def _broadcast(self, round: Round) -> Broadcast:
        download, expected = self.algorithm.download(self.server, round), self.algorithm.expects(self.server, round)
        weighting = None if self.training.weighting == "auto" else self.training.weighting
        return Broadcast(round, download, expected, weighting)

    def _chunks(self, round: Round, cohort: Sequence[int]) -> list[Chunk]:
        sizes = self.federation.train.sizes[cohort]
        parts = chunked(cohort, sizes, self.model.params.all.numel, self.training.engine.mode)
        each = self.algorithm.download_each
        together = trained_together(self.model.params.all.numel)
        return [
            Chunk(Members.of(rows), each(self.server, rows, round), self.store.given(rows), together) for rows in parts
        ]

    def _server_round(self, parts: Sequence[Accepted], round: Round) -> ServerRound:
        try:
            return server_round(self.algorithm, self.server, parts, round, self.model.statistics)
        except NoUploads as error:
            if self.done:
                self._commit()
            saved = f"the state after round {self.done} is kept" if self.done else "nothing was trained yet"
            raise error.explained(self.algorithm, saved) from None

    @cached_property
    def _monitors(self) -> Monitors:
        return Monitors(self.training.monitor, self.algorithm, self.model, self.federation, self.training.seed)

    @cached_property
    def _evaluation(self) -> Evaluator:
        return Evaluator(self.algorithm, self.model, self.federation, self.training, self.store)


def _uploads(parts: Sequence[Accepted]) -> Uploads:
    found = gathered(parts, each=True)
    assert found is not None  # the round would have failed without any
    return found
