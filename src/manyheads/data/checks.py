"""Checks of one split of a federation: its offsets, labels and values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.tasks import task_named
from manyheads.data.samples import Samples

__all__ = ["check_split"]


def check_split(
    split: Samples, data: str, name: str, task: str, outputs: int, client_name: Callable[[int], str]
) -> None:
    """Refuse offsets that do not fit the arrays, labels out of range, and values that are not finite.

    ``data``, ``name`` (of the split) and ``client_name`` are for the messages.
    """

    def owner(row: int) -> str:
        client = int(np.searchsorted(split.offsets, row, side="right")) - 1
        return f"{client_name(client)} (its sample {row - split.offsets[client]})"

    if (
        split.offsets[0] != 0
        or split.offsets[-1] != len(split.x)
        or len(split.x) != len(split.y)
        or (np.diff(split.offsets) < 0).any()
    ):
        raise UserError(f"{data}: {name} data does not fit its offsets")
    kind = task_named(task)
    if kind.classes:
        wrong = (split.y < 0) | (split.y >= outputs)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise UserError(
                f"{data}: a {name} label of {owner(row)} is out of range",
                given=int(split.y[row]),
                allowed=f"0 to {outputs - 1}",
            )
    unusable, why = kind.wrong_labels(split.y)
    if unusable.any():
        row = int(np.flatnonzero(unusable)[0])
        raise UserError(f"{data}: a {name} label of {owner(row)} {why}", given=split.y[row].tolist())
    arrays = {"inputs": split.x, **({"targets": split.y} if not kind.classes else {})}
    for what, array in arrays.items():
        if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
            row = int(np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(1))[0])
            raise UserError(f"{data}: {name} {what} of {owner(row)} hold NaN or infinity")
