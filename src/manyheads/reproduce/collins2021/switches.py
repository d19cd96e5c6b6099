"""What the authors' code did differently from the paper's text, one switch each, mostly on Table 1's first column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, NamedTuple

import altair as alt
import numpy as np
from pydantic import Field

from manyheads.core.settings import settings
from manyheads.reproduce.claims import Claim
from manyheads.reproduce.collins2021.columns import COLUMNS, FIRST, ROWS, SECOND
from manyheads.reproduce.collins2021.table1 import QUICK, cell_config
from manyheads.reproduce.experiment import Cell, Experiment, Facts, Measured, Place, Scale, register
from manyheads.reproduce.training import recipe_of, trained
from manyheads.run.config import Config

__all__ = ["SWITCHES", "Switch", "Switches"]


SAMPLES = 500
"""training images of a client in the first column"""


class Switch(NamedTuple):
    """A change of one thing, and the method and column of Table 1 that it is tried on."""

    method: str
    change: Callable[[Config], Config]
    column: str = FIRST

    @property
    def without(self) -> str:
        """The part that is the run without the change."""
        return f"as in Table 1: {self.method}" + ("" if self.column == FIRST else f", {self.column}")


def _algorithm(**values: Any) -> Callable[[Config], Config]:
    return lambda config: replace(config, algorithm=config.algorithm | values)


def _without_decay(config: Config) -> Config:
    return _algorithm(sgd=config.algorithm["sgd"] | {"weight_decay": 0.0})(config)


def _augmented(config: Config) -> Config:
    return replace(config, augment=True)


def _pulled(config: Config) -> Config:
    return replace(config, finetune=replace(config.finetune, mu=config.algorithm["mu"]))


def _as_many_local_steps(config: Config) -> Config:
    """L2GD for so long that a client makes the local steps of FedAvg: an epoch in every round in which it takes part."""
    wanted = config.participation * COLUMNS[FIRST].rounds * (SAMPLES / config.algorithm["batch"])
    made = COLUMNS[FIRST].rounds / config.algorithm["p"]  # L2GD's rounds are as many as 100 communications need
    return replace(config, rounds=round(config.rounds * wanted / made))


def _by_epochs(config: Config) -> Config:
    """L2GD with an epoch for every local step, and as many iterations as FedAvg has rounds."""
    p = config.algorithm["p"]
    return replace(_algorithm(epochs=COLUMNS[FIRST].epochs)(config), rounds=round(config.rounds * p * (1 - p)))


SWITCHES: dict[str, Switch] = {
    "evaluated: each client's last local model": Switch(
        "FedRep", lambda config: replace(config, evaluate=replace(config.evaluate, model="local"))
    ),
    "fine-tuning of the whole network": Switch(
        "FedAvg", lambda config: replace(config, finetune=replace(config.finetune, scope="all"))
    ),
    "fine-tuning with the pull of training": Switch("FedProx", _pulled),
    "exactly two classes a client": Switch("FedRep", lambda config: replace(config, partition="classes:2")),
    "exactly two classes a client, FedAvg": Switch("FedAvg", lambda config: replace(config, partition="classes:2")),
    "five local epochs of the baselines": Switch("FedAvg", _algorithm(epochs=5)),
    "one local epoch, five classes a client": Switch("FedAvg", _algorithm(epochs=1), SECOND),
    "one local epoch, five classes a client, FedPer": Switch("FedPer", _algorithm(epochs=1), SECOND),
    "one local step a round": Switch("FedAvg", _algorithm(steps=1)),
    "images cropped and mirrored": Switch("FedAvg", _augmented),
    "images cropped and mirrored, alone": Switch("Local Only", _augmented),
    "no weight decay": Switch("FedRep", _without_decay),
    "SCAFFOLD's server step 1": Switch("SCAFFOLD", _algorithm(server_lr=1.0)),
    "SCAFFOLD's local momentum 0.5": Switch("SCAFFOLD", _algorithm(momentum=0.5)),
    "both for SCAFFOLD": Switch("SCAFFOLD", _algorithm(server_lr=1.0, momentum=0.5)),
    "L2GD with as many local steps as FedAvg": Switch("L2GD", _as_many_local_steps),
    "L2GD with an epoch for a step, 100 iterations": Switch("L2GD", _by_epochs),
    "L2GD with epochs and momentum 0.5, 100 iterations": Switch(
        "L2GD", lambda config: _algorithm(momentum=0.5)(_by_epochs(config))
    ),
    "Per-FedAvg with the Hessian": Switch("PerFedAvg", _algorithm(variant="exact")),
}
"""by what is changed"""
COSTLY = {
    "fine-tuning of the whole network", "images cropped and mirrored", "images cropped and mirrored, alone",
    "L2GD with an epoch for a step, 100 iterations", "L2GD with epochs and momentum 0.5, 100 iterations",
    "one local epoch, five classes a client", "one local epoch, five classes a client, FedPer",
}  # fmt: skip
"""switches that a few rounds do not show, or too slowly: testing alone takes longer, the run without the change has five
epochs a round, or (L2GD) none of them may be a step"""
WITHOUT = {switch.without: switch for switch in SWITCHES.values()}


@register
@settings
class Switches(Experiment):
    """Accuracy with and without each switch."""

    name: ClassVar[str] = "collins2021.switches"
    title: ClassVar[str] = "Table 1: what each difference between the text and the authors' code is worth"
    about: ClassVar[
        str
    ] = """Each row changes one thing in the run of a method in Table 1's first column (CIFAR-10, 100 clients of two
        shards); beside it the run without the change, and "+FT" is the same run after fine-tuning. Where it says five classes a
        client, the column is CIFAR-10 (100, 5), where the baselines make five local epochs by the text and one in the authors'
        scripts. The noise of the linear experiments, a variance by the text and a standard deviation in the authors' notebook, is
        a switch of collins2021.figure1, and one-step "FedAvg" is drawn there too."""
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {"quick": {"share": QUICK, "costly": False}, "paper": {}}
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 5, "paper": 300}
    unit: ClassVar[str] = "%"
    judged: ClassVar[bool] = False

    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """fraction of the paper's rounds"""
    costly: bool = True
    """also those that a few rounds do not show"""

    def parts(self) -> list[str]:
        switches = [name for name in SWITCHES if self.costly or name not in COSTLY]
        return [*dict.fromkeys(SWITCHES[name].without for name in switches), *switches]

    def needs(self) -> Iterable[Mapping[str, Any]]:
        return [COLUMNS[FIRST].data]  # the second column's, too

    def _config(self, part: str, seed: int) -> Config:
        switch = SWITCHES.get(part) or WITHOUT[part]
        config = cell_config(COLUMNS[switch.column], ROWS[switch.method].algorithm, seed, self.share)
        return switch.change(config) if part in SWITCHES else config

    def recipe(self, part: str, seed: int) -> Facts:
        return recipe_of(self._config(part, seed))

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        run, _ = trained(self._config(part, seed), place)
        return {"accuracy": run.accuracy, "finetuned": run.final[0]["accuracy"]}

    def _pairs(self, found: Measured) -> list[tuple[str, str, list[float], list[float]]]:
        """Of each switch that was run, for the one or two rows of its method: the row, the switch, with it, without."""
        pairs = []
        for name, switch in SWITCHES.items():
            on, off = (found.get(part, {}).values() for part in (name, switch.without))
            for row in (switch.method, f"{switch.method}+FT"):
                if on and off and row in ROWS:
                    kind = "finetuned" if ROWS[row].tuned else "accuracy"
                    pairs.append((row, name, [100 * f[kind] for f in on], [100 * f[kind] for f in off]))
        return pairs

    def table(self, found: Measured) -> list[Cell]:
        return [
            Cell(f"{row}: {name}", column, values, COLUMNS[SWITCHES[name].column].paper(row))
            for row, name, on, off in self._pairs(found)
            for column, values in (("with it", on), ("without", off))
        ]

    def claims(self, found: Measured) -> list[Claim]:
        return []

    def figure(self, found: Measured) -> Any:
        rows = [
            {"switch": f"{row}: {name}", "points": float(np.mean(on) - np.mean(off))}
            for row, name, on, off in self._pairs(found)
        ]
        return (
            alt.Chart(alt.Data(values=rows))  # type: ignore[no-untyped-call]
            .mark_bar()
            .encode(
                x=alt.X("points:Q", title="points of accuracy gained by the switch"),
                y=alt.Y("switch:N", title=None, sort=None, axis=alt.Axis(labelLimit=380)),
                color=alt.condition(alt.datum.points > 0, alt.value("#4c78a8"), alt.value("#e45756")),
            )
            .properties(width=320, height=22 * max(len(rows), 1))
        )
