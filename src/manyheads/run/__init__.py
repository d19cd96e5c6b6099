"""The round loop, run directories and configuration."""

from manyheads.run.config import Config, assemble
from manyheads.run.protocol import Evaluate
from manyheads.run.result import Run
from manyheads.run.simulate import load, run_training, simulate
from manyheads.run.training import Training

__all__ = ["Config", "Evaluate", "Run", "Training", "assemble", "load", "run_training", "simulate"]
