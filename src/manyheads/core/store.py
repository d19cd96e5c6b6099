"""The store of personal states: one record per client, on disk; only the sampled clients' are in memory.

A sparse file holds three slots, each with room for every client. A client's state is written to a slot that neither of
the last two checkpoints uses for this client, and each checkpoint contains a table of every client's slot. So a run
killed at any instant finds the states of its last checkpoint, or of the one before it, byte for byte, without ever
having copied the store.
The file is a valid safetensors file. Reads and writes go through the file descriptor, not a memory map: a full disk is
then an error instead of a crash, and memory does not grow with the clients that have taken part. Adjacent records are
read and written together.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from manyheads.core.errors import Damaged, UserError
from manyheads.core.files import writing
from manyheads.core.trees import State, aligned

__all__ = ["Layout", "PersonalStore"]

Whole = TypeVar("Whole", int, np.ndarray)
SLOTS = 3
_ALIGN = 8


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror or error}") from None


class Layout:
    """The layout of a state in a record of bytes."""

    def __init__(self, template: State) -> None:
        self.template = template
        self.fields: list[tuple[str, torch.dtype, tuple[int, ...], int, int]] = []
        offset = 0
        for name, leaf in template.flat.items():
            size = leaf.numel() * leaf.element_size()
            self.fields.append((name, leaf.dtype, tuple(leaf.shape), offset, size))
            offset += -(-size // _ALIGN) * _ALIGN
        self.nbytes = offset

    def pack(self, state: State) -> np.ndarray:
        """[C] clients' states as [C, nbytes] bytes."""
        leaves = state.flat
        clients = len(next(iter(leaves.values()))) if leaves else 0
        records = np.zeros((clients, self.nbytes), np.uint8)
        for name, dtype, shape, offset, size in self.fields:
            leaf = leaves[name]
            if leaf.dtype != dtype or leaf.shape[1:] != shape:
                raise UserError(
                    f"personal state {name} changed its form",
                    given=(leaf.dtype, tuple(leaf.shape[1:])),
                    allowed=f"{dtype} {shape}",
                )
            flat = leaf.detach().cpu().contiguous().reshape(clients, -1)
            records[:, offset : offset + size] = flat.view(torch.uint8).numpy()
        return records

    def unpack(self, records: np.ndarray) -> State:
        """The states in [C, nbytes] bytes."""
        leaves: dict[str, Tensor] = {}
        for name, dtype, shape, offset, size in self.fields:
            flat = aligned(torch.from_numpy(np.ascontiguousarray(records[:, offset : offset + size])))
            leaves[name] = flat.view(dtype).reshape(len(records), *shape)
        return self.template.unflat(leaves)


class PersonalStore:
    """Personal states of a population, read and written for a few clients at a time."""

    def __init__(self, path: Path, initial: State, clients: int, *, read_only: bool = False) -> None:
        self.layout = Layout(initial)
        self.path = path
        self.slot = np.zeros(clients, np.uint8)
        """for each client, 1 + the slot that holds its state; 0 if it was never written"""
        self.crc = np.zeros(clients, np.uint32)
        self._kept = [self.slot.copy(), self.slot.copy()]
        self._initial = self.layout.pack(initial.map(lambda v: v.unsqueeze(0))) if self.layout.nbytes else None
        self._file = -1
        if self.layout.nbytes:
            self._open(clients, read_only)

    def _open(self, clients: int, read_only: bool) -> None:
        shape = [SLOTS, clients, self.layout.nbytes]
        size = clients * SLOTS * self.layout.nbytes
        layout = hashlib.sha256(repr(self.layout.fields).encode()).hexdigest()
        records = {"dtype": "U8", "shape": shape, "data_offsets": [0, size]}
        header = json.dumps({"__metadata__": {"layout": layout}, "records": records}).encode()
        header += b" " * (-len(header) % 8)
        start = len(header).to_bytes(8, "little") + header
        self._start = len(start)
        if self.path.exists() and not self.path.is_file():
            raise Damaged(f"{self.path} cannot be read: it is no file")
        with _reading(self.path) if read_only else writing(self.path):
            self._file = os.open(self.path, os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT, 0o644)
            found = os.pread(self._file, len(start), 0)
            if not read_only and not found.strip(b"\0"):
                os.pwrite(self._file, start, 0)
            elif found != start:
                self.close()
                raise Damaged(
                    f"{self.path} is damaged, or holds states of another form",
                    fix="the model, the method or the version of manyheads is not the one it was made with",
                )
            if not read_only:
                os.ftruncate(self._file, self._start + size)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _offset(self, client: Whole, slot: Whole) -> Whole:
        return self._start + ((slot - 1) * len(self.slot) + client) * self.layout.nbytes

    def _runs(self, clients: np.ndarray, slots: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
        """Runs of clients whose records are adjacent, in the order of the file, with the position of the first."""
        offsets = self._offset(clients, slots.astype(np.int64))
        order = np.argsort(offsets, kind="stable")
        for run in np.split(order, np.flatnonzero(np.diff(offsets[order]) != self.layout.nbytes) + 1):
            yield run, int(offsets[run[0]])

    def _record(self, client: int) -> bytes:
        return os.pread(self._file, self.layout.nbytes, self._offset(client, int(self.slot[client])))

    def read(self, clients: Sequence[int]) -> State:
        """The states of these clients; the initial state for those never written."""
        if self._initial is None:
            return self.layout.template
        records = np.repeat(self._initial, len(clients), axis=0)
        ids = np.asarray(clients, np.int64)
        seen = np.flatnonzero(self.slot[ids])
        for run, offset in self._runs(ids[seen], self.slot[ids[seen]]) if len(seen) else ():
            found = np.empty((len(run), self.layout.nbytes), np.uint8)
            left = found.reshape(-1).data
            while left.nbytes:  # one call reads 2 GB at most
                done = os.preadv(self._file, [left], offset)
                if not done:
                    raise UserError(f"{self.path} is shorter than it was")
                left, offset = left[done:], offset + done
            records[seen[run]] = found
        return self.layout.unpack(records)

    def write(self, clients: Sequence[int], state: State) -> None:
        if self._initial is None or not len(clients):
            return
        ids, records = np.asarray(clients, np.int64), self.layout.pack(state)
        slots = self._writable(ids)
        with writing(self.path):
            for run, offset in self._runs(ids, slots):
                left = memoryview(records[run].reshape(-1))
                while left.nbytes:
                    done = os.pwrite(self._file, left, offset)
                    if not done:
                        raise OSError(28, "No space left on device")
                    left, offset = left[done:], offset + done
        self.slot[ids] = slots
        self.crc[ids] = [zlib.crc32(record) for record in records]

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

    def sync(self) -> None:
        if self._file >= 0:
            with writing(self.path):
                os.fsync(self._file)

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

    def update_hash(self, digest: hashlib._Hash) -> None:
        """Add all personal states that were ever written to a hash, in client order."""
        for client in np.flatnonzero(self.slot) if self.layout.nbytes else []:
            digest.update(int(client).to_bytes(8, "little"))
            digest.update(self._record(int(client)))

    def copy_to(self, other: PersonalStore) -> None:
        """Write all states of this store to another one with the same layout."""
        seen = np.flatnonzero(self.slot).tolist()
        for start in range(0, len(seen), 1000):
            clients = seen[start : start + 1000]
            other.write(clients, self.read(clients))
