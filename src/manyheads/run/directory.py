"""A run directory: everything about a run, in files that survive a crash at any instant.

config.toml       everything needed to run it again; written first
machine.json      versions, cores, git commit
data.json         how samples became inputs, for clients that come later
history.jsonl     one line a round
checkpoint/       server state and tables of the last two checkpoints; the store of personal states
"""

from __future__ import annotations

import fcntl
import json
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import tomli_w
from torch import Tensor

from manyheads.core.checkpoint import read_checkpoint, rounds_on_disk, write_checkpoint
from manyheads.core.errors import UserError
from manyheads.core.files import fresh_folder, write_text, writing
from manyheads.core.history import History
from manyheads.core.machine import machine_facts
from manyheads.core.plain import to_json
from manyheads.core.settings import as_dict, build
from manyheads.core.store import PersonalStore
from manyheads.core.trees import State
from manyheads.data import Encoding

__all__ = ["SCHEMA", "RunDirectory", "read_config"]

SCHEMA = 1


class RunDirectory:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoint"
        self._lock: IO[str] | None = None

    @classmethod
    def create(cls, path: Path, config: dict[str, Any]) -> RunDirectory:
        """A new run; refused where there is anything already."""
        fresh_folder(path)
        directory = cls(path)
        with writing(path):
            directory.checkpoints.mkdir()
        write_text(path / "config.toml", tomli_w.dumps({"schema": SCHEMA, **config}))
        write_text(path / "machine.json", to_json(machine_facts(), indent=2) + "\n")
        return directory

    def write_encoding(self, encoding: Encoding) -> None:
        """Keep how the federation's samples became inputs."""
        facts = {"schema": SCHEMA, **as_dict(encoding)}
        write_text(self.encoding_path, to_json(facts, indent=2) + "\n")

    def encoding(self) -> Encoding:
        """How the federation's samples became inputs."""
        try:
            facts = json.loads(self.encoding_path.read_text(encoding="utf-8"))
            facts.pop("schema")
        except FileNotFoundError:
            raise UserError(
                f"{self.path} does not tell how its data became inputs",
                fix="an earlier version made it: go on with it by --resume, with one round more, or train again",
            ) from None
        except (ValueError, KeyError, AttributeError):
            raise UserError(f"{self.encoding_path} is damaged") from None
        return build(Encoding, facts, where=str(self.encoding_path))

    def lock(self) -> None:
        """Keep a second process out; released when this one ends, however it ends."""
        self._lock = open(self.path / ".lock", "w")  # noqa: SIM115 (held for the life of the run)
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"{self.path} is in use by another process") from None

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
    def store_path(self) -> Path:
        return self.checkpoints / "personal.safetensors"

    def commit(self, round: int, server: State, store: PersonalStore, history: History) -> None:
        """Make the state after ``round`` the one that a resume finds."""
        history.sync()
        store.sync()
        write_checkpoint(self.checkpoints, round, tensors_of(server, store))
        store.committed()

    def restore(self, server: State, store: PersonalStore, say: Callable[[str], None]) -> tuple[int, State]:
        """The last good checkpoint: its round and server state; the store goes back to it too. (0, server) if none."""
        rounds = rounds_on_disk(self.checkpoints)
        for position, round in enumerate(rounds):
            try:
                tensors = read_checkpoint(self.checkpoints, round)
                before = self._before(rounds[position + 1 :])
                restored = server.unflat(
                    {k.removeprefix("server/"): v for k, v in tensors.items() if k.startswith("server/")}
                )
                store.restore(tensors, before)
            except (UserError, KeyError) as error:
                say(f"{error}; falling back to the checkpoint before it")
                continue
            for damaged in rounds[:position]:
                shutil.move(
                    self.checkpoints / f"round-{damaged:08d}.safetensors",
                    self.checkpoints / f"damaged-{damaged:08d}.safetensors",
                )
            return round, restored
        if rounds:
            raise UserError(f"no checkpoint in {self.checkpoints} can be read", fix="start again with another --out")
        return 0, server

    def _before(self, older: list[int]) -> dict[str, Tensor] | None:
        try:
            return read_checkpoint(self.checkpoints, older[0]) if older else None
        except UserError:
            return None


def tensors_of(server: State, store: PersonalStore) -> dict[str, Tensor]:
    """What a checkpoint holds."""
    return {f"server/{k}": v for k, v in server.flat.items()} | store.tables()


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of a run directory."""
    file = path / "config.toml"
    if not file.exists():
        raise UserError(f"{path} is not a run directory", fix="it has no config.toml")
    try:
        config = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file} is not valid TOML: {error}") from None
    schema = config.pop("schema", None)
    if not isinstance(schema, int) or schema > SCHEMA:
        raise UserError(
            f"{path} was written by a newer manyheads",
            given=f"schema {schema}",
            allowed=f"up to {SCHEMA}",
            fix="upgrade manyheads to read it",
        )
    return config
