"""The figures and tables of the papers, reproduced: one file each, with the paper's claims judged on what was measured."""

from importlib import import_module

from manyheads.reproduce.conduct import reproduce
from manyheads.reproduce.experiment import EXPERIMENTS, Experiment, Scale
from manyheads.reproduce.records import Result

__all__ = ["EXPERIMENTS", "Experiment", "Result", "Scale", "reproduce"]

for _name in (
    "collins2021.figure1",
    "collins2021.figure3",
    "collins2021.figure4",
    "collins2021.figure5",
    "collins2021.figure6",
    "collins2021.table1",
    "collins2021.switches",
    "collins2022.figure1",
    "collins2022.figure2",
    "collins2022.figure3",
    "collins2022.figure4",
    "collins2022.figure5",
    "collins2022.rates",
    "deng2022.figure1",
    "deng2022.figure2",
    "deng2022.figure3",
    "fallah2020.figure1",
    "own.digits_curves",
    "own.digits_methods",
    "own.real_short",
    "own.sweeps",
    "own.theorems",
):
    import_module(f"manyheads.reproduce.{_name}")
