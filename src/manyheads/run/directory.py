"""A run directory: everything about a run, in files that survive a crash at any instant.

config.toml       everything needed to run it again; written first
machine.json      versions, cores, git commit
data.json         how samples became inputs, at each site and for clients that come later; whose they are
trained.safetensors
                  hashes that identify the samples that it is trained on
history.jsonl     one line a round
checkpoint/       server state and tables of the last two checkpoints; the store of personal states

All of it carries hashes (:mod:`manyheads.core.sealed`), which are checked when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from manyheads.core.checkpoint import (
    checkpoint_path,
    read_checkpoint,
    read_tensors,
    rounds_on_disk,
    write_checkpoint,
    write_tensors,
)
from manyheads.core.errors import Damaged, UserError
from manyheads.core.files import fresh_folder, locked, sweep, writing
from manyheads.core.history import History
from manyheads.core.machine import machine_facts
from manyheads.core.plain import to_json
from manyheads.core.sealed import fingerprint, read_json, write_json
from manyheads.core.settings import as_dict, build
from manyheads.core.store import PersonalStore
from manyheads.core.trees import State
from manyheads.data import Encoding
from manyheads.data.sites.columns import Columns
from manyheads.run.about import About
from manyheads.run.config_file import SCHEMA, RunConfig, read_run_config

__all__ = ["RunDirectory"]

Say = Callable[[str], None]


class RunDirectory:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoint"
        self._lock: IO[str] | None = None

    @classmethod
    def create(cls, path: Path, config: RunConfig) -> RunDirectory:
        """Create and lock the folder of a new run; an error if the folder holds anything already."""
        fresh_folder(path)
        directory = cls(path)
        directory.lock()  # if two processes found the folder empty, only one gets it
        with writing(path):
            directory.checkpoints.mkdir()
        config.write(path)
        write_json(path / "machine.json", machine_facts(), indent=2)
        return directory

    def require_checkpoints(self) -> None:
        if not self.checkpoints.is_dir():
            raise Damaged(f"{self.checkpoints} is missing", fix="restore it, or start again with another --out")

    def config(self) -> RunConfig:
        """The configuration of the run; an error if its file was altered."""
        return read_run_config(self.path)

    @cached_property
    def settings(self) -> str:
        """A hash of all settings that a resume may not change; checkpoints carry it."""
        return fingerprint(to_json(self.config().fixed).encode())  # in the order of the file

    def write_data(self, encoding: Encoding, about: About, sites: Sequence[Columns] = ()) -> None:
        """Write how the federation's samples were encoded as inputs, each site's by its columns, and whose they are."""
        facts = {"schema": SCHEMA, **as_dict(encoding), "about": as_dict(about)}
        if encoding.columns and sites:
            facts["sites"] = [encoding.columns.changes(own) for own in sites]
        write_json(self.encoding_path, facts, indent=2, of=self.settings)

    def about(self) -> About:
        """Whose data it is; in a folder of an earlier version, only the warnings are known."""
        found = self._data() if self.encoding_path.is_file() else {}
        return build(
            About, found.get("about") or {"warnings": found.get("warnings", ())}, where=str(self.encoding_path)
        )

    def encoding(self) -> Encoding:
        """How the federation's samples were encoded as inputs."""
        facts = {k: v for k, v in self._data().items() if k not in ("schema", "warnings", "about", "sites")}
        return build(Encoding, facts, where=str(self.encoding_path))

    def site_columns(self) -> tuple[Columns, ...]:
        """How the columns of each site became inputs; empty if that is not known, or not of tables."""
        shared, sites = self.encoding().columns, self._data().get("sites", ())
        table = as_dict(shared) if shared else {}
        return tuple(build(Columns, table | own, where=f"{self.encoding_path}: sites") for own in sites)

    def site_encoding(self, client: int) -> Encoding:
        """How the samples of one site were encoded as inputs."""
        encoding, columns = self.encoding(), self.site_columns()
        if encoding.columns is None or encoding.columns.scaling == "federated":
            return encoding
        if client >= len(columns):
            raise UserError(
                f"{self.path} does not tell how the columns of each site were scaled",
                fix="write it anew: manyheads run --resume --out RUN",
            )
        return replace(encoding, columns=columns[client])

    def _data(self) -> dict[str, Any]:
        if not self.encoding_path.exists():
            raise UserError(
                f"{self.path} does not tell how its data became inputs: it has no {self.encoding_path.name}",
                fix="write it anew: manyheads run --resume --out RUN",
            )
        return read_json(self.encoding_path, "write it anew: manyheads run --resume --out RUN", of=self.settings)

    def write_trained(self, marks: np.ndarray | None) -> None:
        """Write the hashes that identify the training samples, if they are known."""
        if marks is not None:
            found = {"marks": torch.tensor(marks.view(np.int64))}
            write_tensors(self.trained_path, found, {"settings": self.settings})

    def trained(self) -> np.ndarray | None:
        """The hashes that identify the training samples; None if the file is missing or damaged."""
        try:
            return read_tensors(self.trained_path, {"settings": self.settings})["marks"].numpy().view(np.uint64)
        except (Damaged, KeyError):
            return None

    def lock(self) -> None:
        """Keep a second process out; released when this one ends, however it ends."""
        if self._lock is None:
            self._lock = locked(self.path)

    def sweep(self) -> None:
        """Remove files that a killed process left half written; the folder must be locked."""
        for folder in (self.path, self.checkpoints):
            sweep(folder)

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def history_path(self) -> Path:
        return self.path / "history.jsonl"

    @property
    def encoding_path(self) -> Path:
        return self.path / "data.json"

    @property
    def trained_path(self) -> Path:
        return self.path / "trained.safetensors"

    @property
    def store_path(self) -> Path:
        return self.checkpoints / "personal.safetensors"

    def history(self, upto: int | None = None) -> History:
        """The run's history, up to a round."""
        return History.read(self.history_path, upto, of=self.settings)

    def commit(self, round: int, server: State, store: PersonalStore, history: History) -> None:
        """Write a checkpoint after ``round``, from which the run can be resumed."""
        history.sync()
        store.sync()
        write_checkpoint(self.checkpoints, round, tensors_of(server, store), self.settings)
        store.committed()

    def restore(self, server: State, store: PersonalStore, say: Say) -> tuple[State, History]:
        """The server state and the history up to the last intact checkpoint, to which the store is restored too.

        Nothing on disk is changed. Without any checkpoint, these are the initial state and an empty history.
        """
        rounds, damage = rounds_on_disk(self.checkpoints), []
        for position, round in enumerate(rounds):
            older = rounds[position + 1 :]
            try:
                tensors = read_checkpoint(self.checkpoints, round, self.settings)
                before = self._before(older)
                leaves = {k.removeprefix("server/"): v for k, v in tensors.items() if k.startswith("server/")}
                restored = server.unflat(leaves)
                history = self.history(upto=round)
                store.restore(tensors, before)
            except (Damaged, KeyError) as error:
                if not older:
                    raise Damaged(
                        f"no checkpoint in {self.checkpoints} can be used: {error}",
                        fix="start again with another --out",
                    ) from None
                damage.append(f"{error}; falling back to round {older[0]}, the checkpoint before it")
            else:
                for words in damage:
                    say(words)
                return restored, history
        return server, History(self.history_path, of=self.settings)

    def set_aside(self, after: int) -> None:
        """Rename the damaged checkpoints, which are those ``after`` the round from which the run is resumed."""
        for damaged in rounds_on_disk(self.checkpoints):
            if damaged > after:
                with writing(self.checkpoints):
                    checkpoint_path(self.checkpoints, damaged).replace(
                        self.checkpoints / f"damaged-{damaged:08d}.safetensors"
                    )

    def _before(self, older: list[int]) -> dict[str, Tensor] | None:
        try:
            return read_checkpoint(self.checkpoints, older[0], self.settings) if older else None
        except Damaged:
            return None


def tensors_of(server: State, store: PersonalStore) -> dict[str, Tensor]:
    """The tensors of a checkpoint."""
    return {f"server/{k}": v for k, v in server.flat.items()} | store.tables()
