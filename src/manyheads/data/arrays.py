"""A user's own arrays, lists or data frames as inputs and targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.tasks import task_named

__all__ = ["arrays_of", "targets_of"]


def arrays_of(client: Any, where: str) -> tuple[np.ndarray, np.ndarray]:
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
    values = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in y.reshape(len(y), -1)[:, 0].tolist()]
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
