"""The runs of a comparison: kept in a folder, so that they can be resumed, and trained by several worker processes."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from manyheads.core.checkpoint import read_tensors, write_tensors
from manyheads.core.contract import Algorithm
from manyheads.core.errors import Damaged, Diverged, UserError
from manyheads.core.files import content
from manyheads.core.optim import FineTune
from manyheads.core.sealed import read_json, write_json
from manyheads.core.tasks import TASKS
from manyheads.data import Federation
from manyheads.engines.executor import working
from manyheads.experiments.methods import Method
from manyheads.experiments.trials import Trial
from manyheads.metrics import Metric, SampleMetric
from manyheads.models import Model
from manyheads.monitors import MONITORS
from manyheads.run import Training, load, run_training
from manyheads.run.config_file import RUN, RunConfig, read_run_config
from manyheads.run.directory import RunDirectory
from manyheads.run.kinds import register
from manyheads.run.rounds import RoundFacts

__all__ = ["Progress", "Split", "Study", "Validated", "at_work", "judge_trial", "train_trial"]

Progress = Callable[[int, str], None]
"""called periodically with the number of rounds done, and the trial just finished (or an empty string)"""
Job = Callable[["Study", None, Trial], list[str]]
"""a function that processes a trial and returns messages to show"""
Split = Literal["validation", "test"]
SPLITS: tuple[Split, ...] = ("validation", "test")
SECONDS_BETWEEN_LOOKS = 0.3
DIVERGED = "diverged.json"


@dataclass(frozen=True)
class Validated:
    """A method's score and loss on validation samples after a round."""

    round: int
    bytes: int
    """bytes sent by and to all clients up to this round"""
    score: float | None
    loss: float | None


class Outcomes(NamedTuple):
    """The score of every sample, client after client."""

    score: np.ndarray
    sizes: np.ndarray
    """samples of each client"""


@dataclass(frozen=True)
class Study:
    """What all trials share: federation, model, training, and the folder of the runs. Each worker holds a copy."""

    federation: Federation
    model: Callable[[int], Model]
    training: Training
    config: dict[str, Any]
    out: Path
    score: SampleMetric
    """the metric that methods are compared by"""
    metrics: Sequence[Metric] = ()
    """further metrics to report of the final models"""
    tuned: Sequence[Algorithm] = ()
    """algorithms whose models are fine-tuned whenever they are evaluated"""

    @property
    def sign(self) -> int:
        """Factor of the score so that higher is better: -1 for metrics where lower is better."""
        return -1 if self.score.higher_is_better is False else 1

    def trial(self, method: Method, rate: float | None, seed: int) -> Trial:
        """Return the trial of a method with a step size and a seed."""
        algorithm, tune = method.at(rate, len(self.federation)), FineTune()
        if method.algorithm in self.tuned:
            tune = self.training.finetune if rate is None else replace(self.training.finetune, lr=rate)
        training = replace(self.training, seed=seed, finetune=tune)
        config = RunConfig.of(algorithm, self.federation, training, self.config)
        return Trial(method.label, algorithm, training, rate, method.finetuned, config)

    def path(self, trial: Trial) -> Path:
        return self.out / "runs" / trial.folder

    def train(self, trial: Trial) -> list[str]:
        """Train or resume one run, unless it is known to diverge; returns messages about damaged runs done again."""
        path, said = self.path(trial), list[str]()

        def go_on() -> None:
            if self.diverged(trial):
                return read_run_config(path).require_same(trial.config)
            algorithm, training, model = trial.algorithm, trial.training, self.model(trial.seed)
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

    def adopt(self, trials: Sequence[Trial], say: Callable[[str], None]) -> None:
        """Refuse a folder with runs of another comparison before any change; then rename runs with old folder names."""
        runs, old = sorted(file.parent for file in self.out.glob(f"runs/*/{RUN}")), dict[Path, Trial]()
        for path in runs:
            with suppress(Damaged):  # train() reports it and trains the run again
                self._refuse_other(path, trials[0].config)
        for trial in trials:
            path = self.out / "runs" / trial.old_folder
            if path in runs and not self.path(trial).exists():
                try:
                    read_run_config(path).require_same(trial.config)
                    old[path] = trial
                except Damaged as error:
                    say(f"{error}; that run is done again")
        for path, trial in old.items():
            path.rename(self.path(trial))

    def _refuse_other(self, path: Path, now: RunConfig) -> None:
        """Refuse an existing run that differs from this study in more than its algorithm, seed and fine-tuning."""
        found = read_run_config(path)
        if found.facts.fingerprint != self.federation.fingerprint:
            raise UserError(
                "the runs there are of other data, or of another division of it",
                where="resume",
                given=str(path),
                fix="choose another --out",
            )
        own = {key: found.settings.get(key) for key in ("algorithm", "seed", "finetune")}
        found.require_same(replace(now, settings=now.settings | own))

    def diverged(self, trial: Trial) -> bool:
        """Whether a run is known to diverge."""
        file = self.path(trial) / DIVERGED
        return file.exists() and bool(read_json(file))

    def judge(self, trial: Trial) -> list[str]:
        """Score the final models on all validation and test samples, and save the scores; returns messages to show."""
        place, said = self._outcomes_path(trial), []
        if place.exists():
            try:
                self._outcomes(trial)
                return []
            except Damaged as error:  # or outcomes of fewer rounds
                said.append(f"{error}; the models are tried again")
        run = load(self.path(trial), self.model(trial.seed), algorithm=trial.algorithm)
        found: dict[str, np.ndarray] = {}
        for split in SPLITS:
            predictions = run.predictions(self.federation, split, trial.finetuned)
            found |= {f"{split}/sizes": predictions.sizes, f"{split}/score": self.score.each(predictions)}
        for metric in self.metrics:  # predictions are now those of the last split, the test samples
            values, defined = metric.of_clients(predictions)
            found[f"metrics/{metric.name}"] = np.where(defined, values, np.nan)
        write_tensors(place, {name: torch.from_numpy(value) for name, value in found.items()}, self._origin(trial))
        return said

    def outcomes(self, trial: Trial, split: Split) -> Outcomes:
        """Return the score of every sample, as saved by :meth:`judge`."""
        found = self._outcomes(trial)
        return Outcomes(found[f"{split}/score"].numpy(), found[f"{split}/sizes"].numpy())

    def measured(self, trial: Trial, metric: Metric) -> np.ndarray:
        """Return a further metric for each client on test samples; NaN where it is undefined."""
        return self._outcomes(trial)[f"metrics/{metric.name}"].numpy()

    def _outcomes(self, trial: Trial) -> dict[str, Tensor]:
        return read_tensors(self._outcomes_path(trial), self._origin(trial))

    def _outcomes_path(self, trial: Trial) -> Path:
        return self.path(trial) / f"outcomes-{trial.models}.safetensors"

    def _origin(self, trial: Trial) -> dict[str, str]:
        """Return the metadata that identifies outcomes: the run's settings, its rounds, the models and the metrics."""
        settings = RunDirectory(self.path(trial)).settings
        metrics = ",".join(metric.name for metric in (self.score, *self.metrics))
        return {
            "settings": settings,
            "round": str(self.training.rounds),
            "models": trial.models,
            "metrics": metrics,
        }

    def curve(self, trial: Trial) -> list[Validated]:
        """Return the evaluations on validation samples during a trial's run."""
        sent, points = 0, []
        for at in self.rounds(trial):
            sent += at.bytes
            found = [at.evaluation] if at.evaluation else []
            if trial.finetuned:
                found = [each for each in at.also if each.model == "finetuned" and each.who == "all"]
            values = [each.values for each in found]
            points += [Validated(at.round, sent, each.get(self.score.name), each.get("loss")) for each in values]
        return points

    def rounds(self, trial: Trial) -> list[RoundFacts]:
        """Return the recorded rounds of a trial's run."""
        return [RoundFacts.of(record) for record in RunDirectory(self.path(trial)).history()]

    def rounds_done(self, trials: Iterable[Trial]) -> int:
        """Return the number of rounds in the histories of these trials' runs."""
        return sum(_lines(path / "history.jsonl") for path in {self.path(trial) for trial in trials})


