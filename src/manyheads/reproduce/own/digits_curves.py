"""FedAvg, FedRep and training alone on digits with three classes a client: accuracy over rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from manyheads.core.settings import settings
from manyheads.reproduce.claims import Claim, above
from manyheads.reproduce.drawing import banded, row
from manyheads.reproduce.experiment import Experiment, Facts, Measured, Place, Scale, register
from manyheads.reproduce.training import recipe_of, trained
from manyheads.run import Evaluate
from manyheads.run.config import Config

__all__ = ["Curves", "digits"]

FEDAVG, FEDREP, ALONE = "FedAvg: one model for all", "FedRep: shared body, own head", "local only"
METHODS = {FEDAVG: "fedavg", FEDREP: "fedrep", ALONE: "local"}
LEVEL = 0.9
"""an accuracy that all lines pass"""


def digits(algorithm: Mapping[str, Any], rounds: int, seed: int, **more: Any) -> Config:
    """A run on scikit-learn's digits, 20 clients with three classes each; each seed divides them anew."""
    return Config(
        data={"name": "digits"},
        partition="classes:3",
        clients=20,
        rounds=rounds,
        seed=seed,
        algorithm=dict(algorithm),
        **more,
    )


@register
@settings
class Curves(Experiment):
    """Accuracy on the clients' own test samples over rounds."""

    name: ClassVar[str] = "digits.curves"
    title: ClassVar[str] = "A personal head on a shared body is there in fewer rounds than training alone"
    about: ClassVar[
        str
    ] = """scikit-learn's digits, 20 clients with exactly three classes each, all of them in every round, MLP 64-64-32-10,
        the same step size (0.05) for all three. Each seed has its own partition and initial model. FedRep works for it: ten
        passes over its data for the head in each round, where the others make one in all. Accuracy is the mean over clients
        of the accuracy on the client's own test samples; the band goes from the least to the greatest seed."""
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {"quick": {}}
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 0.2}

    seeds: Annotated[int, Field(ge=1)] = 3
    rounds: Annotated[int, Field(ge=1)] = 30
    lr: Annotated[float, Field(gt=0)] = 0.05
    """step size"""

    def parts(self) -> list[str]:
        return list(METHODS)

    def _config(self, part: str, seed: int) -> Config:
        algorithm = {"name": METHODS[part], "sgd": {"lr": self.lr}}
        return digits(algorithm, self.rounds, seed, evaluate=Evaluate(every=1))

    def recipe(self, part: str, seed: int) -> Facts:
        return recipe_of(self._config(part, seed))

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        run, _ = trained(self._config(part, seed), place)
        return {"accuracy": [a for _, a in run.history.column("accuracy")]}

    def claims(self, found: Measured) -> list[Claim]:
        curves = {part: [f["accuracy"] for f in found.get(part, {}).values()] for part in METHODS}
        needed = {part: [_rounds_to(LEVEL, curve) for curve in of] for part, of in curves.items()}
        last = {part: [100 * curve[-1] for curve in of] for part, of in curves.items()}
        return [
            Claim(
                f"a personal head on a shared body is at {100 * LEVEL:g} % in fewer rounds than training alone",
                (
                    above(
                        f"rounds alone {_span(needed[ALONE])}, of FedRep {_span(needed[FEDREP])}",
                        needed[ALONE],
                        needed[FEDREP],
                    ),
                ),
            ),
            Claim(
                f"one model for all stays behind: after {self.rounds} rounds it is below",
                (
                    above("FedRep above FedAvg", last[FEDREP], last[FEDAVG], unit=" points"),
                    above("training alone above FedAvg", last[ALONE], last[FEDAVG], unit=" points"),
                ),
            ),
        ]

    def figure(self, found: Measured) -> Any:
        rows = [
            row(part, seed, t, value)
            for part, runs in found.items()
            for seed, facts in runs.items()
            for t, value in enumerate(facts["accuracy"], 1)
        ]
        title = "accuracy on own test samples, mean over clients"
        return banded(rows, title, "communication round", domain=(0, 1), width=520, height=260)


def _rounds_to(level: float, curve: list[float]) -> int:
    """The first round at a level; one more than all if it is not reached."""
    return next((t for t, value in enumerate(curve, 1) if value >= level), len(curve) + 1)


def _span(values: list[int]) -> str:
    return f"{min(values)} to {max(values)}" if values else "unknown"
