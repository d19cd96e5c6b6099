"""A federation: clients with their own training and test samples."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from manyheads.core.errors import UserError
from manyheads.core.randomness import Purpose, generator
from manyheads.core.settings import as_dict, build
from manyheads.core.tasks import task_named
from manyheads.core.words import printable, quoted
from manyheads.data import folds
from manyheads.data.arrays import samples_given
from manyheads.data.checks import check_federation
from manyheads.data.division import set_aside
from manyheads.data.encoding import Encoding, Scaling
from manyheads.data.hashes import held_by_one_client, sample_hashes
from manyheads.data.samples import Samples
from manyheads.data.saving import read_folder, write_folder
from manyheads.data.sites.columns import Columns

if TYPE_CHECKING:
    from manyheads.data.sites.raw import RawTables

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
    tables: RawTables | None = None
    """the tables themselves, to encode another division of their rows; a saved federation does without"""
    truth: np.ndarray | None = None
    """of a synthetic problem: the true representation that all clients share, [dim, rank]"""
    doubts: tuple[str, ...] = ()
    """warnings from reading the data: what can be used, but may be a mistake"""
    own_test: bool = False
    """the data came with this test part; otherwise any other samples could be the test part"""
    first: int = 0
    """number of its first client: not 0 at a real site, which holds one client of a larger federation"""

    def __post_init__(self) -> None:
        for names in ("client_names", "label_names"):
            if getattr(self, names):  # they are shown in tables, reports and terminals
                object.__setattr__(self, names, tuple(printable(str(n)) for n in getattr(self, names)))
        object.__setattr__(self, "name", printable(self.name))
        check_federation(self)

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
    def division(self) -> str:
        """How samples are divided into parts, in words."""
        if self.train.times is not None:
            return "in the order of time"
        evenly = ", evenly by label" if task_named(self.task).strata(self.train.y) is not None else ""
        return ("by group" if self.train.groups is not None else "at random") + evenly

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
    def site_columns(self) -> tuple[Columns, ...]:
        """Of tables: how the columns of each client become inputs; empty if that is not known."""
        return self.tables.of_sites(self.columns, self.train) if self.tables and self.columns else ()

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
        hashes = self.train.hashes
        if hashes is None:
            if self.columns is not None:
                return None
            hashes = sample_hashes(self.train.x, self.train.y)
        return held_by_one_client(hashes, np.repeat(np.arange(len(self)), self.train.sizes))

    @classmethod
    def from_clients(
        cls,
        clients: Sequence[tuple[ArrayLike, ArrayLike]],
        *,
        test: Sequence[tuple[ArrayLike, ArrayLike]] | None = None,
        groups: Sequence[ArrayLike] | None = None,
        times: Sequence[ArrayLike] | None = None,
        name: str = "custom",
        test_fraction: float = 0.2,
        task: str | None = None,
        outputs: int | None = None,
        client_names: Sequence[str] | None = None,
        seed: int = 0,
    ) -> Federation:
        """From each client's own samples, a fraction of which is held out as its test data, unless ``test`` is given.

        The labels decide the task unless ``task`` is given: text, and integers that do not begin at 0, are names of
        classes; integers from 0 on are class indices; floats are the targets of a regression. Survival has to be named:
        its labels are pairs (time, event). ``groups`` (samples of one are never separated) and ``times`` (tests are later
        than all training samples) have a value for each sample of each client, training samples first.
        """
        task, labels, whole, aside = samples_given(clients, test, groups, times, task, outputs is None, name)
        if outputs is None:
            outputs = len(labels) or task_named(task).outputs_for(whole.y)
        if aside is None:
            aside = set_aside(whole, test_fraction, seed)
        return cls(
            name,
            whole.where(~aside),
            whole.where(aside),
            task,
            outputs,
            client_names=tuple(client_names) if client_names is not None else None,
            label_names=labels,
            own_test=test is not None,
        )

    def with_validation(self, fraction: float, seed: int, *, by_label: bool = False) -> Federation:
        """Move a fraction of each client's training samples to its validation samples, for choosing settings.

        Tables are divided evenly by label, arrays if ``by_label``; groups stay whole; the latest samples are moved.
        """
        if not fraction:
            return self
        return folds.with_validation(self, fraction, seed, by_label or self.columns is not None)

    def without_validation(self) -> Federation:
        """Move the validation samples back to the training samples."""
        return folds.without_validation(self)

    def folds(self, count: int, seed: int) -> list[Federation]:
        """As many federations, in which each sample is a test sample once, and otherwise a training sample.

        Classes are spread evenly over the folds, and groups stay whole. Of samples with times, a fold is trained on those
        before the ones that it tests, and the first of ``count + 1`` blocks is never tested. Neither is the only sample
        or group of a client. One fold is the federation as it is.

        >>> federation = Federation.from_clients([(np.zeros((n, 1)), np.arange(n) % 2) for n in (1, 3, 10)])
        >>> np.sum([fold.test.sizes for fold in federation.folds(5, seed=0)], axis=0).tolist()
        [0, 3, 10]
        """
        return folds.folds(self, count, seed)

    @property
    def test_rows(self) -> np.ndarray:
        """The place of each test sample among its client's samples, in the order in which they were given."""
        rows = folds.numbered_parts(self)[2].rows
        assert rows is not None
        return rows

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
        return replace(
            self,
            train=self.train.select(clients),
            test=self.test.select(clients),
            validation=self.validation.select(clients) if self.validation else None,
            tables=self.tables.select(clients) if self.tables else None,
            client_names=tuple(self.client_name(int(i)) for i in clients),
        )

    def save(self, folder: str | Path) -> Path:
        """Write the arrays to a folder from which :meth:`load` maps them into memory."""
        splits = {"train": self.train, "test": self.test, "validation": self.validation}
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
            "own_test": self.own_test,
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
                truth=np.array(facts["truth"]) if facts.get("truth") else None,
                doubts=tuple(facts.get("doubts", ())),
                own_test=facts.get("own_test", False),
            )