def _lines(path: Path) -> int:
    try:
        return content(path).count(b"\n")
    except OSError:  # not there yet, or damaged, which train() reports
        return 0


@contextmanager
def at_work(
    study: Study, workers: int, progress: Progress, say: Callable[[str], None]
) -> Iterator[Callable[[Job, Sequence[Trial]], None]]:
    """Provide a function ``do(train_trial or judge_trial, trials)`` that distributes trials over worker processes.

    Each worker processes whole runs, which are independent, so no worker waits for another. Trials that share a run are
    processed once. ``say`` gets messages about damaged files that are redone.
    """
    method = study.training.engine.resolved_start_method()
    named = [TASKS.find(study.federation.task), *(MONITORS.find(name) for name in study.training.monitor)]
    with working(workers, method, study, _with_registered, (study, named)) as executor:
        begun: list[Trial] = []

        def do(job: Job, trials: Sequence[Trial]) -> None:
            begun.extend(trials)
            once = list({(study.path(t), job is judge_trial and t.finetuned): t for t in trials}.values())
            for trial, said in zip(once, executor.map(job, None, once), strict=True):
                for words in said:
                    say(words)
                progress(study.rounds_done(begun), str(trial))

        with _polling(lambda: progress(study.rounds_done(begun), "")):
            yield do


def train_trial(study: Study, common: None, trial: Trial) -> list[str]:
    """Train or resume one run of a study."""
    return study.train(trial)


def judge_trial(study: Study, common: None, trial: Trial) -> list[str]:
    """Score the final models of one run of a study."""
    return study.judge(trial)


def _with_registered(study: Study, named: Sequence[type[Any]]) -> Study:
    """Register the user-defined classes that a study names in a worker process; returns the study."""
    for cls in named:
        register(cls)
    return study


@contextmanager
def _polling(look: Callable[[], None]) -> Iterator[None]:
    """Call ``look`` periodically in a thread: worker processes show their progress only by the histories they write."""
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
