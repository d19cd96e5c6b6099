"""The values of the metrics are scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn import metrics as reference

from manyheads.metrics import METRICS, Predictions

KINDS = st.tuples(st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 7]), st.integers(2, 60), st.booleans())


def classified(kind):
    """One client's predictions; if asked for, many samples have the same."""
    seed, classes, samples, tied = kind
    rng = np.random.default_rng(seed)
    outputs = 3 * rng.normal(size=(samples, classes))
    labels = rng.choice(classes, size=samples, p=rng.dirichlet(np.ones(classes)))
    return of_one_client(outputs[rng.integers(0, 4, samples) % samples] if tied else outputs, labels)


def of_one_client(outputs, labels, target=(0.0, 1.0)):
    return Predictions(
        np.array(outputs, float), np.array(labels), np.zeros(len(labels)), np.array([len(labels)]), target
    )


def one_against_rest(score, own, p):
    """The mean of a score of two classes over the classes that have samples on both sides."""
    if len(np.unique(own.labels)) < 2:
        return None
    classes = [1] if p.shape[1] == 2 else np.unique(own.labels)
    return np.mean([score(own.labels == c, p[:, c]) for c in classes])


def f1(own, p):
    if p.shape[1] > 2:
        return reference.f1_score(own.labels, own.predicted, average="macro", zero_division=0)
    some = own.labels.any() or own.predicted.any()
    return reference.f1_score(own.labels, own.predicted, zero_division=0) if some else None


def balanced(own, p):
    classes = np.unique(own.labels)
    return np.mean(reference.recall_score(own.labels, own.predicted, labels=classes, average=None))


REFERENCE = {
    "accuracy": lambda own, p: reference.accuracy_score(own.labels, own.predicted),
    "balanced_accuracy": balanced,
    "auc": lambda own, p: one_against_rest(reference.roc_auc_score, own, p),
    "average_precision": lambda own, p: one_against_rest(reference.average_precision_score, own, p),
    "f1": f1,
    "log_loss": lambda own, p: reference.log_loss(own.labels, p, labels=np.arange(p.shape[1])),
    "brier": lambda own, p: reference.brier_score_loss(own.labels, p, labels=np.arange(p.shape[1])),
}


@pytest.mark.parametrize("name", REFERENCE)
@given(kind=KINDS)
@settings(max_examples=40, deadline=None)
def test_of_classes(name, kind):
    own = classified(kind)
    assert METRICS[name]().of_client(own) == pytest.approx(
        REFERENCE[name](own, softmax(own.outputs, axis=1)), abs=1e-12
    )


@pytest.mark.parametrize("targets", [1, 3])
def test_of_a_regression_in_the_unit_of_the_target(targets):
    rng = np.random.default_rng(0)
    truth, guess = rng.normal(5, 20, size=(2, 30, targets))
    own = of_one_client((guess - 5) / 20, (truth - 5) / 20, target=(5.0, 20.0))
    found = {name: METRICS[name]().of_client(own) for name in ("rmse", "mae", "r2")}
    assert found == pytest.approx(
        {
            "rmse": reference.mean_squared_error(truth, guess) ** 0.5,
            "mae": reference.mean_absolute_error(truth, guess),
            "r2": reference.r2_score(truth, guess),
        }
    )


def test_a_single_output_may_have_no_dimension():
    flat = of_one_client([1.0, 2.0, 4.0], [[1.0], [3.0], [3.0]])
    assert METRICS["rmse"]().of_client(flat) == pytest.approx((2 / 3) ** 0.5)
    assert METRICS["mae"]().of_client(flat) == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", ["auc", "average_precision"])
def test_not_defined_with_one_class_alone(name):
    assert METRICS[name]().of_client(of_one_client([[1, 2], [2, 1]], [1, 1])) is None
    assert METRICS[name]().of_client(of_one_client([[1, 2], [2, 1]], [1, 0])) == 1


def test_r2_is_not_defined_where_the_target_does_not_vary():
    assert METRICS["r2"]().of_client(of_one_client([1, 2, 3], [0.1, 0.1, 0.1])) is None
    assert METRICS["r2"]().of_client(of_one_client([1], [1])) is None


def test_a_model_that_is_very_sure_still_ranks():
    """Probabilities that are 1 up to rounding are told apart by their odds."""
    sure = of_one_client(np.array([[0, 50], [0, 60], [0, 70]], np.float32), [0, 1, 1])
    assert np.ptp(sure.probabilities[:, 1]) == 0
    assert METRICS["auc"]().of_client(sure) == METRICS["average_precision"]().of_client(sure) == 1


def test_the_calibration_error_of_two_bins():
    """0.8 in one bin, of which 1/4 is right; 0.6 in another, of which 2/3 are right."""
    p = np.array([0.8] * 4 + [0.6] * 3)
    own = of_one_client(np.log(np.stack([1 - p, p], axis=1)), [1, 0, 0, 0, 1, 1, 0])
    assert METRICS["calibration_error"]().of_client(own) == pytest.approx((4 * (0.8 - 1 / 4) + 3 * (2 / 3 - 0.6)) / 7)


MANY = ["auc", "average_precision", "f1", "balanced_accuracy", "calibration_error", "accuracy", "brier", "log_loss"]


@pytest.mark.parametrize("name", MANY)
@given(
    seed=st.integers(0, 2**32 - 1),
    classes=st.sampled_from([2, 3, 7]),
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=8),
    tied=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_many_clients_together_are_as_one_by_one(name, seed, classes, sizes, tied):
    rng, total = np.random.default_rng(seed), sum(sizes)
    outputs = 3 * rng.normal(size=(total, classes))
    outputs = outputs.round() if tied else outputs
    if total and seed % 3 == 0:
        outputs[rng.integers(total)] = np.nan
    together = Predictions(outputs, rng.integers(0, classes, total), np.zeros(total), np.array(sizes))
    metric = METRICS[name]()
    with np.errstate(invalid="ignore"):
        found = metric.of_clients(together)
    for client, size in enumerate(sizes):
        own = together.client(client)
        if not size:
            assert not found.defined[client]
        elif not np.isfinite(own.outputs).all():
            assert found.defined[client]
            assert name == "accuracy" or not np.isfinite(found.values[client])
        else:
            value = metric.of_client(own)
            assert found.defined[client] == (value is not None)
            assert found.values[client] == pytest.approx(np.nan if value is None else value, abs=1e-12, nan_ok=True)
