"""A user's own arrays, lists or data frames as inputs and targets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.tasks import task_named
from manyheads.data.samples import Samples

__all__ = ["samples_given", "targets_of"]


def samples_given(
    clients: Sequence[Any],
    test: Sequence[Any] | None,
    groups: Sequence[Any] | None,
    times: Sequence[Any] | None,
    task: str | None,
    named: bool,
    name: str,
) -> tuple[str, tuple[str, ...], Samples, np.ndarray | None]:
    """The task, the names of the classes, all samples, and a mask of the test samples if they are given."""
    if not len(clients):
        raise UserError(f"{name}: a federation needs at least one client")
    if test is not None and len(test) != len(clients):
        raise UserError(f"{name}: not one test part for each client", given=len(test), allowed=str(len(clients)))
    own = [_arrays(client, f"{name}: client {i}") for i, client in enumerate(clients)]
    own += [_arrays(part, f"{name}: the test part of client {i}") for i, part in enumerate(test or ())]
    task, labels, targets = targets_of([y for _, y in own], task, named)
    parts = Samples.of([(x, y) for (x, _), y in zip(own, targets, strict=True)])
    train = parts.select(range(len(clients))).numbered(np.zeros(len(clients), np.int64))
    whole, tested = train, None
    if test is not None:
        whole = Samples.merged([train, parts.select(range(len(clients), len(parts))).numbered(train.sizes)])
        tested = np.asarray(whole.rows) >= np.repeat(train.sizes, whole.sizes)
    if groups is not None:
        whole = replace(whole, groups=_group_numbers(groups, whole.sizes, name))
    if times is not None:
        whole = replace(whole, times=_times(times, whole.sizes, name))
    return task, labels, whole, tested


def _arrays(client: Any, where: str) -> tuple[np.ndarray, np.ndarray]:
    """One client's ``(x, y)`` as arrays: ``x`` of numbers, ``y`` of labels of any type."""
    try:
        x, y = client
        x, y = np.asarray(x), np.asarray(y)
    except (
        TypeError,
        ValueError,
        RuntimeError,
    ):  # not a pair; rows of several lengths; a tensor that requires gradients
        raise UserError(
            f"{where} is not a pair of arrays", fix="give each client as (x, y), one row of both per sample"
        ) from None
    if x.dtype.kind not in "biuf":
        raise UserError(f"{where}: inputs that are not numbers", given=str(x.dtype), fix="turn them into numbers")
    if not x.ndim or not y.ndim or len(x) != len(y):
        raise UserError(f"{where}: x and y need one row per sample", given=f"shapes {x.shape} and {y.shape}")
    return x.astype(np.float32) if x.dtype.kind == "b" else x, y


def _group_numbers(groups: Sequence[Any], sizes: np.ndarray, where: str) -> np.ndarray:
    """The number of each sample's group, client after client, from values of any type."""
    each = [[str(v) for v in own.tolist()] for own in _each_sample(groups, sizes, f"{where}: groups")]
    return np.concatenate([np.unique(own, return_inverse=True)[1] for own in each])


def _times(times: Sequence[Any], sizes: np.ndarray, where: str) -> np.ndarray:
    """The time of each sample, client after client, from numbers or dates."""
    each = np.concatenate(_each_sample(times, sizes, f"{where}: times"))
    if each.dtype.kind == "M":
        each = np.where(np.isnat(each), np.nan, each.astype("datetime64[us]").astype(np.float64))
    if each.dtype.kind not in "biuf" or not np.isfinite(each.astype(np.float64)).all():
        raise UserError(f"{where}: times that are not numbers or dates", given=str(each.dtype))
    return each.astype(np.float64)


def _each_sample(values: Sequence[Any], sizes: np.ndarray, what: str) -> list[np.ndarray]:
    each = [np.asarray(own) for own in values]
    if [own.shape for own in each] != [(size,) for size in sizes.tolist()]:
        raise UserError(
            f"{what} do not fit the samples",
            given=f"shapes {', '.join(str(own.shape) for own in each[:9])}",
            allowed="one value for each sample of each client, training samples first",
        )
    return each


def targets_of(
    clients: Sequence[np.ndarray], task: str | None, named: bool
) -> tuple[str, tuple[str, ...], list[np.ndarray]]:
    """The task, the names of the classes (empty if labels are class indices), and the targets of all clients.

    >>> targets_of([np.array([1, 2]), np.array([2])], None, named=True)
    ('classification', ('1', '2'), [array([0, 1]), array([1])])

    Unless ``named``, labels are class indices.
    """
    if task is not None and task_named(task).label:
        return task, (), [_numbers(y) for y in clients]
    kinds = {y.dtype.kind for y in clients}
    if kinds & set("OUS"):  # text, or objects of any type
        values = [_plain(y) for y in clients]
        text = any(isinstance(v, str) for y in values for v in y)
        clients = [np.array([str(v) for v in y] if text else y) for y in values]
        kinds = {y.dtype.kind for y in clients if len(y)}
    if not kinds <= set("biufU"):
        raise UserError("labels of an unknown type", given=", ".join(sorted({str(y.dtype) for y in clients})))
    if task is None:
        task = "regression" if "f" in kinds else "classification"
    if not task_named(task).classes:
        return task, (), [_numbers(y) for y in clients]
    clients = [y.reshape(len(y)) if y.shape == (len(y), 1) else y for y in clients]
    if any(y.ndim != 1 for y in clients):
        raise UserError("classes need one label per sample", given=f"labels of shape {clients[0].shape[1:]}")
    if "U" not in kinds:
        clients = [_whole(y) for y in clients]
    names = np.unique(np.concatenate(clients))
    if not named or ("U" not in kinds and not len(names)) or ("U" not in kinds and names[0] == 0):
        return task, (), clients
    return task, tuple(str(n) for n in names), [np.searchsorted(names, y) for y in clients]


def _plain(y: np.ndarray) -> list[Any]:
    """Labels given as objects; none may be missing."""
    first = y.reshape(len(y), math.prod(y.shape[1:]))[:, 0].tolist()
    values = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in first]
    if y.size != len(values) or any(v is None or v != v for v in values):
        raise UserError("a label is missing, or a sample has several", fix="give one label per sample")
    return values


def _numbers(y: np.ndarray) -> np.ndarray:
    try:
        return y.astype(np.float64) if y.dtype.kind in "bUO" else y
    except (TypeError, ValueError):
        raise UserError("labels that are text cannot be targets of a regression", fix="leave out the task") from None


def _whole(y: np.ndarray) -> np.ndarray:
    if y.dtype.kind == "f" and not (np.isfinite(y).all() and (y == np.round(y)).all()):
        raise UserError(
            "labels that are not whole numbers cannot be classes", fix="give class indices, or names as text"
        )
    return y.astype(np.int64)
