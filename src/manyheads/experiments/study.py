"""The runs of a comparison: kept in a folder, so that they can be resumed."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from manyheads.core.checkpoint import read_tensors, write_tensors
from manyheads.core.contract import Algorithm
from manyheads.core.errors import Damaged, Diverged, UserError
from manyheads.core.files import content
from manyheads.core.optim import FineTune
from manyheads.core.sealed import read_json, write_json
from manyheads.data import Federation
from manyheads.engines.workbench import tried_on
from manyheads.experiments.candidates import Candidate
from manyheads.experiments.curves import Curve, between, curve_of
from manyheads.experiments.folds import Fold
from manyheads.experiments.methods import Method
from manyheads.experiments.trials import Stage, Trial
from manyheads.metrics import Metric
from manyheads.models import Model, TriedModel
from manyheads.run import Evaluate, Run, Training, load, run_training
from manyheads.run.config_file import RUN, RunConfig, read_run_config
from manyheads.run.directory import RunDirectory
from manyheads.run.kinds import register
from manyheads.run.rounds import RoundFacts

__all__ = ["Study"]

DIVERGED = "diverged.json"
OF_A_TRIAL = ("algorithm", "seed", "finetune", "evaluate", "monitor")
"""settings in which the runs of a comparison differ"""


@dataclass(frozen=True)
class Study:
    """What all trials share: the folds, the model, training, and the folder of the runs. Each worker holds a copy."""

    folds: tuple[Fold, ...]
    pooled: tuple[Fold, ...]
    """the folds with the data of all sites together"""
    training: Training
    config: dict[str, Any]
    out: Path
    score: Metric
    """the metric that methods are compared by"""
    seed: int
    tuned: Sequence[Algorithm] = ()
    """algorithms whose models are fine-tuned whenever they are evaluated"""
    classes: Sequence[type[Any]] = ()
    """classes of the user, which worker processes must register"""
    _tried: dict[Any, TriedModel] = field(default_factory=dict, init=False, repr=False, compare=False)

    def trial(
        self,
        method: Method,
        candidate: Candidate,
        seed: int,
        fold: int,
        stage: Stage,
        rounds: int,
        pooled: bool = False,
    ) -> Trial:
        """Return the trial of a method with the settings of a candidate and a seed in a fold."""
        division = (self.pooled if pooled else self.folds)[fold]
        federation = division.tuning if stage == "tuning" else division.final
        algorithm, tune, rate = method.at(candidate, len(federation)), FineTune(), candidate.rate
        if method.algorithm in self.tuned and (stage == "tuning" or method.finetuned):
            tune = self.training.finetune if rate is None else replace(self.training.finetune, lr=rate)
        evaluate = Evaluate(split="test", every=rounds)
        if stage == "tuning":
            every = between(rounds)
            evaluate = Evaluate(split="validation", every=every, also="always", metrics=(self.score.name,))
        watched = stage == "final" and fold == 0 and seed == self.seed and not pooled  # one run of a method is enough
        monitor = self.training.monitor if watched else ()
        training = replace(self.training, seed=seed, finetune=tune, rounds=rounds, evaluate=evaluate, monitor=monitor)
        config = RunConfig.of(algorithm, federation, training, self.config)
        return Trial(method.label, algorithm, training, candidate, method.finetuned, fold, stage, pooled, config)

    def federation(self, trial: Trial) -> Federation:
        fold = (self.pooled if trial.pooled else self.folds)[trial.fold]
        return fold.tuning if trial.stage == "tuning" else fold.final

    def model(self, trial: Trial) -> Model:
        fold = self.folds[trial.fold]
        return (fold.tuning_model if trial.stage == "tuning" else fold.final_model)(trial.seed)

    def tried(self, trial: Trial) -> TriedModel:
        """The model after its trial, of which one in a process is enough for all runs that begin alike."""
        key = trial.pooled, trial.fold, trial.stage, trial.seed
        if key not in self._tried:
            self._tried[key] = tried_on(self.model(trial), self.federation(trial))
        return self._tried[key]

    def path(self, trial: Trial) -> Path:
        return self.out / "runs" / trial.folder

    def register_classes(self) -> None:
        """Make the user's classes known in a worker process."""
        for cls in self.classes:
            register(cls)

    def train(self, trial: Trial, until: int) -> list[str]:
        """Train or resume one run up to a round, unless it is known to diverge; returns messages about damaged runs."""
        path, said = self.path(trial), list[str]()

        def go_on() -> None:
            if self.diverged(trial):
                return read_run_config(path).require_same(trial.config)
            things = trial.algorithm, self.model(trial), self.federation(trial), trial.training, self.config, path
            run_training(
                *things, resume=True, say=said.append, enough=lambda history: len(history) >= until, tried=self.tried(trial)
            )  # fmt: skip
            return None

        try:
            try:
                go_on()
            except Damaged as error:
                said.append(f"{error}; that run is done again")
                shutil.rmtree(path)
                go_on()
        except Diverged as error:
            self.note_divergence(trial, error)
        return said

    def note_divergence(self, trial: Trial, error: Diverged) -> None:
        """Remember that a run diverges, and in which round, so that it is not tried again."""
        facts = {"schema": 1, "error": str(error), "round": self.rounds_done([trial]) + 1}
        write_json(self.path(trial) / DIVERGED, facts)

    def refuse_other(self, now: RunConfig) -> None:
        """Refuse a folder with runs of another comparison than a run with the configuration ``now``, before any change."""
        known = {f.fingerprint for fold in (*self.folds, *self.pooled) for f in (fold.tuning, fold.final)}
        for path in sorted(file.parent for file in self.out.glob(f"runs/*/{RUN}")):
            with suppress(Damaged):  # train() reports it and trains the run again
                found = read_run_config(path)
                if found.facts.fingerprint not in known:
                    raise UserError(
                        "the runs there are of other data, or of another division of it",
                        where="resume",
                        given=str(path),
                        fix="choose another --out",
                    )
                own = {key: found.settings.get(key) for key in OF_A_TRIAL}
                replace(found, facts=now.facts).require_same(replace(now, settings=now.settings | own))

    def diverged(self, trial: Trial, until: int | None = None) -> bool:
        """Whether a run is known to diverge, up to a round."""
        file = self.path(trial) / DIVERGED
        return file.exists() and (read_json(file).get("round", 0) <= until if until is not None else True)

    def judge(self, trial: Trial, everywhere: bool = False) -> list[str]:
        """Predict all test samples with the final models, and save the outputs; returns messages to show.

        A client's samples are predicted with its own model, or ``everywhere`` those of all clients with every model.
        """
        place, said = self._outputs_path(trial, everywhere), []
        if place.exists():
            try:
                self.outputs(trial, everywhere)
                return []
            except Damaged as error:
                said.append(f"{error}; the models are tried again")
        run, federation = self.run(trial), self.federation(trial)
        outputs = (
            run.everywhere(federation) if everywhere else run.predictions(federation, "test", trial.finetuned).outputs
        )
        write_tensors(place, {"outputs": torch.from_numpy(outputs)}, self._origin(trial))
        return said

    def outputs(self, trial: Trial, everywhere: bool = False) -> np.ndarray:
        """Return the outputs for every test sample, as saved by :meth:`judge`."""
        return read_tensors(self._outputs_path(trial, everywhere), self._origin(trial))["outputs"].numpy()

    def run(self, trial: Trial) -> Run:
        """Return the finished run of a trial."""
        return replace(load(self.path(trial), self.model(trial), algorithm=trial.algorithm), _tried=self.tried(trial))

    def _outputs_path(self, trial: Trial, everywhere: bool) -> Path:
        return self.path(trial) / f"outputs-{'everywhere' if everywhere else trial.models}.safetensors"

    def _origin(self, trial: Trial) -> dict[str, str]:
        """Return the metadata that identifies outputs: the run's settings, its rounds and the models."""
        settings = RunDirectory(self.path(trial)).settings
        return {"settings": settings, "round": str(trial.training.rounds), "models": trial.models}

    def curve(self, trial: Trial, until: int) -> Curve:
        """Return the evaluations on validation samples during a trial's run, up to a round; none if it diverged by then."""
        if self.diverged(trial, until):
            return []
        return curve_of(self.rounds(trial)[:until], self.score.name, trial.finetuned)

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
