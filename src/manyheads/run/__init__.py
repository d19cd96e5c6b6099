"""The round loop, run directories and configuration."""

import manyheads.algorithms  # noqa: F401  (a run names its method, and they register themselves)
from manyheads.run.config import Config, assemble
from manyheads.run.load import load
from manyheads.run.model_folder import PersonalModel, save_personal
from manyheads.run.personalize import Personal, personalize
from manyheads.run.protocol import Evaluate
from manyheads.run.result import Run
from manyheads.run.simulate import run_training, simulate
from manyheads.run.training import Training

__all__ = [
    "Config",
    "Evaluate",
    "Personal",
    "PersonalModel",
    "Run",
    "Training",
    "assemble",
    "load",
    "personalize",
    "run_training",
    "save_personal",
    "simulate",
]
