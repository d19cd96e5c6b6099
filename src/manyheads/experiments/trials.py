"""A trial: one run of a comparison, named by all settings that its numbers depend on."""

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
    """One run, which a method shares with its fine-tuned sister, and which of its models are judged."""

    method: str
    """its label"""
    algorithm: Algorithm
    """with the step size"""
    training: Training
    """with the seed"""
    rate: float | None
    finetuned: bool
    """whether the models are judged after fine-tuning"""
    config: RunConfig = field(repr=False, compare=False)
    """all of it, as its folder keeps it"""

    @property
    def seed(self) -> int:
        return self.training.seed

    @cached_property
    def folder(self) -> str:
        """The name of its folder: readable, and with a hash of all that a resume may not change."""
        settings = to_json(self.config.fixed, sort_keys=True)
        return f"{self.old_folder}-{fingerprint(settings.encode())[:DIGITS]}"

    @property
    def old_folder(self) -> str:
        """The name that its folder had before hashes were part of it."""
        name = self.algorithm.name + (TUNED if self.training.finetune.scope != "none" else "")
        rate = "" if self.rate is None else f"-lr{self.rate:g}"
        return re.sub(r"[^\w.+-]", "_", f"{name}{rate}-s{self.seed}")

    @property
    def models(self) -> str:
        """Which of the run's models are judged."""
        return "finetuned" if self.finetuned else "plain"

    def __str__(self) -> str:
        rate = "" if self.rate is None else f", step size {self.rate:g}"
        return f"{self.method}{rate}, seed {self.seed}"
