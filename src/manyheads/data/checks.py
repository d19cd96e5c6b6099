"""Checks of a federation: that its parts fit together, and the offsets, labels and values of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.tasks import task_named
from manyheads.data.samples import Samples

if TYPE_CHECKING:
    from manyheads.data.federation import Federation

__all__ = ["check_federation"]


def check_federation(data: Federation) -> None:
    """Refuse parts for different clients, names that do not fit, and clients without training samples."""
    splits = {"train": data.train, "test": data.test, "validation": data.validation}
    for name, split in splits.items():
        if split is None:
            continue
        if len(split) != len(data.train):
            raise UserError(
                f"{data.name}: {name} data is for another number of clients",
                given=len(split),
                allowed=str(len(data.train)),
            )
        _check_split(split, name, data)
    if data.client_names is not None and len(data.client_names) != len(data):
        raise UserError(
            f"{data.name}: the names are for another number of clients",
            given=len(data.client_names),
            allowed=str(len(data)),
        )
    if data.label_names and len(data.label_names) != data.outputs:
        raise UserError(
            f"{data.name}: the names are for another number of classes",
            given=len(data.label_names),
            allowed=str(data.outputs),
        )
    if data.augment and len(data.sample_shape) != 3:
        raise UserError(
            f"{data.name}: only images can be cropped and mirrored",
            where="augment",
            given=f"samples of shape {data.sample_shape}",
        )
    if data.train.groups is not None and data.train.times is not None:
        raise UserError(
            f"{data.name}: samples are divided by group or by time, not by both", fix="leave out one of them"
        )
    empty = np.flatnonzero(data.train.sizes == 0)
    if len(empty):
        raise UserError(
            f"{data.name}: {data.client_name(int(empty[0]))} has no training data",
            fix=f"{len(empty)} of {len(data)} clients are empty: leave them out, or use fewer clients",
        )


def _check_split(split: Samples, name: str, data: Federation) -> None:
    """Refuse offsets that do not fit the arrays, labels out of range, and values that are not finite."""

    def owner(row: int) -> str:
        client = int(np.searchsorted(split.offsets, row, side="right")) - 1
        return f"{data.client_name(client)} (its sample {row - split.offsets[client]})"

    if (
        split.offsets[0] != 0
        or split.offsets[-1] != len(split.x)
        or len(split.x) != len(split.y)
        or (np.diff(split.offsets) < 0).any()
    ):
        raise UserError(f"{data.name}: {name} data does not fit its offsets")
    kind = task_named(data.task)
    if kind.classes:
        wrong = (split.y < 0) | (split.y >= data.outputs)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise UserError(
                f"{data.name}: a {name} label of {owner(row)} is out of range",
                given=int(split.y[row]),
                allowed=f"0 to {data.outputs - 1}",
            )
    unusable, why = kind.wrong_labels(split.y)
    if unusable.any():
        row = int(np.flatnonzero(unusable)[0])
        raise UserError(f"{data.name}: a {name} label of {owner(row)} {why}", given=split.y[row].tolist())
    arrays = {"inputs": split.x, **({"targets": split.y} if not kind.classes else {})}
    for what, array in arrays.items():
        if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
            row = int(np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(1))[0])
            raise UserError(f"{data.name}: {name} {what} of {owner(row)} hold NaN or infinity")
