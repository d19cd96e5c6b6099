"""Training runs of experiments, in folders named by their settings, resumed where they stopped."""

from __future__ import annotations

import re
from dataclasses import replace

from manyheads.core.round_end import RoundEnd
from manyheads.core.sealed import fingerprint_of
from manyheads.core.settings import as_dict, other_than
from manyheads.data import Federation
from manyheads.reproduce.experiment import Facts, Place
from manyheads.run import Evaluate, Run
from manyheads.run.config import Config, assemble
from manyheads.run.simulate import run_training

__all__ = ["recipe_of", "trained"]

DIGITS = 8
USUAL = Config(evaluate=Evaluate(every=1))
"""the settings that a recipe leaves out: the defaults as they were when the first results were recorded"""


def recipe_of(config: Config) -> Facts:
    """What a configuration says that affects its numbers: settings other than the usual ones.

    So a setting that a later version adds does not make a recipe another one.
    """
    table = other_than(as_dict(USUAL), as_dict(config))
    return {k: v for k, v in table.items() if k not in ("engine", "checkpoint_seconds")}


def trained(config: Config, place: Place) -> tuple[Run, Federation]:
    """The run of a configuration, trained now or before, and its federation."""
    config = replace(config, engine=place.engine, checkpoint_seconds=30.0)
    algorithm, model, federation, made = assemble(config)
    name = f"{algorithm.name}-{federation.name}-s{config.seed}"
    key = fingerprint_of(recipe_of(config))[:DIGITS]
    folder = place.folder / f"{re.sub(r'[^a-zA-Z0-9.-]', '_', name)}-{key}"

    def on_round(end: RoundEnd) -> None:
        place.say(f"round {end.record['round']}/{config.rounds}")

    run = run_training(algorithm, model, federation, config.training(), made, folder, resume=True, on_round=on_round)
    return run, federation
