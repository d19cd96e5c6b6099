"""Other divisions of a federation's samples into training, validation and test samples.

Tables are encoded anew for each, by statistics of its training rows alone; arrays are only divided.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.tasks import task_named
from manyheads.data.division import fold_numbers, set_aside
from manyheads.data.samples import Samples
from manyheads.data.sites.columns import Columns

if TYPE_CHECKING:
    from manyheads.data.federation import Federation

__all__ = ["folds", "numbered_parts", "with_validation", "without_validation"]

SCALED_BEFORE = "saved without its tables: columns stay scaled by rows of which some are now set aside"


def with_validation(federation: Federation, fraction: float, seed: int, by_label: bool) -> Federation:
    """With a fraction of each client's training samples set aside for validation."""
    if federation.new:
        federation = replace(federation, new=with_validation(federation.new, fraction, seed, by_label))
    train, _, test = numbered_parts(federation)
    strata = task_named(federation.task).strata if by_label else lambda y: None
    aside = set_aside(train, fraction, seed, 1, strata=strata, first=federation.first)
    return _divided(federation, train.where(~aside), train.where(aside), test)


def without_validation(federation: Federation) -> Federation:
    """With the validation samples among the training samples."""
    train, validation, test = numbered_parts(federation)
    if validation is None:
        return federation
    if federation.new:
        federation = replace(federation, new=without_validation(federation.new))
    return _divided(federation, Samples.merged([train, validation]), None, test)


def folds(federation: Federation, count: int, seed: int) -> list[Federation]:
    """As many federations, each with the test samples of one fold; see :func:`fold_numbers`."""
    if count < 1:
        raise UserError("no such number of folds", where="folds", given=count, allowed="1 or more")
    if count == 1:
        return [federation]
    whole = Samples.merged([part for part in numbered_parts(federation) if part is not None])
    number = fold_numbers(whole, count, seed, task_named(federation.task).strata, federation.first)
    past = whole.times is not None
    return [
        _divided(federation, whole.where(number < k if past else number != k), None, whole.where(number == k))
        for k in range(count)
    ]


def numbered_parts(federation: Federation) -> tuple[Samples, Samples | None, Samples]:
    """Training, validation and test samples with their rows, which are in this order unless they are known."""
    train = federation.train.numbered(np.zeros(len(federation), np.int64))
    first = train.sizes
    validation = federation.validation
    if validation is not None:
        validation = validation.numbered(first)
        first = first + validation.sizes
    return train, validation, federation.test.numbered(first)


def _divided(
    federation: Federation, train: Samples, validation: Samples | None, test: Samples, columns: Columns | None = None
) -> Federation:
    """The federation with these parts. Its new clients are encoded as the others; they have no part in the statistics."""
    if federation.tables is not None:
        parts = federation.tables.encoded(train, columns=columns, validation=validation, test=test)
        made = replace(federation, **parts)
        new = made.new and _divided(made.new, *numbered_parts(made.new), columns=made.columns)
        return replace(made, new=new)
    doubts = (*federation.doubts, SCALED_BEFORE) if federation.columns else federation.doubts
    doubts = tuple(dict.fromkeys(doubts))
    return replace(federation, train=train, validation=validation, test=test, doubts=doubts)
