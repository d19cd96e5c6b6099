"""The file of personal states: three slots for each client, which several processes of a machine read and write.

It is sparse, and a valid safetensors file. Reads and writes go through the file descriptor, not a memory map: a full disk
is then an error instead of a crash, and memory does not grow with the clients that have taken part. Adjacent records
are read and written together. Which slot counts is not in the file: see :mod:`manyheads.core.store`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from manyheads.core.errors import Damaged, InUse, UserError
from manyheads.core.files import writing
from manyheads.core.trees import State, aligned

__all__ = ["SLOTS", "Layout", "Places", "StateFile", "Written"]

Whole = TypeVar("Whole", int, np.ndarray)
SLOTS = 3
PATIENCE = 30.0
"""seconds that are waited for worker processes of a run that was killed; they end by themselves"""
_ALIGN = 8


class Places(NamedTuple):
    """Where the states of some clients are, and where their next ones go."""

    clients: np.ndarray
    now: np.ndarray
    """1 + the slot that holds the state; 0 for the initial one"""
    next: np.ndarray
    """1 + the slot to write the next state to"""

    def take(self, rows: np.ndarray | slice) -> Places:
        return Places(self.clients[rows], self.now[rows], self.next[rows])


class Written(NamedTuple):
    """Where states were written to, and their checksums."""

    slots: np.ndarray
    crc: np.ndarray


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
            flat = aligned(torch.from_numpy(records[:, offset : offset + size]).contiguous())
            leaves[name] = flat.view(dtype).reshape(len(records), *shape)
        return self.template.unflat(leaves)

    def initial(self, clients: int) -> State:
        """The initial state of so many clients."""
        return self.template.map(lambda v: v.expand(clients, *v.shape).clone())


class StateFile:
    """Records of a population's states, in three slots each; there is no file if a state has no bytes."""

    _file = -1

    def __init__(self, path: Path, initial: State, clients: int, *, read_only: bool = False) -> None:
        self.path, self.layout, self.clients = path, Layout(initial), clients
        layout = hashlib.sha256(repr(self.layout.fields).encode()).hexdigest()
        shape, size = [SLOTS, clients, self.layout.nbytes], SLOTS * clients * self.layout.nbytes
        records = {"dtype": "U8", "shape": shape, "data_offsets": [0, size]}
        header = json.dumps({"__metadata__": {"layout": layout}, "records": records}).encode()
        header += b" " * (-len(header) % 8)
        self._head = len(header).to_bytes(8, "little") + header
        if self.layout.nbytes:
            self._open(self._head, len(self._head) + size, read_only)

    def _open(self, start: bytes, size: int, read_only: bool) -> None:
        if self.path.exists() and not self.path.is_file():
            raise Damaged(f"{self.path} cannot be read: it is no file")
        with _reading(self.path) if read_only else writing(self.path):
            self._file = os.open(self.path, os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT, 0o644)
            if not read_only:
                self._wait_for_workers()
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
                os.ftruncate(self._file, size)

    def _wait_for_workers(self) -> None:
        """Wait until no worker process of a killed run has hold of the file: it might write where this run writes."""
        last = time.monotonic() + PATIENCE
        while time.monotonic() < last:
            with suppress(BlockingIOError, PermissionError):
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(self._file, fcntl.LOCK_UN)
                return
            time.sleep(0.02)
        self.close()
        raise InUse(f"{self.path} is in use by another process")

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_file": -1}

    def hold(self) -> None:
        """Take hold of the file in a worker process: whoever opens it to go on with the run waits until that has ended."""
        if self.layout.nbytes:
            if self._file < 0:  # sent to a process that was not forked
                self._file = os.open(self.path, os.O_RDWR)
            fcntl.lockf(self._file, fcntl.LOCK_SH)

    def __del__(self) -> None:
        self.close()  # with the result of its run, which may be one of thousands in a process

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def sync(self) -> None:
        if self._file >= 0:
            with writing(self.path):
                os.fsync(self._file)

    def read(self, clients: np.ndarray, slots: np.ndarray) -> State:
        """The states of these clients in these slots; the initial state where the slot is 0."""
        if not self.layout.nbytes:
            return self.layout.template
        seen = np.flatnonzero(slots)
        if not len(seen):
            return self.layout.initial(len(clients))
        found = self.layout.unpack(self._records(clients[seen], slots[seen]))
        if len(seen) == len(clients):
            return found
        states, rows = self.layout.initial(len(clients)), torch.from_numpy(seen)
        for leaf, values in zip(states.flat.values(), found.flat.values(), strict=True):
            leaf[rows] = values
        return states

    def _records(self, clients: np.ndarray, slots: np.ndarray) -> np.ndarray:
        records = torch.empty((len(clients), self.layout.nbytes), dtype=torch.uint8).numpy()  # see core.trees.aligned
        for run, offset in self._runs(clients, slots):
            here = _adjacent(run)
            rows = np.empty((len(run), self.layout.nbytes), np.uint8) if here is None else records[here]
            left = rows.reshape(-1).data
            while left.nbytes:  # one call reads 2 GB at most
                done = os.preadv(self._file, [left], offset)
                if not done:
                    raise UserError(f"{self.path} is shorter than it was")
                left, offset = left[done:], offset + done
            if here is None:
                records[run] = rows
        return records

    def record(self, client: int, slot: int) -> bytes:
        """The bytes of one client's state."""
        return os.pread(self._file, self.layout.nbytes, self._offset(client, slot))

    def write(self, clients: np.ndarray, slots: np.ndarray, state: State) -> Written:
        """Write the states of these clients to these slots."""
        if not self.layout.nbytes or not len(clients):
            return Written(slots, np.zeros(len(clients), np.uint32))
        records = self.layout.pack(state)
        with writing(self.path):
            for run, offset in self._runs(clients, slots):
                here = _adjacent(run)
                left = records[run if here is None else here].reshape(-1).data
                while left.nbytes:
                    done = os.pwrite(self._file, left, offset)
                    if not done:
                        raise OSError(28, "No space left on device")
                    left, offset = left[done:], offset + done
        return Written(slots, np.array([zlib.crc32(record) for record in records], np.uint32))

    def _offset(self, client: Whole, slot: Whole) -> Whole:
        return len(self._head) + ((slot - 1) * self.clients + client) * self.layout.nbytes

    def _runs(self, clients: np.ndarray, slots: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
        """Runs of clients whose records are adjacent, in the order of the file, with the position of the first."""
        offsets = self._offset(clients, slots.astype(np.int64))
        order = np.argsort(offsets, kind="stable")
        for run in np.split(order, np.flatnonzero(np.diff(offsets[order]) != self.layout.nbytes) + 1):
            yield run, int(offsets[run[0]])


def _adjacent(run: np.ndarray) -> slice | None:
    """The rows as a slice, which needs no copy, if they follow each other."""
    first, last = int(run[0]), int(run[0]) + len(run)
    alone = len(run) == 1  # the usual case, of clients that were drawn from many
    return slice(first, last) if alone or np.array_equal(run, np.arange(first, last)) else None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror or error}") from None
