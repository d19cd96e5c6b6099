"""A federation: clients with their own training and test samples."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from manyheads.core.errors import UserError
from manyheads.core.randomness import Purpose, generator
from manyheads.core.settings import as_dict, build
from manyheads.core.tasks import task_named
from manyheads.core.words import printable, quoted
from manyheads.data.arrays import arrays_of, targets_of
from manyheads.data.checks import check_split
from manyheads.data.encoding import Encoding, Scaling
from manyheads.data.hashes import held_by_one_client, sample_hashes
from manyheads.data.samples import Samples, split_each
from manyheads.data.saving import read_folder, write_folder
from manyheads.data.sites.columns import Columns

__all__ = ["Federation"]


@dataclass(frozen=True, eq=False)
class Federation:
    """Clients with their own training and test samples, and the new clients that training must never see.

    >>> rng = np.random.default_rng(0)
    >>> clients = [(rng.normal(size=(n, 4)).astype("float32"), rng.integers(0, 3, n)) for n in (1, 20, 7)]
    >>> federation = Federation.from_clients(clients, test_fraction=0.25, name="mine")
    >>> federation.train.sizes.tolist(), federation.test.sizes.tolist()
    ([1, 15, 5], [0, 5, 2])
    """

    name: str
    train: Samples
    test: Samples
    task: str
    outputs: int
    """classes, or the length of a regression target; 1, the log risk, for survival"""
    validation: Samples | None = None
    new: Federation | None = None
    client_names: tuple[str, ...] | None = None
    scaling: Scaling | None = None
    """of the pixels, if inputs are stored as bytes"""
    augment: bool = False
    """training images are cropped and mirrored at random"""
    label_names: tuple[str, ...] = ()
    """names of the classes 0, 1, ..., if they have any"""
    columns: Columns | None = None
    """of tables: how their columns become inputs"""
    hashes: Samples | None = None
    """of tables, in place of the inputs: hashes of the training rows before they were scaled"""
    truth: np.ndarray | None = None
    """of a synthetic problem: the true representation that all clients share, [dim, rank]"""
    doubts: tuple[str, ...] = ()
    """warnings from reading the data: what can be used, but may be a mistake"""

    def __post_init__(self) -> None:
        for names in ("client_names", "label_names"):
            if getattr(self, names):  # they are shown in tables, reports and terminals
                object.__setattr__(self, names, tuple(printable(str(n)) for n in getattr(self, names)))
        object.__setattr__(self, "name", printable(self.name))
        splits = {"train": self.train, "test": self.test, "validation": self.validation}
        for name, split in splits.items():
            if split is None:
                continue
            if len(split) != len(self.train):
                raise UserError(
                    f"{self.name}: {name} data is for another number of clients",
                    given=len(split),
                    allowed=str(len(self.train)),
                )
            check_split(split, self.name, name, self.task, self.outputs, self.client_name)
        if self.client_names is not None and len(self.client_names) != len(self):
            raise UserError(
                f"{self.name}: the names are for another number of clients",
                given=len(self.client_names),
                allowed=str(len(self)),
            )
        if self.label_names and len(self.label_names) != self.outputs:
            raise UserError(
                f"{self.name}: the names are for another number of classes",
                given=len(self.label_names),
                allowed=str(self.outputs),
            )
        if self.augment and len(self.sample_shape) != 3:
            raise UserError(
                f"{self.name}: only images can be cropped and mirrored",
                where="augment",
                given=f"samples of shape {self.sample_shape}",
            )
        empty = np.flatnonzero(self.train.sizes == 0)
        if len(empty):
            raise UserError(
                f"{self.name}: {self.client_name(int(empty[0]))} has no training data",
                fix=f"{len(empty)} of {len(self)} clients are empty: leave them out, or use fewer clients",
            )

    def __len__(self) -> int:
        return len(self.train)

    def client_name(self, index: int) -> str:
        return self.client_names[index] if self.client_names else f"client {index}"

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return self.train.x.shape[1:]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Doubts about the data, and clients with too few samples for a test or validation part."""
        unmeasured = []
        for split, samples in (("test", self.test), ("validation", self.validation)):
            empty = np.flatnonzero(samples.sizes == 0) if samples else np.empty(0, int)
            if len(empty):
                names = quoted(*(self.client_name(int(i)) for i in empty), most=5)
                count = f"{len(empty)} of {len(self)} clients"
                unmeasured.append(f"{count} have too few samples to set some aside for {split}: {names}")
        return (*self.doubts, *unmeasured)

    @property
    def encoding(self) -> Encoding:
        """How the clients' samples become inputs, to encode those of a later client alike."""
        return Encoding(
            task=self.task,
            outputs=self.outputs,
            shape=self.sample_shape,
            dtype=str(self.train.x.dtype),
            label_names=self.label_names,
            pixels=self.scaling,
            columns=self.columns,
            augment=self.augment,
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all the data, so that a run is only resumed on the data it was started with."""
        digest = hashlib.sha256()
        for split in (self.train, self.test, self.validation):
            for array in (split.x, split.y, split.offsets) if split else ():
                digest.update(f"{array.dtype} {array.shape};".encode())
                digest.update(np.ascontiguousarray(array).data)
        digest.update(self.new.fingerprint.encode() if self.new else b"")
        return digest.hexdigest()[:16]

    @cached_property
    def training_hashes(self) -> np.ndarray | None:
        """Hashes of the training samples that one client alone has; None for tables without hashes."""
        if self.columns is not None and (self.hashes is None or len(self.hashes.x) != len(self.train.x)):
            return None
        hashes = sample_hashes(self.train.x, self.train.y) if self.hashes is None else self.hashes.x
        return held_by_one_client(hashes, np.repeat(np.arange(len(self)), self.train.sizes))

    @classmethod
    def from_clients(
        cls,
        clients: Sequence[tuple[ArrayLike, ArrayLike]],
        *,
        name: str = "custom",
        test_fraction: float = 0.2,
        task: str | None = None,
        outputs: int | None = None,
        client_names: Sequence[str] | None = None,
        seed: int = 0,
    ) -> Federation:
        """From each client's own samples, a fraction of which is held out as its test data.

        The labels decide the task unless ``task`` is given: text, and integers that do not begin at 0, are names of
        classes; integers from 0 on are class indices; floats are the targets of a regression. Survival has to be named:
        its labels are pairs (time, event).
        """
        if not len(clients):
            raise UserError(f"{name}: a federation needs at least one client")
        own = [arrays_of(client, f"{name}: client {i}") for i, client in enumerate(clients)]
        task, labels, targets = targets_of([y for _, y in own], task, named=outputs is None)
        whole = Samples.of([(x, y) for (x, _), y in zip(own, targets, strict=True)])
        if outputs is None:
            outputs = len(labels) or task_named(task).outputs_for(whole.y)
        train, test = split_each(whole, test_fraction, seed)
        names = tuple(client_names) if client_names is not None else None
        return cls(name, train, test, task, outputs, client_names=names, label_names=labels)

    def with_validation(self, fraction: float, seed: int) -> Federation:
        """Move a fraction of each client's training data to its validation data, for choosing settings."""
        if not fraction:
            return self
        by_label = self.columns is not None and task_named(self.task).classes
        train, validation = split_each(self.train, fraction, seed, Purpose.SPLIT, 1, by_label=by_label)
        hashes = None
        if self.hashes is not None:  # they carry the samples' labels, so they are split as the samples are
            hashes, _ = split_each(self.hashes, fraction, seed, Purpose.SPLIT, 1, by_label=by_label)
        new = self.new.with_validation(fraction, seed) if self.new else None
        return replace(self, train=train, validation=validation, new=new, hashes=hashes)

    def with_new_clients(self, share: float, seed: int) -> Federation:
        """Hold some clients out of training as new clients: a fraction of all, or a number if ``share`` is 1 or more."""
        count = round(share * len(self)) if share < 1 else int(share)
        if not share:
            return self
        if self.new is not None:
            raise UserError(
                f"{self.name} already has new clients", where="new_clients", given=share, fix="leave it out"
            )
        if not 1 <= count < len(self):
            raise UserError(
                "no such number of new clients",
                where="new_clients",
                given=share,
                allowed=f"1 to {len(self) - 1} clients, or a fraction of {len(self)} that is at least one",
            )
        chosen = generator(seed, Purpose.NEW_CLIENTS).choice(len(self), count, replace=False)
        rest = np.setdiff1d(np.arange(len(self)), chosen)
        return replace(self._subset(rest), new=self._subset(np.sort(chosen)))

    def _subset(self, clients: np.ndarray) -> Federation:
        pick: Callable[[Samples], Samples] = lambda s: s.select(clients)  # noqa: E731
        names = tuple(self.client_name(int(i)) for i in clients)
        return replace(
            self,
            train=pick(self.train),
            test=pick(self.test),
            validation=pick(self.validation) if self.validation else None,
            hashes=pick(self.hashes) if self.hashes else None,
            client_names=names,
        )

    def save(self, folder: str | Path) -> Path:
        """Write the arrays to a folder from which :meth:`load` maps them into memory."""
        splits = {"train": self.train, "test": self.test, "validation": self.validation, "marks": self.hashes}
        if self.new is not None:
            self.new.save(Path(folder) / "new")
        facts = {
            "name": self.name,
            "task": self.task,
            "outputs": self.outputs,
            "client_names": self.client_names,
            "new": self.new is not None,
            "scaling": asdict(self.scaling) if self.scaling else None,
            "augment": self.augment,
            "label_names": self.label_names,
            "columns": as_dict(self.columns) if self.columns else None,
            "truth": self.truth.tolist() if self.truth is not None else None,
            "doubts": self.doubts,
        }
        return write_folder(Path(folder), {n: s for n, s in splits.items() if s is not None}, facts)

    @classmethod
    def load(cls, folder: str | Path) -> Federation:
        """A saved federation, its arrays memory-mapped."""
        folder = Path(folder)
        with read_folder(folder) as (splits, facts):
            return cls(
                facts["name"],
                splits["train"],
                splits["test"],
                facts["task"],
                facts["outputs"],
                splits.get("validation"),
                cls.load(folder / "new") if facts["new"] else None,
                tuple(facts["client_names"]) if facts["client_names"] else None,
                Scaling(**{k: tuple(v) for k, v in facts["scaling"].items()}) if facts["scaling"] else None,
                facts["augment"],
                tuple(facts.get("label_names", ())),
                build(Columns, facts["columns"], where=str(folder)) if facts.get("columns") else None,
                splits.get("marks"),
                np.array(facts["truth"]) if facts.get("truth") else None,
                tuple(facts.get("doubts", ())),
            )
