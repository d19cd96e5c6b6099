"""Whose model works at whose site: each site's model, trained alone, on the test samples of all sites."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manyheads.experiments.folds import Fold
from manyheads.experiments.outcomes import joined
from manyheads.experiments.quality import CrossSites
from manyheads.metrics import Metric

__all__ = ["CROSS_SITES", "cross_sites", "scores_of_sites"]

CROSS_SITES = 20
"""largest number of sites for which every model is tried at every site"""


def scores_of_sites(metric: Metric, folds: Sequence[Fold], outputs: Sequence[np.ndarray]) -> list[float]:
    """The score at each site, from the outputs for the test samples of each fold; NaN where it is undefined."""
    found = joined(folds, outputs)
    values = []
    for site in range(len(found.predictions)):
        own = found.client(site)
        each = metric.contributions(*own) if len(own.fold) else None
        values.append(float("nan") if each is None else each.value)
    return values


def cross_sites(
    metric: Metric,
    folds: Sequence[Fold],
    models: Sequence[np.ndarray],
    federated: tuple[str, Sequence[np.ndarray]] | None,
) -> CrossSites:
    """The matrix. ``models``: for each fold the outputs of each site's model for all test samples, [models, samples, O].

    ``federated`` is the name of a method, and its outputs for each fold's test samples.
    """
    names = tuple(folds[0].final.client_name(i) for i in range(len(folds[0].final)))
    rows = [tuple(scores_of_sites(metric, folds, [each[i] for each in models])) for i in range(len(names))]
    labels = names
    if federated:
        rows.append(tuple(scores_of_sites(metric, folds, federated[1])))
        labels = (*names, federated[0])
    return CrossSites(labels, names, tuple(rows))
