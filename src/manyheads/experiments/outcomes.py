"""Outputs of models for all test samples of a comparison, each by a model that has not seen the sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from manyheads.core.tasks import task_named
from manyheads.data import Federation, Samples
from manyheads.experiments.folds import Fold
from manyheads.metrics import Predictions

__all__ = ["OutOfFold", "by_fold", "joined", "out_of_fold", "predictions_of"]


def predictions_of(federation: Federation, samples: Samples, outputs: np.ndarray) -> Predictions:
    """Outputs for some samples of a federation, with the loss of each sample."""
    task = task_named(federation.task)
    found = torch.from_numpy(np.asarray(outputs, np.float32))
    labels = torch.from_numpy(np.array(samples.y)).to(task.label_type(found))
    sizes = samples.sizes.tolist() if task.joint else [len(labels)]  # of a joint loss, each client has its own
    losses = [task.losses(*own) for own in zip(torch.split(found, sizes), torch.split(labels, sizes), strict=True)]
    each = task.reported * torch.cat(losses).double().numpy()
    return Predictions(found.numpy(), samples.y, each, samples.sizes, federation.encoding.target)


class OutOfFold(NamedTuple):
    """Predictions for the test samples of all folds, client after client, and the fold of each sample."""

    predictions: Predictions
    fold: np.ndarray

    def client(self, index: int) -> OutOfFold:
        """Those for the samples of one client."""
        end = int(self.predictions.sizes[: index + 1].sum())
        return self.take(slice(end - int(self.predictions.sizes[index]), end))

    def take(self, rows: slice | np.ndarray) -> OutOfFold:
        """Those for some samples of one client."""
        return OutOfFold(self.predictions.take(rows), self.fold[rows])


def joined(folds: Sequence[Fold], outputs: Sequence[np.ndarray]) -> OutOfFold:
    """From the outputs for the test samples of each fold."""
    parts = [_in_own_unit(predictions_of(f.final, f.final.test, out)) for f, out in zip(folds, outputs, strict=True)]
    sizes = np.stack([part.sizes for part in parts])  # [folds, clients]
    owner = np.concatenate([np.repeat(np.arange(len(own)), own) for own in sizes])
    order = np.argsort(owner, kind="stable")
    outputs_, labels, losses = (
        np.concatenate(each)[order] for each in zip(*((p.outputs, p.labels, p.losses) for p in parts), strict=True)
    )
    fold = np.repeat(np.arange(len(parts)), sizes.sum(axis=1))[order]
    return OutOfFold(Predictions(outputs_, labels, losses, sizes.sum(axis=0)), fold)


def out_of_fold(folds: Sequence[Fold], outputs: Sequence[Sequence[np.ndarray]]) -> list[OutOfFold]:
    """From the outputs for the test samples of each fold, for each seed."""
    return [joined(folds, own) for own in outputs]


def by_fold(methods: Mapping[str, Sequence[OutOfFold]], names: Sequence[str]) -> list[OutOfFold]:
    """For each seed, the predictions of the method that is named for each fold, on the samples of the fold."""
    return [_picked(parts) for parts in zip(*(methods[name] for name in names), strict=True)]


def _picked(parts: Sequence[OutOfFold]) -> OutOfFold:
    first, fold = parts[0]
    outputs, losses = (
        np.stack(each)[fold, np.arange(len(fold))]
        for each in zip(*((part.predictions.outputs, part.predictions.losses) for part in parts), strict=True)
    )
    return OutOfFold(replace(first, outputs=outputs, losses=losses), fold)


def _in_own_unit(part: Predictions) -> Predictions:
    """With the targets of a regression in their own unit, since each fold scales them by its own training samples."""
    mean, deviation = part.target
    if deviation == 1 and mean == 0:
        return part
    return Predictions(part.values, part.targets, part.losses * deviation**2, part.sizes)
