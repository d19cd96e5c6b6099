"""From a pool of samples and a partition to a federation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from manyheads.core.errors import UserError
from manyheads.data.federation import Federation
from manyheads.data.partitions.partitioners import Key, partition
from manyheads.data.partitions.recipes import AllClasses, ClassSplit
from manyheads.data.pool import Pool
from manyheads.data.samples import Samples

__all__ = ["class_split_federation", "federate"]


def federate(
    pool: Pool,
    spec: Any,
    *,
    clients: int,
    seed: int,
    new_pool: Pool | None = None,
    new_clients: int = 0,
    new_samples: int = 500,
) -> Federation:
    """Divide a pool into clients; new clients may come from another pool.

    Each of them has ``new_samples`` training samples of all its classes; the partition ``class-split`` has settings of
    its own for them.
    """
    if isinstance(spec, ClassSplit):
        return class_split_federation(pool, spec, clients=clients, seed=seed, new_pool=new_pool)
    federation = _by_key(pool, spec, seed) if isinstance(spec, Key) else _by_counts(pool, spec, clients, seed)
    if new_pool is None:
        return federation
    if new_clients < 1:  # 0, or a fraction of the clients, which is for new clients of the same data
        raise UserError(
            f"how many new clients of {new_pool.name}?", where="new_clients", given=new_clients, allowed="1 or more"
        )
    return _with_new(federation, pool, new_pool, AllClasses(new_samples, 0), new_clients, seed)


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
        kept = [i for i, (train, _) in enumerate(own) if len(train)]  # clients without training samples are left out
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
            own_test=True,
        )
    federation = Federation.from_clients([(x[p], y[p]) for p in parts], name=pool.name, outputs=pool.classes, seed=seed)
    return replace(federation, client_names=tuple(names), scaling=pool.scaling, label_names=pool.label_names)


def class_split_federation(
    pool: Pool, spec: ClassSplit, *, clients: int, seed: int, new_pool: Pool | None = None
) -> Federation:
    """Training clients by :class:`ClassSplit`, and new clients with the remaining classes, or with all of ``new_pool``.

    Each new client has all the new classes, equally many samples of each (up to one). New clients from a pool of their
    own (CIFAR-10, for a model trained on CIFAR-100) keep its labels, as outputs of the trained model, and their pixels
    are scaled as those that the model is trained on.
    """
    if new_pool is None and spec.new_clients and spec.train_classes >= pool.classes:
        raise UserError(
            "no classes are left for new clients",
            where="partition class-split.train_classes",
            given=spec.train_classes,
            allowed=f"1 to {pool.classes - 1}, for {pool.name}",
            fix="or ask for no new clients: new_clients=0",
        )
    federation = _by_counts(pool, spec, clients, seed)
    if not spec.new_clients:
        return federation
    everyone = AllClasses(spec.new_samples, 0 if new_pool else spec.train_classes)
    return _with_new(federation, pool, new_pool or pool, everyone, spec.new_clients, seed)


def _with_new(
    federation: Federation, pool: Pool, source: Pool, spec: AllClasses, clients: int, seed: int
) -> Federation:
    """The federation of a pool, with new clients from ``source``."""
    if source.x.shape[1:] != pool.x.shape[1:] or source.classes > pool.classes:
        raise UserError(
            f"new clients from {source.name} do not fit a model for {pool.name}",
            given=f"samples {source.x.shape[1:]}, {source.classes} classes",
            allowed=f"samples {pool.x.shape[1:]}, up to {pool.classes} classes",
        )
    return replace(federation, new=_by_counts(source, spec, clients, seed, pool))


def _by_counts(pool: Pool, spec: Any, clients: int, seed: int, model_of: Pool | None = None) -> Federation:
    """Clients from a pool; the model is for its classes, or for those of the pool ``model_of``."""
    model_of = model_of or pool
    train, test = partition(spec, pool.y, pool.y_test, clients=clients, seed=seed, classes=pool.classes)
    return Federation(
        pool.name,
        Samples.deal(pool.x, pool.y, train),
        Samples.deal(pool.x_test, pool.y_test, test),
        "classification",
        model_of.classes,
        scaling=model_of.scaling,
        own_test=pool.own_test or pool.keep_split,
        label_names=pool.label_names
        if pool is model_of
        else (),  # the labels of new clients are outputs of a model for other classes
    )
