"""The store of personal states: one record per client, on disk; only those of a few clients are in memory at a time.

The file (:mod:`manyheads.core.state_file`) holds three slots, each with room for every client. A client's state is
written to a slot that neither of the last two checkpoints uses for this client, and each checkpoint contains a table of
every client's slot. So a run killed at any instant finds the states of its last checkpoint, or of the one before it,
byte for byte, without ever having copied the store.
The tables are kept by one process. Others may read and write the file where it says (:meth:`PersonalStore.places`); what
they wrote counts when it is accepted.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from manyheads.core.errors import Damaged
from manyheads.core.state_file import SLOTS, Layout, Places, StateFile, Written
from manyheads.core.trees import State

__all__ = ["PersonalStore"]

COPIED = 64 * 2**20
"""bytes that are copied at a time to another store"""


class PersonalStore:
    """Personal states of a population, read and written for a few clients at a time."""

    def __init__(
        self, path: Path, initial: State, clients: int, *, read_only: bool = False, shared: bool = False
    ) -> None:
        self.file = StateFile(path, initial, clients, read_only=read_only)
        self.slot = np.zeros(clients, np.uint8)
        """for each client, 1 + the slot that holds its state; 0 if it was never written"""
        self.crc = np.zeros(clients, np.uint32)
        self._kept = [self.slot.copy(), self.slot.copy()]
        self._shared = shared
        """whether those who work with the states can read and write the file; otherwise they are given the states"""

    @property
    def layout(self) -> Layout:
        return self.file.layout

    @property
    def path(self) -> Path:
        return self.file.path

    def close(self) -> None:
        self.file.close()

    def sync(self) -> None:
        self.file.sync()

    def places(self, clients: Sequence[int]) -> Places:
        """Where the states of these clients are in the file, and where their next ones go."""
        ids = np.asarray(clients, np.int64)
        return Places(ids, self.slot[ids], self._writable(ids))

    def given(self, clients: Sequence[int]) -> State | Places:
        """What those are given who work with the states of these clients."""
        return self.places(clients) if self._shared else self.read(clients)

    def read(self, clients: Sequence[int]) -> State:
        """The states of these clients; the initial state for those never written."""
        ids = np.asarray(clients, np.int64)
        return self.file.read(ids, self.slot[ids])

    def write(self, clients: Sequence[int], state: State) -> None:
        ids = np.asarray(clients, np.int64)
        self.accept(clients, self.file.write(ids, self._writable(ids), state))

    def accept(self, clients: Sequence[int], states: State | Written) -> None:
        """Take over new states of these clients: from memory, or those that another process has written."""
        if isinstance(states, State):
            self.write(clients, states)
        elif self.layout.nbytes:
            ids = np.asarray(clients, np.int64)
            self.slot[ids], self.crc[ids] = states

    def _writable(self, clients: np.ndarray) -> np.ndarray:
        """The slot to write each client's state to: the present one, or another if a checkpoint refers to it."""
        current, last, before = (slots[clients] for slots in (self.slot, *self._kept))
        free = np.zeros_like(current)
        for slot in range(SLOTS, 0, -1):
            free[(last != slot) & (before != slot)] = slot
        return np.where((current == 0) | (current == last) | (current == before), free, current)

    def tables(self) -> dict[str, Tensor]:
        """The tables that a checkpoint must contain."""
        return {
            "store/slot": torch.from_numpy(self.slot.copy()),
            "store/crc": torch.from_numpy(self.crc.view(np.int32).copy()),
        }

    def committed(self) -> None:
        """Note that a checkpoint with the present tables is on disk; only it and the one before are protected now."""
        self._kept = [self.slot.copy(), self._kept[0]]

    def restore(self, tables: dict[str, Tensor], before: dict[str, Tensor] | None = None) -> None:
        """Restore the tables of a checkpoint and check its records; those of the one ``before`` it are kept too."""
        self.slot = tables["store/slot"].numpy().copy()
        self.crc = tables["store/crc"].numpy().copy().view(np.uint32)
        self._kept = [self.slot.copy(), (before or tables)["store/slot"].numpy().copy()]
        for client in np.flatnonzero(self.slot) if self.layout.nbytes else []:
            if zlib.crc32(self._record(int(client))) != self.crc[client]:
                raise Damaged(f"personal state of client {client} in {self.path} is damaged")

    def _record(self, client: int) -> bytes:
        return self.file.record(client, int(self.slot[client]))

    def update_hash(self, digest: hashlib._Hash) -> None:
        """Add all personal states that were ever written to a hash, in client order."""
        for client in np.flatnonzero(self.slot) if self.layout.nbytes else []:
            digest.update(int(client).to_bytes(8, "little"))
            digest.update(self._record(int(client)))

    def copy_to(self, other: PersonalStore) -> None:
        """Write all states of this store to another one with the same layout."""
        seen = np.flatnonzero(self.slot).tolist()
        step = max(1, COPIED // max(1, self.layout.nbytes))
        for start in range(0, len(seen), step):
            clients = seen[start : start + step]
            other.write(clients, self.read(clients))
