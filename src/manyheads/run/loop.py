"""The round loop: sample a cohort, train it, check the uploads, merge, evaluate, record, checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
import torch

from manyheads.core.contract import Algorithm, Round, Uploads, finite_clients
from manyheads.core.errors import Diverged, UserError
from manyheads.core.history import History
from manyheads.core.randomness import Purpose, generator
from manyheads.core.store import PersonalStore
from manyheads.core.tasks import task_named
from manyheads.core.trees import State
from manyheads.data import Federation
from manyheads.engines.pool import Pool, chunked
from manyheads.engines.workbench import Trained, average
from manyheads.models import Model
from manyheads.monitors import Monitors, Seen
from manyheads.run.directory import RunDirectory
from manyheads.run.evaluation import Evaluator
from manyheads.run.training import Training

__all__ = ["Loop", "sample_cohort"]

COHORT_LISTED_UP_TO = 1000
"""clients in a round up to which the history lists them"""


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
    model: Model
    federation: Federation
    training: Training
    directory: RunDirectory
    store: PersonalStore
    server: State
    history: History
    done: int

    def run(self, pool: Pool, on_round: Callable[[dict[str, Any]], None]) -> None:
        """Do the rounds that are left."""
        saved = time.monotonic()
        for index in range(self.done + 1, self.training.rounds + 1):
            record = self._round_within_range(pool, index)
            self.history.append(record)
            self.done = index
            on_round(record)
            if index == self.training.rounds or time.monotonic() - saved >= self.training.checkpoint_seconds:
                self._commit()
                saved = time.monotonic()

    def _commit(self) -> None:
        self.directory.commit(self.done, self.server, self.store, self.history)

    def _round_within_range(self, pool: Pool, index: int) -> dict[str, Any]:
        """A round; torch refuses to compute with a step size that its numbers cannot hold."""
        try:
            return self._round(pool, index)
        except RuntimeError as error:
            if "without overflow" not in str(error):
                raise
            raise Diverged(
                f"round {index}: a number is too large to compute with", fix=self._likely_cause({})
            ) from error

    def _round(self, pool: Pool, index: int) -> dict[str, Any]:
        started = time.perf_counter()
        cohort = sample_cohort(self.training, len(self.federation), index, self.algorithm.everyone(index))
        round = Round(index, self.training.seed, len(self.federation), len(cohort))
        expected = self.algorithm.expects(self.server, round)
        shared = self.algorithm.download(self.server, round)
        tasks = self._tasks(round, cohort)
        sent = shared.nbytes * len(cohort) + sum(own.nbytes for _, _, own, _ in tasks)
        losses: list[np.ndarray] = []
        bad: dict[int, str] = {}
        good: list[Trained] = []
        for trained in pool.run("train", (round, shared, expected), tasks):
            losses.append(trained.losses)
            bad |= trained.bad
            if trained.good:
                self.store.write(trained.good, trained.client)
                good.append(trained)
        self.server = self._merge(round, good, bad)
        found = np.concatenate(losses)
        found = found[np.isfinite(found)]
        record: dict[str, Any] = {
            "round": index,
            "clients": len(cohort),
            "cohort": cohort if len(cohort) <= COHORT_LISTED_UP_TO else None,
            "train_loss": task_named(self.federation.task).reported * float(found.mean()) if len(found) else None,
            "dropped": [{"client": c, "why": why} for c, why in sorted(bad.items())],
            "bytes_down": sent,
            "bytes_up": expected.nbytes * len(cohort),
            "seconds": time.perf_counter() - started,
        }
        if self.training.monitor:
            uploads = gathered(good, each=True)
            record["monitors"] = self._monitors(Seen(self.server, uploads.rows, self.store.read(uploads.clients)))
        record |= self._evaluation(pool, round, self.server, cohort)
        return record

    @cached_property
    def _monitors(self) -> Monitors:
        return Monitors(self.training.monitor, self.algorithm, self.model, self.federation, self.training.seed)

    @cached_property
    def _evaluation(self) -> Evaluator:
        return Evaluator(self.algorithm, self.model, self.federation, self.training, self.store)

    def _tasks(self, round: Round, cohort: list[int]) -> list[tuple[list[int], np.ndarray, State, State]]:
        """Each chunk of the cohort: its clients, their weights, what is sent to each of them, what each keeps."""
        sizes = self.federation.train.sizes
        kind = self.training.weighting if self.training.weighting != "auto" else self.algorithm.weighting
        tasks = []
        for clients in self._chunks(cohort, sizes):
            weights = sizes[clients].astype(float) if kind == "samples" else np.ones(len(clients))
            own = self.algorithm.download_each(self.server, clients, round)
            tasks.append((clients, weights, own, self.store.read(clients)))
        return tasks

    def _chunks(self, clients: Sequence[int], sizes: np.ndarray) -> list[list[int]]:
        return chunked(clients, sizes[clients], self.model.params.all.numel, self.training.engine.mode)

    def _merge(self, round: Round, good: list[Trained], bad: dict[int, str]) -> State:
        if not good:
            if self.done:
                self._commit()
            kind = Diverged if _not_finite(bad) else UserError
            raise kind(self._why_all_bad(round, bad), fix=self._likely_cause(bad))
        server = self.algorithm.merge(self.server, gathered(good, self.algorithm.reads_each), round)
        if not finite_clients(server.map(lambda v: v.unsqueeze(0)), 1).all():
            raise Diverged(
                f"round {round.index}: the merged model is not finite: training diverged",
                fix=self._likely_cause(bad),
            )
        return server

    def _why_all_bad(self, round: Round, bad: dict[int, str]) -> str:
        why = next(iter(bad.values()))
        saved = f"the state after round {self.done} is kept" if self.done else "nothing was trained yet"
        return f"round {round.index}: none of the {round.cohort} uploads can be used ({why}); {saved}"

    def _likely_cause(self, bad: dict[int, str]) -> str:
        if not _not_finite(bad):
            return "the algorithm's local() does not give what its expects() announces"
        paths = self.algorithm.step_sizes(1.0, len(self.federation))
        named = ", ".join(f"{path} = {attrgetter(path)(self.algorithm)}" for path in paths)
        return f"likely the step size is too large ({named}): try a tenth of it" if named else "training diverged"


def gathered(chunks: list[Trained], each: bool) -> Uploads:
    """The uploads of all chunks: of ``each`` client, if that is asked for and the chunks carry them, or their mean.

    The mean is that of the chunks' means, the same whether those were taken at the workers or are taken here.
    """
    clients = np.array([client for chunk in chunks for client in chunk.good])
    order = torch.from_numpy(np.argsort(clients, kind="stable"))
    weights = torch.from_numpy(np.concatenate([chunk.weights for chunk in chunks]))[order]
    parts = [(chunk, chunk.upload) for chunk in chunks if chunk.upload is not None]
    if each and all(len(v) == len(chunk.good) for chunk, upload in parts for v in upload.flat.values()):
        leaves = [upload.flat for _, upload in parts]
        rows = {k: torch.cat([part[k] for part in leaves])[order] for k in leaves[0]}
    else:
        share = [float(chunk.weights.sum() / weights.sum()) for chunk, _ in parts]
        leaves = [average(upload, chunk.weights).flat for chunk, upload in parts]
        rows = {k: share[0] * v for k, v in leaves[0].items()}
        for part, scale in zip(leaves[1:], share[1:], strict=True):
            for name, total in rows.items():
                total.add_(part[name], alpha=scale)
    return Uploads(clients[order.numpy()].tolist(), weights, parts[0][1].unflat(rows))


def _not_finite(bad: dict[int, str]) -> bool:
    return all("not finite" in why for why in bad.values())
