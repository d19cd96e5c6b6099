"""The metric by which methods are compared: it follows the task and the balance of the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from manyheads.core.tasks import Task

__all__ = ["deciding_metric"]

RARE = 0.4
"""a class is rare with less than this part of an even share: a fifth of the samples, with two classes"""


def deciding_metric(task: Task, labels: Mapping[str, np.ndarray], classes: Sequence[str]) -> tuple[str, str]:
    """The name of the metric and the reason for it, given the labels of every client and the names of the classes.

    Accuracy rewards predicting the most frequent class alone. So if a class is rare at some client, two classes are
    compared by AUC, if that is defined at most clients, and more classes by balanced accuracy. Classes that a client
    does not have are rare there only if there are two: of many classes, clients often have a few.

    >>> from manyheads.core.tasks import task_named
    >>> sites = {"north": np.array([0, 1, 0, 1]), "south": np.array([1, 1, 1, 1, 1, 1, 0])}
    >>> deciding_metric(task_named("classification"), sites, ["healthy", "ill"])
    ('auc', "only 14 % of the samples of south are 'healthy', so accuracy would reward predicting the others alone")
    """
    if not task.classes:
        return task.metrics[0], f"the task is {task.name}"
    counts = np.stack([np.bincount(own, minlength=len(classes)) for own in labels.values()])
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    binary = len(classes) == 2
    rarest = np.where((counts > 0) | binary, shares, 1.0)
    client, label = (int(i) for i in np.unravel_index(rarest.argmin(), rarest.shape))
    share, enough = rarest[client, label], RARE / len(classes)
    if share >= enough:
        return "accuracy", f"every class is at least {100 * enough:.2g} % of the samples of every client that has it"
    name = "auc" if binary and (counts > 0).all(axis=1).mean() > 0.5 else "balanced_accuracy"
    few = f"only {100 * share:.2g} %" if share else "none"
    where = f"{few} of the samples of {list(labels)[client]} are {classes[label]!r}"
    return name, f"{where}, so accuracy would reward predicting the others alone"
