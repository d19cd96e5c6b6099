"""Where data comes from: named sources, pooled (to be partitioned) or already divided into clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from manyheads.core.errors import UserError, did_you_mean
from manyheads.core.files import kind_of
from manyheads.core.settings import build, settings
from manyheads.data.federation import Federation, Samples
from manyheads.data.partitions.partitioners import Key
from manyheads.data.partitions.recipes import ClassSplit, class_split_federation, dealt
from manyheads.data.pool import Pool, hold_out
from manyheads.data.public.characters import Chars74k, Femnist
from manyheads.data.public.images import Cifar10, Cifar100, Emnist, FashionMnist, ImageFolder, Mnist
from manyheads.data.public.locate import beside
from manyheads.data.public.text import Sent140
from manyheads.data.sites.source import Sites
from manyheads.data.synthetic import LinearTasks

__all__ = ["SOURCES", "Digits", "Pool", "federate", "source_named", "source_of"]


@settings
class Digits:
    """scikit-learn's 1,797 handwritten digits of 8x8 pixels; comes with the package, needs no download."""

    name: ClassVar[str] = "digits"
    model: ClassVar[str] = "mlp"
    """the model that goes with the data, unless another is asked for"""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """part of every class that is kept for the clients' tests"""

    def pool(self, seed: int) -> Pool:
        from sklearn.datasets import load_digits

        digits = load_digits()
        x, y = (digits.data / 16).astype(np.float32), digits.target.astype(np.int64)
        test = hold_out(y, self.test_fraction, 10, seed)
        return Pool("digits", x[~test], y[~test], x[test], y[test], 10)


SOURCES: dict[str, type[Any]] = {
    s.name: s
    for s in (
        Digits,
        LinearTasks,
        Sites,
        Sent140,
        Mnist,
        FashionMnist,
        Emnist,
        Femnist,
        Chars74k,
        Cifar10,
        Cifar100,
        ImageFolder,
    )
}


def source_named(name: str) -> type[Any]:
    if name in SOURCES:
        return SOURCES[name]
    path = Path(name)
    raise UserError(
        "unknown data (no such folder or file, and no data of that name)",
        where="data",
        given=name,
        allowed=f"a path, or {', '.join(sorted(SOURCES))}",
        fix=did_you_mean(path.name, [*SOURCES, *beside(path)]),
    )


def source_of(table: Mapping[str, Any]) -> Any:
    """The data that a table names, with its settings; a path in place of a name is explained by :func:`name_of_path`."""
    values = {"name": Digits.name, **table}
    name = str(values.pop("name"))
    if name not in SOURCES and kind_of(Path(name)):
        name, values = name_of_path(name), {"path": name, **values}
    return build(source_named(name), values, where="data")


def name_of_path(path: str) -> str:
    """What a path holds: the set after which the folder is named (``copies/mnist``), else the user's own sites."""
    folder = Path(path).resolve().name
    known = SOURCES.get(folder)
    return folder if known and "path" in known.__dataclass_fields__ and kind_of(Path(path)) == "folder" else Sites.name


def federate(pool: Pool, spec: Any, *, clients: int, seed: int, new_pool: Pool | None = None) -> Federation:
    """Divide a pool into clients; new clients may come from another pool, if the partition is ``class-split``."""
    if isinstance(spec, ClassSplit):
        return class_split_federation(pool, spec, clients=clients, seed=seed, new_pool=new_pool)
    if new_pool is not None:
        raise UserError("only class-split takes new clients from other data", where="new_data", given=new_pool.name)
    return _by_key(pool, spec, seed) if isinstance(spec, Key) else dealt(pool, spec, clients, seed)


def _by_key(pool: Pool, spec: Key, seed: int) -> Federation:
    if (len(pool.keys) > 1 and not spec.key) or (spec.key and spec.key not in pool.keys) or not pool.keys:
        raise UserError(
            f"{pool.name} cannot be divided by that key",
            where="partition key",
            given=spec.key or "no key",
            allowed=", ".join(pool.keys) or "none, it has no natural clients",
        )
    keys = pool.keys[spec.key or next(iter(pool.keys))]
    if len(keys) != len(pool.y) + len(pool.y_test):
        raise UserError(
            f"{pool.name}: keys are needed for all training and test samples",
            where="partition key",
            given=len(keys),
            allowed=str(len(pool.y) + len(pool.y_test)),
        )
    x, y = np.concatenate([pool.x, pool.x_test]), np.concatenate([pool.y, pool.y_test])
    names, parts = spec.groups(keys)
    if pool.keep_split:
        own = [(p[p < len(pool.y)], p[p >= len(pool.y)]) for p in parts]
        kept = [i for i, (train, _) in enumerate(own) if len(train)]  # who has nothing to train on is left out
        train, test = (Samples.deal(x, y, [own[i][part] for i in kept]) for part in (0, 1))
        left = tuple(names[i] for i in kept)
        return Federation(
            pool.name,
            train,
            test,
            "classification",
            pool.classes,
            client_names=left,
            scaling=pool.scaling,
            label_names=pool.label_names,
        )
    federation = Federation.from_clients([(x[p], y[p]) for p in parts], name=pool.name, outputs=pool.classes, seed=seed)
    return replace(federation, client_names=tuple(names), scaling=pool.scaling, label_names=pool.label_names)
