"""The runs of a comparison, in a folder from which they can go on, done by as many processes as there are cores."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyheads.core.checkpoint import read_tensors, write_tensors
from manyheads.core.contract import Algorithm
from manyheads.core.errors import Damaged, Diverged, UserError
from manyheads.core.files import content
from manyheads.core.history import History
from manyheads.core.optim import FineTune
from manyheads.core.sealed import read_json, write_json
from manyheads.data import Federation
from manyheads.engines.evaluation import Outcomes
from manyheads.engines.executor import working
from manyheads.experiments.methods import TUNED, Method
from manyheads.models import Model
from manyheads.run import Training, load, run_training
from manyheads.run.config_file import RUN, RunConfig, read_run_config
from manyheads.run.directory import RunDirectory

__all__ = ["Progress", "Study", "Trial", "at_work", "judge_trial", "train_trial"]

Trial = tuple[Method, float, int]
"""a method, its step size and the seed: one run, which a method shares with its fine-tuned sister"""
Progress = Callable[[int, str], None]
"""called now and then with the rounds done so far, and what was done last (or nothing)"""
Job = Callable[["Study", None, Trial], list[str]]
"""what is done with a trial, and gives what is to be said about it"""
SECONDS_BETWEEN_LOOKS = 0.3
DIVERGED = "diverged.json"


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

    def train(self, method: Method, lr: float, seed: int) -> list[str]:
        """One run, or the rest of it, unless it is known to diverge; gives what was found damaged, and was done again."""
        path = self.path(method, lr, seed)
        algorithm, training = self._settings(method, lr, seed)
        said: list[str] = []

        def go_on() -> None:
            if self.diverged(method, lr, seed):
                return self._require_same(path, algorithm, training)
            model = self.model(seed)
            run_training(algorithm, model, self.federation, training, self.config, path, resume=True, say=said.append)
            return None

        try:
            try:
                go_on()
            except Damaged as error:
                said.append(f"{error}; that run is done again")
                shutil.rmtree(path)
                go_on()
        except Diverged as error:
            write_json(path / DIVERGED, {"schema": 1, "error": str(error)})
        return said

    def _settings(self, method: Method, lr: float, seed: int) -> tuple[Algorithm, Training]:
        tuned = replace(self.training.finetune, lr=lr) if method.algorithm.name in self.tuned else FineTune()
        return method.at(lr, len(self.federation)), replace(self.training, seed=seed, finetune=tuned)

    def refuse_others(self, trials: Iterable[Trial]) -> None:
        """Runs that are there already must be those of this study, before anything is written."""
        found = {file.parent for file in self.out.glob(f"runs/*/{RUN}")}
        for trial in trials:
            algorithm, training = self._settings(*trial)
            with suppress(Damaged):  # is done again
                if (path := self.path(*trial)) in found:
                    self._require_same(path, algorithm, training)
        for path in sorted(found):
            with suppress(Damaged):
                if read_run_config(path).facts.fingerprint != self.federation.fingerprint:
                    raise UserError(
                        "the runs there are of other data, or of another division of it",
                        where="resume",
                        given=str(path),
                        fix="choose another --out",
                    )

    def _require_same(self, path: Path, algorithm: Algorithm, training: Training) -> None:
        read_run_config(path).require_same(RunConfig.of(algorithm, self.federation, training, self.config))

    def diverged(self, method: Method, lr: float, seed: int) -> bool:
        """Whether a run is known to diverge."""
        file = self.path(method, lr, seed) / DIVERGED
        return file.exists() and bool(read_json(file))

    def judge(self, method: Method, lr: float, seed: int) -> list[str]:
        """Try the final models on every validation and test sample, and keep the outcomes."""
        place, said = self._outcomes_path(method, lr, seed), []
        if place.exists():
            try:
                self._outcomes(method, lr, seed)
                return []
            except Damaged as error:  # or of fewer rounds
                said.append(f"{error}; the models are tried again")
        run = load(self.path(method, lr, seed), self.model(seed))
        found: dict[str, Tensor] = {}
        for split in ("validation", "test"):
            outcomes = run.outcomes(self.federation, split, method.finetuned)
            found |= {f"{split}/{name}": torch.from_numpy(v) for name, v in outcomes._asdict().items()}
        write_tensors(place, found, self._of(method, lr, seed))
        return said

    def outcomes(self, method: Method, lr: float, seed: int, split: str) -> Outcomes:
        """What :meth:`judge` found."""
        found = self._outcomes(method, lr, seed)
        return Outcomes(*(found[f"{split}/{name}"].numpy() for name in Outcomes._fields))

    def _outcomes(self, method: Method, lr: float, seed: int) -> dict[str, Tensor]:
        return read_tensors(self._outcomes_path(method, lr, seed), self._of(method, lr, seed))

    def _outcomes_path(self, method: Method, lr: float, seed: int) -> Path:
        return self.path(method, lr, seed) / f"outcomes-{_kind(method)}.safetensors"

    def _of(self, method: Method, lr: float, seed: int) -> dict[str, str]:
        """What outcomes are of: the run, how far it went, and which of its models."""
        settings = RunDirectory(self.path(method, lr, seed)).settings
        return {"settings": settings, "round": str(self.training.rounds), "models": _kind(method)}

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
        return RunDirectory(self.path(method, lr, seed)).history()

    def rounds_done(self, trials: Iterable[Trial]) -> int:
        """Rounds that are in the histories of these runs."""
        return sum(_lines(path / "history.jsonl") for path in {self.path(*t) for t in trials})


def _kind(method: Method) -> str:
    return "finetuned" if method.finetuned else "plain"


def _lines(path: Path) -> int:
    try:
        return content(path).count(b"\n")
    except OSError:  # not there yet, or damaged, which is said elsewhere
        return 0


@contextmanager
def at_work(
    study: Study, workers: int, progress: Progress, say: Callable[[str], None]
) -> Iterator[Callable[[Job, list[Trial]], None]]:
    """A function ``do(train_trial or judge_trial, trials)`` that gives every worker a run of its own.

    Runs that share nothing are the best thing to do in parallel: no worker ever waits for another. Trials of the same run
    are done once. ``say`` is told what was damaged and is done again.
    """
    method = study.training.engine.resolved_start_method()
    with working(workers, method, study, _itself, (study,)) as executor:
        begun: list[Trial] = []

        def do(job: Job, trials: list[Trial]) -> None:
            begun.extend(trials)
            once = list({study.path(*t) if job is train_trial else t: t for t in trials}.values())
            for (method, lr, seed), said in zip(once, executor.map(job, None, once), strict=True):
                for words in said:
                    say(words)
                progress(study.rounds_done(begun), f"{method.name}, step size {lr:g}, seed {seed}")

        with _watched(lambda: progress(study.rounds_done(begun), "")):
            yield do


def train_trial(study: Study, common: None, trial: Trial) -> list[str]:
    """Do one run of a study, or the rest of it."""
    return study.train(*trial)


def judge_trial(study: Study, common: None, trial: Trial) -> list[str]:
    """Try the final models of one run of a study."""
    return study.judge(*trial)


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
