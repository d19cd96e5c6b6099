"""The metric that decides follows the task and the labels."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads.core.tasks import task_named
from manyheads.metrics import deciding_metric

CLASSIFICATION = task_named("classification")


def labels(*counts):
    return np.repeat(np.arange(len(counts)), counts)


@pytest.mark.parametrize(
    ("sites", "name", "reason"),
    [
        ({"a": labels(20, 80), "b": labels(50, 50)}, "accuracy", "every class is at least 20 %"),
        ({"a": labels(19, 81), "b": labels(50, 50)}, "auc", "only 19 % of the samples of a are 'no'"),
        ({"a": labels(100, 0), "b": labels(50, 50), "c": labels(50, 50)}, "auc", "none of the samples of a are 'yes'"),
        ({"a": labels(100, 0), "b": labels(0, 50)}, "balanced_accuracy", "none of the samples of a are 'yes'"),
    ],
)
def test_two_classes(sites, name, reason):
    found, why = deciding_metric(CLASSIFICATION, sites, ["no", "yes"])
    assert found == name
    assert why.startswith(reason)


def test_many_classes():
    """Ten classes of a tenth each are balanced, also where a client has three of them; two of a hundred are rare."""
    names = [str(i) for i in range(10)]
    even = {"a": labels(*[10] * 10), "b": labels(0, 0, 30, 30, 40)}
    assert deciding_metric(CLASSIFICATION, even, names)[0] == "accuracy"
    assert deciding_metric(CLASSIFICATION, even | {"c": labels(2, 98)}, names)[0] == "balanced_accuracy"


def test_of_other_tasks():
    assert deciding_metric(task_named("regression"), {"a": np.zeros(3)}, []) == ("rmse", "the task is regression")
