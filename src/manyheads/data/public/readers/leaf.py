"""LEAF's JSON files: ``users``, ``num_samples`` and ``user_data[user]`` with ``x`` and ``y``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.errors import UserError
from manyheads.data.content import content

__all__ = ["leaf_images", "leaf_users"]


def leaf_users(path: Path) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Every user of a file with its x and y, unconverted."""
    raw = content(path)
    try:
        table = json.loads(raw)
        users, sizes, data = table["users"], table["num_samples"], table["user_data"]
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON: {error}") from None
    except (KeyError, TypeError):
        raise UserError(f"{path} is not LEAF data", allowed="users, num_samples, user_data") from None
    if not isinstance(users, list) or not isinstance(sizes, list):
        raise UserError(f"{path} is not LEAF data", allowed="lists of users and num_samples")
    if len(users) != len(sizes):
        raise UserError(f"{path}: num_samples does not fit users", given=len(sizes), allowed=str(len(users)))
    for user, size in zip(users, sizes, strict=True):
        try:
            x, y = data[user]["x"], data[user]["y"]
        except (KeyError, TypeError):
            raise UserError(f"{path}: user {user} has no x and y in user_data") from None
        if not isinstance(x, list) or not isinstance(y, list):
            raise UserError(f"{path}: x and y of user {user} are not lists")
        if not len(x) == len(y) == size:
            raise UserError(
                f"{path}: user {user} has {len(x)} inputs and {len(y)} labels", allowed=f"num_samples, {size}"
            )
        yield str(user), x, y


def leaf_images(paths: Sequence[Path]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Square grey images (in the files, numbers from 0 to 1) as bytes [N, 1, H, W], their labels and users."""
    images, labels, owners = [], [], []
    for path in paths:
        for user, x, y in leaf_users(path):
            if not x:
                continue
            images.append(_as_bytes(x, f"{path}: user {user}"))
            if images[-1].shape[1:] != images[0].shape[1:]:
                raise UserError(f"{path}: images of user {user} have another size than those before")
            labels.append(_labels(y, f"{path}: user {user}"))
            owners += [user] * len(y)
    if not images:
        raise UserError(f"{', '.join(map(str, paths))}: no samples")
    return np.concatenate(images), np.concatenate(labels), np.array(owners)


def _as_bytes(x: list[Any], where: str) -> np.ndarray:
    try:
        values = np.array(x, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{where}: images are not lists of numbers of one length") from None
    side = math.isqrt(values.shape[1]) if values.ndim == 2 else 0
    if not side or side * side != values.shape[1]:
        raise UserError(f"{where}: images are not square", given=values.shape[1:])
    if not ((values >= 0) & (values <= 1)).all():
        raise UserError(f"{where}: pixels are out of range", allowed="0 to 1")
    return np.rint(values * 255).astype(np.uint8).reshape(-1, 1, side, side)


def _labels(y: list[Any], where: str) -> np.ndarray:
    try:
        labels = np.array(y)
    except ValueError:  # lists of several lengths
        labels = np.empty(0, object)
    if labels.dtype.kind not in "iu" or labels.ndim != 1 or labels.min() < 0:
        raise UserError(f"{where}: labels must be 0, 1, 2, ...")
    return labels.astype(np.int64)
