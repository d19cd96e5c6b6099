"""Load a run from its folder."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

from manyheads.core.checkpoint import rounds_on_disk
from manyheads.core.contract import Algorithm
from manyheads.core.errors import UserError
from manyheads.core.history import rounds_recorded
from manyheads.core.rounds import first_state
from manyheads.core.store import PersonalStore
from manyheads.run.at_sites import kept_of
from manyheads.run.config import GivenModel
from manyheads.run.config_file import read_run_config
from manyheads.run.directory import RunDirectory
from manyheads.run.result import Run

__all__ = ["load"]


def load(
    path: str | Path,
    model: GivenModel | None = None,
    say: Callable[[str], None] | None = None,
    algorithm: Algorithm | None = None,
) -> Run:
    """A run from its folder, up to its last intact checkpoint; nothing in the folder is changed.

    A model that was given as a module must be given again, and so must an algorithm whose class is not registered.
    ``say`` is called with a message about damaged files; without it, a warning is issued.
    """
    path = Path(path)
    config = read_run_config(path)
    training, algorithm = config.training(path), algorithm or config.algorithm(path)
    whole = config.model(path, model)
    directory = RunDirectory(path)
    directory.require_checkpoints()
    if not rounds_on_disk(directory.checkpoints):
        raise UserError(f"{path} has no checkpoint yet", fix="let it run on with --resume")
    clients = config.facts.clients
    kept = kept_of(config.settings["data"], training, algorithm, whole.params)
    store = PersonalStore(directory.store_path, kept, clients, read_only=True)
    say = say or partial(warnings.warn, stacklevel=3)
    server, history = directory.restore(first_state(algorithm, whole.params, clients), store, say)
    told, newest = rounds_recorded(directory.history_path), rounds_on_disk(directory.checkpoints)[0]
    if told > newest:
        say(
            f"{path} has a history of {told} rounds, and its last checkpoint is that of round {newest}, which is taken: "
            "a later one is missing, or the run goes on, or was cut short"
        )
    return Run(algorithm, whole, training, server, history, directory, store)
