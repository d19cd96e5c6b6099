"""What Figures 1 to 3 have in common: Local SGD on MNIST, training loss over iterations, equal and unequal clients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import altair as alt
import numpy as np
from pydantic import Field

from manyheads.core.settings import settings
from manyheads.reproduce.claims import Check, above
from manyheads.reproduce.drawing import banded, row
from manyheads.reproduce.experiment import Experiment, Facts, Measured, Place
from manyheads.reproduce.training import recipe_of, trained
from manyheads.run import Evaluate
from manyheads.run.config import Config

__all__ = ["ABOUT", "PANELS", "Curves", "Line", "final", "more_when_heterogeneous", "order"]

HOMOGENEOUS, HETEROGENEOUS = "homogeneous", "heterogeneous"
PANELS = {HOMOGENEOUS: "iid", HETEROGENEOUS: "classes:2"}
"""the paper's two ways to divide the data, as partitions"""
POINTS = 20
"""of a curve, at most"""
ABOUT = """MNIST on 50 clients, all in every round, iid or two classes a client. The paper's network: no biases, W_l ~
    N(0, 2/m), top layer V ~ N(0, 1/d) with d inputs (its definition of d; the outputs in its place were tried with seed 0, too), not trained; cross entropy in place of its squared loss. Local SGD as in its
    Algorithm 1, one sample a step, without the factor n, which the step size takes in. Drawn is the loss of the averaged
    model on all clients' training samples, mean over clients; the test accuracy is that of the last iterate. The paper gives no
    number of iterations and no step size. One step size serves all lines: of 0.03, 0.1, 0.3, 1 and 3, the one with the lowest
    mean training loss after 500 iterations with tau 10, over both panels, with a seed that is not among the drawn ones: """


@dataclass(frozen=True)
class Line:
    """A network, and the number of local steps between synchronizations."""

    width: int
    depth: int
    tau: int


@settings
class Curves(Experiment):
    """A figure whose lines are networks trained by Local SGD, in two panels."""

    seeds: int = 3
    data: str = "mnist"
    clients: int = 50
    iterations: Annotated[int, Field(ge=1)] = 1000
    """local steps of every client, T"""
    lr: Annotated[float, Field(gt=0)] = 1.0
    """step size, eta"""

    @abstractmethod
    def lines(self) -> Mapping[str, Line]:
        """The lines of both panels by name."""

    def parts(self) -> list[str]:
        return [f"{panel}: {line}" for panel in PANELS for line in self.lines()]

    def needs(self) -> Iterable[Mapping[str, Any]]:
        return [{"name": self.data}]

    def config(self, part: str, seed: int) -> Config:
        """The run of a line in a panel."""
        panel, _, name = part.partition(": ")
        line = self.lines()[name]
        return Config(
            data={"name": self.data},
            partition=PANELS[panel],
            clients=self.clients,
            rounds=self.iterations // line.tau,
            seed=seed,
            model={"name": "relu-net", "width": line.width, "depth": line.depth, "top": "inputs"},
            algorithm={
                "name": "local-sgd", "gradient": "single", "scale_by_n": False, "lr": self.lr, "steps": line.tau,
            },
            evaluate=Evaluate(split="train", every=max(1, self.iterations // POINTS // line.tau)),
        )  # fmt: skip

    def recipe(self, part: str, seed: int) -> Facts:
        return recipe_of(self.config(part, seed))

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        config = self.config(part, seed)
        run, federation = trained(config, place)
        tested = run.predictions(federation)
        right = np.split(tested.predicted == tested.labels, np.cumsum(tested.sizes)[:-1])
        return {
            "iterations": [t * config.algorithm["steps"] for t, _ in run.history.column("loss")],
            "loss": [value for _, value in run.history.column("loss")],
            "accuracy": [value for _, value in run.history.column("accuracy")],
            "test_accuracy": float(np.mean([own.mean() for own in right])),
        }

    def figure(self, found: Measured) -> Any:
        panels = []
        for panel in PANELS:
            rows = [
                row(line, seed, t, value)
                for line in self.lines()
                for seed, facts in found.get(f"{panel}: {line}", {}).items()
                for t, value in zip(facts["iterations"], facts["loss"], strict=True)
            ]
            panels.append(banded(rows, "training loss", "local iterations", title=panel, width=360, height=250))
        return alt.hconcat(*panels).resolve_scale(y="shared")


def final(found: Measured, panel: str, lines: Sequence[str], fact: str = "loss") -> list[list[float]] | None:
    """The last value of a fact for each of the lines, over the seeds that all of them have; None if there are none."""
    runs = [found.get(f"{panel}: {line}", {}) for line in lines]
    seeds = sorted(set.intersection(*(set(run) for run in runs)))
    values = [[run[seed][fact] for seed in seeds] for run in runs]
    return [[float(np.ravel(value)[-1]) for value in line] for line in values] if seeds else None


def order(found: Measured, panel: str, high: str, low: str, fact: str = "loss") -> list[Check]:
    """Whether the fact ends higher on one line than on another."""
    both = final(found, panel, [high, low], fact)
    if not both:
        return []
    words = f"{fact.replace('_', ' ')} {np.mean(both[0]):.3f} against {np.mean(both[1]):.3f}"
    return [above(f"{panel}, {high} against {low}: {words}", both[0], both[1])]


def more_when_heterogeneous(found: Measured, high: str, low: str, fact: str = "loss") -> list[Check]:
    """Whether the difference of two lines at the end is larger with heterogeneous clients than with homogeneous ones."""
    lines = [final(found, panel, [high, low], fact) for panel in (HETEROGENEOUS, HOMOGENEOUS)]
    gaps = [np.subtract(both[0], both[1]) for both in lines if both]
    if len(gaps) < 2 or len(gaps[0]) != len(gaps[1]):
        return []
    words = f"{fact.replace('_', ' ')} differs by {gaps[0].mean():.3f} against {gaps[1].mean():.3f}"
    return [above(f"{high} against {low}: {words}", gaps[0], gaps[1])]
