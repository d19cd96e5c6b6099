"""The round loop, run directories and configuration."""

import manyheads.algorithms  # noqa: F401  (a run names its method, and they register themselves)
from manyheads.run.config import Config, assemble
from manyheads.run.load import load
from manyheads.run.protocol import Evaluate
from manyheads.run.result import Run
from manyheads.run.simulate import run_training, simulate
from manyheads.run.training import Training

__all__ = [
    "Config",
    "Evaluate",
    "Run",
    "Training",
    "assemble",
    "load",
    "run_training",
    "simulate",
]
