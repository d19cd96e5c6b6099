"""The runs of a comparison, in a folder from which they can go on, done by as many processes as there are cores."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from manyheads.core.checkpoint import rounds_on_disk
from manyheads.core.errors import Diverged, UserError
from manyheads.core.files import replacing, write_text
from manyheads.core.history import History
from manyheads.core.interrupts import held
from manyheads.core.optim import FineTune
from manyheads.data import Federation
from manyheads.engines.evaluation import Outcomes
from manyheads.engines.pool import one_thread
from manyheads.engines.workers import Workers
from manyheads.experiments.methods import TUNED, Method
from manyheads.models import Model
from manyheads.run import Training, load, run_training
from manyheads.run.simulate import described, same_run

__all__ = ["Progress", "Study", "Trial", "at_work"]

Trial = tuple[Method, float, int]
"""a method, its step size and the seed: one run, which a method shares with its fine-tuned sister"""
Progress = Callable[[int, str], None]
"""called now and then with the rounds done so far, and what was done last (or nothing)"""
SECONDS_BETWEEN_LOOKS = 0.3


class Study:
    """One federation, models, and the folder of the runs. Worker processes hold a copy of it."""

    def __init__(
        self,
        federation: Federation,
        model: Callable[[int], Model],
        training: Training,
        config: dict[str, Any],
        out: Path,
    ) -> None:
        self.federation, self.model, self.training, self.config, self.out = federation, model, training, config, out
        self.tuned: set[str] = set()
        """algorithms whose models are fine-tuned whenever they are evaluated"""

    def path(self, method: Method, lr: float, seed: int) -> Path:
        name = method.algorithm.name + (TUNED if method.algorithm.name in self.tuned else "")
        return self.out / "runs" / f"{name}-lr{lr:g}-s{seed}"

    def train(self, method: Method, lr: float, seed: int) -> None:
        """One run, or the rest of it, unless it is known to diverge."""
        path = self.path(method, lr, seed)
        tuned = replace(self.training.finetune, lr=lr) if method.algorithm.name in self.tuned else FineTune()
        training = replace(self.training, seed=seed, finetune=tuned)
        algorithm = method.at(lr, len(self.federation))
        done = next(iter(rounds_on_disk(path / "checkpoint")), 0)
        if done >= training.rounds or self.diverged(method, lr, seed):
            same_run(path, described(algorithm, self.federation, training, self.config))
            if done > training.rounds:
                raise UserError(f"{path} has {done} rounds already", where="rounds", given=training.rounds)
            return
        try:
            run_training(algorithm, self.model(seed), self.federation, training, self.config, path, resume=True)
        except Diverged as error:
            write_text(path / "diverged.txt", f"{error}\n")

    def diverged(self, method: Method, lr: float, seed: int) -> bool:
        return (self.path(method, lr, seed) / "diverged.txt").exists()

    def judge(self, method: Method, lr: float, seed: int) -> None:
        """Try the final models on every validation and test sample, and keep the outcomes."""
        place = self._outcomes_path(method, lr, seed)
        if place.exists():
            return
        run = load(self.path(method, lr, seed), self.model(seed))
        found: dict[str, np.ndarray] = {}
        for split in ("validation", "test"):
            outcomes = run.outcomes(self.federation, split, method.finetuned)
            found |= {f"{split}/{name}": np.ascontiguousarray(v) for name, v in outcomes._asdict().items()}
        with replacing(place) as temporary:
            save_file(found, temporary)

    def outcomes(self, method: Method, lr: float, seed: int, split: str) -> Outcomes:
        """What :meth:`judge` found."""
        found = load_file(self._outcomes_path(method, lr, seed))
        return Outcomes(*(found[f"{split}/{name}"] for name in Outcomes._fields))

    def _outcomes_path(self, method: Method, lr: float, seed: int) -> Path:
        kind = "finetuned" if method.finetuned else "plain"
        return self.path(method, lr, seed) / f"outcomes-{kind}.safetensors"

    def curve(self, method: Method, lr: float, seed: int) -> list[dict[str, Any]]:
        """What was evaluated of a method on the way, with the bytes sent until then."""
        sent, points = 0, []
        for record in self.history(method, lr, seed):
            sent += record["bytes_up"] + record["bytes_down"]
            found = [record["evaluation"]] if "evaluation" in record else []
            if method.finetuned:
                found = [e for e in record.get("also", []) if e["model"] == "finetuned" and e["who"] == "all"]
            points += [{"round": record["round"], "bytes": sent, **evaluation} for evaluation in found]
        return points

    def history(self, method: Method, lr: float, seed: int) -> History:
        return History.read(self.path(method, lr, seed) / "history.jsonl")

    def rounds_done(self, trials: Iterable[Trial]) -> int:
        """Rounds that are in the histories of these runs."""
        return sum(_lines(path / "history.jsonl") for path in {self.path(*t) for t in trials})


def _lines(path: Path) -> int:
    try:
        return path.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


@contextmanager
def at_work(study: Study, workers: int, progress: Progress) -> Iterator[Callable[[str, list[Trial]], None]]:
    """A function ``do("train" or "judge", trials)`` that gives every worker a run of its own.

    Runs that share nothing are the best thing to do in parallel: no worker ever waits for another. Trials of the same run
    are done once.
    """
    with one_thread():
        context = get_context(study.training.engine.resolved_start_method())
        crew: Workers | None = None
        begun: list[Trial] = []

        def do(what: str, trials: list[Trial]) -> None:
            begun.extend(trials)
            once = list({study.path(*t) if what == "train" else t: t for t in trials}.values())
            done = crew.map(what, once) if crew else (getattr(study, what)(*t) for t in once)
            for method, lr, seed in (t for t, _ in zip(once, done, strict=True)):
                progress(study.rounds_done(begun), f"{method.name}, step size {lr:g}, seed {seed}")

        try:
            with held():
                crew = Workers(workers, context, _itself, (study,)) if workers > 1 else None
            with _watched(lambda: progress(study.rounds_done(begun), "")):
                yield do
        finally:
            if crew:
                crew.close()


def _itself(study: Study) -> Study:
    return study


@contextmanager
def _watched(look: Callable[[], None]) -> Iterator[None]:
    """Look at the histories now and then, which the runs write wherever they are."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(SECONDS_BETWEEN_LOOKS):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
