"""A fold of a comparison: choices are made on one division of the samples, final models are trained on another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from manyheads.core.errors import UserError
from manyheads.data import Federation, Samples
from manyheads.models import Model

__all__ = ["Fold", "pooled_folds"]


@dataclass(frozen=True)
class Fold:
    """One part of all samples is the test part. The rest is training and validation samples, or all training samples."""

    tuning: Federation
    """training samples, and validation samples by which settings are chosen"""
    final: Federation
    """all of these as training samples, and test samples, which no choice has seen"""
    tuning_model: Callable[[int], Model]
    """builds the initial model from a seed; sites' tables may have other inputs after another division"""
    final_model: Callable[[int], Model]

    @property
    def validation(self) -> Samples:
        """The validation samples."""
        assert self.tuning.validation is not None
        return self.tuning.validation

    @classmethod
    def of(
        cls, divided: Federation, model: Callable[[Federation], Callable[[int], Model]], validation: float, seed: int
    ) -> Fold:
        """From a federation with training and test samples."""
        tuning = divided.with_validation(validation, seed, by_label=True)
        if tuning.validation is None or not len(tuning.validation.y):
            raise UserError(
                f"{divided.name}: no site has enough samples to set some aside for validation",
                given=f"{divided.train.sizes.max()} training samples at most",
                fix="add samples, or set a larger part aside: --validation 0.4",
            )
        return cls(tuning, divided, model(tuning), model(divided))


def pooled_folds(folds: Sequence[Fold]) -> tuple[Fold, ...]:
    """The folds with one client, which has the samples of all."""
    return tuple(replace(fold, tuning=_pooled(fold.tuning), final=_pooled(fold.final)) for fold in folds)


def _pooled(federation: Federation) -> Federation:
    def merged(samples: Samples) -> Samples:
        groups = None
        if samples.groups is not None:  # numbers are of a client each
            owner = np.repeat(np.arange(len(samples)), samples.sizes)
            _, groups = np.unique(np.stack([owner, samples.groups]), axis=1, return_inverse=True)
        return replace(samples, offsets=np.array([0, len(samples.y)]), groups=groups)

    return replace(
        federation,
        train=merged(federation.train),
        test=merged(federation.test),
        validation=merged(federation.validation) if federation.validation else None,
        client_names=("all sites",),
        tables=None,
        new=None,
    )
