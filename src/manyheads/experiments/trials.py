"""A trial: one run of a comparison; its folder's name has a hash of all settings that affect its numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from manyheads.core.contract import Algorithm
from manyheads.core.sealed import fingerprint_of
from manyheads.experiments.candidates import Candidate
from manyheads.experiments.methods import TUNED
from manyheads.run import Training
from manyheads.run.config_file import RunConfig

__all__ = ["Stage", "Trial"]

Stage = Literal["tuning", "final"]
DIGITS = 8


@dataclass(frozen=True)
class Trial:
    """One run, and which of its models are scored; ``NAME`` and ``NAME+ft`` may be trials of the same run."""

    method: str
    """the method's label"""
    algorithm: Algorithm
    """the algorithm with the step size and the settings of this trial's candidate"""
    training: Training
    """the training settings with this trial's seed and number of rounds (at most, when tuning)"""
    candidate: Candidate
    finetuned: bool
    """whether the models are scored after fine-tuning"""
    fold: int
    stage: Stage
    """training to choose step size and number of rounds, or final training with these"""
    pooled: bool
    """whether the run has the data of all sites together"""
    config: RunConfig = field(repr=False, compare=False)
    """the run's configuration as saved in its folder"""

    @property
    def rate(self) -> float | None:
        return self.candidate.rate

    @property
    def seed(self) -> int:
        return self.training.seed

    @cached_property
    def folder(self) -> str:
        """Name of the run's folder: readable, with a hash of all settings that a resume must not change."""
        name = self.algorithm.name + (TUNED if self.training.finetune.scope != "none" else "")
        name = f"fold{self.fold}-{'pooled-' if self.pooled else ''}{name}"
        rate = "" if self.rate is None else f"-lr{self.rate:g}"
        rounds = f"-r{self.training.rounds}" if self.stage == "final" else "-tuning"
        readable = re.sub(r"[^\w.+-]", "_", f"{name}{rate}{rounds}-s{self.seed}")
        return f"{readable}-{fingerprint_of(self.config.fixed)[:DIGITS]}"

    @property
    def models(self) -> str:
        """Which of the run's models are scored."""
        return "finetuned" if self.finetuned else "plain"

    def __str__(self) -> str:
        told = ", ".join(filter(None, (self.method, str(self.candidate))))
        return f"{told}, fold {self.fold + 1}, seed {self.seed}"
