"""A trial: one run of a comparison; its folder's name has a hash of all settings that affect its numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from manyheads.core.contract import Algorithm
from manyheads.core.plain import to_json
from manyheads.core.sealed import fingerprint
from manyheads.experiments.methods import TUNED
from manyheads.run import Training
from manyheads.run.config_file import RunConfig

__all__ = ["Trial"]

DIGITS = 8


@dataclass(frozen=True)
class Trial:
    """One run, and which of its models are scored; ``NAME`` and ``NAME+ft`` are trials of the same run."""

    method: str
    """the method's label"""
    algorithm: Algorithm
    """the algorithm with this trial's step size"""
    training: Training
    """the training settings with this trial's seed"""
    rate: float | None
    finetuned: bool
    """whether the models are scored after fine-tuning"""
    config: RunConfig = field(repr=False, compare=False)
    """the run's configuration as saved in its folder"""

    @property
    def seed(self) -> int:
        return self.training.seed

    @cached_property
    def folder(self) -> str:
        """Name of the run's folder: readable, with a hash of all settings that a resume must not change."""
        settings = to_json(self.config.fixed, sort_keys=True)
        return f"{self.old_folder}-{fingerprint(settings.encode())[:DIGITS]}"

    @property
    def old_folder(self) -> str:
        """Name of the folder in earlier versions, without the hash."""
        name = self.algorithm.name + (TUNED if self.training.finetune.scope != "none" else "")
        rate = "" if self.rate is None else f"-lr{self.rate:g}"
        return re.sub(r"[^\w.+-]", "_", f"{name}{rate}-s{self.seed}")

    @property
    def models(self) -> str:
        """Which of the run's models are scored."""
        return "finetuned" if self.finetuned else "plain"

    def __str__(self) -> str:
        rate = "" if self.rate is None else f", step size {self.rate:g}"
        return f"{self.method}{rate}, seed {self.seed}"
