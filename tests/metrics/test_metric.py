"""Metrics written outside the package: from each client's predictions, undefined where they cannot be computed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

from manyheads import (
    METRICS,
    SGD,
    Engine,
    Evaluate,
    FedAvg,
    Federation,
    Metric,
    Predictions,
    SampleMetric,
    UserError,
    simulate,
)
from manyheads.core.tasks import task_named
from manyheads.metrics import Accuracy, Loss, Scores, metrics_for, spread


class AUC(Metric):
    """Of two classes; not defined at a client that has one of them alone."""

    name, title, unit, higher_is_better, needs_classes = "my_auc", "area under the ROC curve", "%", True, True

    def of_client(self, predictions):
        if len(np.unique(predictions.labels)) < 2:
            return None
        return float(roc_auc_score(predictions.labels, predictions.probabilities[:, 1]))


class Brier(SampleMetric):
    name, title, higher_is_better, needs_classes = "my_brier", "Brier score", False, True

    def each(self, predictions):
        right = np.eye(predictions.outputs.shape[1])[predictions.labels]
        return np.square(predictions.probabilities - right).sum(axis=1)


class R2(Metric):
    name, title, higher_is_better, tasks = "my_r2", "R2", True, ("regression",)

    def of_client(self, predictions):
        y = predictions.labels
        return 1 - np.square(predictions.outputs[:, 0] - y).sum() / np.square(y - y.mean()).sum()


@pytest.fixture(autouse=True)
def registered():
    for metric in (AUC, Brier, R2):
        METRICS.register(metric)


@pytest.fixture(scope="module")
def two_classes():
    """Four clients; the last has one class alone, and the third no test sample."""
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(n, 3)).astype("float32") for n in (30, 40, 1, 20)]
    y = [(rows[:, 0] + rng.normal(size=len(rows)) > 0).astype(int) for rows in x[:3]]
    return Federation.from_clients(list(zip(x, [*y, np.zeros(20, int)], strict=True)), outputs=2)


def linear(outputs):
    torch.manual_seed(0)
    return nn.Linear(3, outputs)


def run_on(federation, **evaluate):
    return simulate(FedAvg(), linear(2), federation, rounds=3, evaluate=Evaluate(**evaluate))


def test_a_metric_in_a_run(two_classes):
    run = run_on(two_classes, metrics=("my_auc", "my_brier"))
    found = run.history[-1]["evaluation"]
    assert found["metrics"][-2:] == ["my_auc", "my_brier"]
    assert [r["evaluation"]["metrics"] for r in run.history[:2]] == [["accuracy", "loss", "my_auc", "my_brier"]] * 2
    assert found["per_client"]["client"] == [0, 1, 3]
    predictions = run.predictions(two_classes)
    mine = [AUC().of_client(predictions.client(i)) for i in (0, 1)]
    assert found["my_auc"] == pytest.approx(np.mean(mine))  # left out of the mean where it is not defined
    assert found["per_client"]["my_auc"] == [*(pytest.approx(v, abs=1e-6) for v in mine), None]
    assert found["my_auc_clients"] == 2
    assert "my_brier_clients" not in found
    assert found["my_auc_worst_decile"] == pytest.approx(min(mine))
    brier = [float(Brier().each(predictions.client(i)).mean()) for i in (0, 1, 3)]
    assert found["per_client"]["my_brier"] == pytest.approx(brier)
    assert found["my_brier_worst_decile"] == pytest.approx(max(brier))  # the lower the better
    assert run.metrics == {name: found[name] for name in found["metrics"]} == run.summary()["metrics"]
    assert run.history.column("my_auc")[-1] == (3, found["my_auc"])


def test_the_metrics_of_the_task_where_the_evaluation_is_reported(two_classes):
    """After the last round, or each of the last ten; they are scikit-learn's, where both classes are there."""
    run = run_on(two_classes)
    found = run.history[-1]["evaluation"]
    names = ["accuracy", "loss", "balanced_accuracy", "auc", "average_precision", "f1", "brier", "calibration_error"]
    assert found["metrics"] == names == list(run.metrics)
    assert [r["evaluation"]["metrics"] for r in run.history[:2]] == [["accuracy", "loss"]] * 2
    own = [run.predictions(two_classes).client(i) for i in (0, 1)]
    assert found["auc"] == pytest.approx(np.mean([roc_auc_score(p.labels, p.probabilities[:, 1]) for p in own]))
    assert run.summary()["evaluation"]["auc_clients"] == found["auc_clients"] == 2
    assert "auc_clients" in found
    assert "per_client" not in run.summary()["evaluation"]
    each = simulate(FedAvg(), linear(2), two_classes, rounds=12, evaluate=Evaluate(report="mean_last_10", every=12))
    assert [r for r, _ in each.history.column("auc")] == list(range(3, 13))
    assert each.metrics["auc"] == pytest.approx(np.mean([v for _, v in each.history.column("auc")]))


def test_weights_of_clients_where_it_is_defined(two_classes):
    run = run_on(two_classes, metrics=("my_auc",), weight="sample")
    predictions = run.predictions(two_classes)
    values, sizes = [AUC().of_client(predictions.client(i)) for i in (0, 1)], predictions.sizes[[0, 1]]
    assert run.metrics["my_auc"] == pytest.approx(np.average(values, weights=sizes))


def test_further_metrics_change_nothing_else(two_classes):
    plain, more = run_on(two_classes), run_on(two_classes, metrics=("my_auc",))
    assert plain.checksum == more.checksum
    one, other = (r.history[-1]["evaluation"] for r in (plain, more))
    assert {k: other[k] for k in one if k not in ("metrics", "per_client")} == {
        k: v for k, v in one.items() if k not in ("metrics", "per_client")
    }


def test_the_same_in_worker_processes(two_classes):
    """Metrics travel to the workers."""
    runs = [
        simulate(
            FedAvg(), linear(2), two_classes, rounds=1, evaluate=Evaluate(metrics=("my_auc",)),
            engine=Engine(workers=workers),
        )
        for workers in (1, 2)
    ]  # fmt: skip
    for name in ("accuracy", "my_auc"):
        assert runs[0].metrics[name] == pytest.approx(runs[1].metrics[name])


def test_a_metric_that_cannot_travel_to_workers_is_refused(two_classes, tmp_path):
    class Here(AUC):
        name = "here"

    METRICS.register(Here)
    with pytest.raises(UserError, match="the metrics cannot be sent to worker processes.*use one worker"):
        simulate(
            FedAvg(), linear(2), two_classes, rounds=1, evaluate=Evaluate(metrics=("here",)), engine=Engine(workers=2),
            out=tmp_path / "run",
        )  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_of_a_regression():
    rng = np.random.default_rng(1)
    x = [rng.normal(size=(20, 3)) for _ in range(2)]
    federation = Federation.from_clients([(rows, rows @ [1.0, -1.0, 0.5]) for rows in x])
    run = simulate(
        FedAvg(sgd=SGD(lr=0.1)),
        linear(1).double(),
        federation,
        rounds=20,
        evaluate=Evaluate(metrics=("my_r2",), every=20),
    )
    found = run.history[-1]["evaluation"]
    assert found["metrics"] == ["rmse", "loss", "mae", "r2", "my_r2"]
    assert found["accuracy"] is None
    assert 0 < found["my_r2"] < 1
    with pytest.raises(
        UserError, match=r"metric: my_auc is not for regression; given 'my_auc'; allowed: tasks with classes"
    ):
        simulate(FedAvg(), linear(1).double(), federation, rounds=1, evaluate=Evaluate(metrics=("my_auc",)))


def test_what_is_refused(two_classes):
    with pytest.raises(UserError, match=r"metric: unknown metric; given 'my_auk'.*did you mean 'my_auc'"):
        run_on(two_classes, metrics=("my_auk",))
    with pytest.raises(UserError, match=r"metric: my_r2 is not for classification; given 'my_r2'; allowed: regression"):
        run_on(two_classes, metrics=("my_r2",))
    methods = {"title": "x", "of_client": lambda self, predictions: 0.0}
    with pytest.raises(UserError, match="a name that cannot stand in a history; given 'round'"):
        METRICS.register(type("Round", (Metric,), {"name": "round", **methods}))
    with pytest.raises(UserError, match="write its method of_client"):
        METRICS.register(type("Idle", (Metric,), {"name": "idle", "title": "x"}))
    with pytest.raises(UserError, match="no title"):
        METRICS.register(type("Bare", (Metric,), {"name": "bare", "of_client": methods["of_client"]}))
    with pytest.raises(UserError, match="is no Metric"):
        METRICS.register(type("Loose", (), {"name": "loose"}))
    with pytest.raises(UserError, match="there is another metric of that name"):
        METRICS.register(type("Mine", (Metric,), {"name": "loss", **methods}))


def predictions(outputs, labels, sizes, losses=None):
    outputs = np.array(outputs, float)
    return Predictions(outputs, np.array(labels), np.zeros(len(outputs)) if losses is None else losses, np.array(sizes))


def test_all_clients_at_once_as_one_after_another():
    rng = np.random.default_rng(2)
    sizes = [3, 0, 5, 1]
    found = predictions(rng.normal(size=(9, 4)), rng.integers(0, 4, 9), sizes, rng.normal(size=9))
    for metric in (Accuracy(), Loss(), Brier()):
        values, defined = metric.of_clients(found)
        assert defined.tolist() == [True, False, True, True]
        for i in (0, 2, 3):
            assert values[i] == metric.of_client(found.client(i))
            assert values[i] == pytest.approx(metric.each(found.client(i)).mean())


def test_a_model_that_diverged_is_not_left_out():
    """One client's outputs are not finite: its value is not, and neither is the mean; that is not the same as undefined."""
    found = predictions([[1, 0], [0, 1], [np.nan, 0], [1, 0]], [0, 1, 0, 1], [2, 2])
    values, defined = AUC().of_clients(found)
    assert defined.all()
    assert values[0] == 1
    assert np.isnan(values[1])
    record = Evaluate().summary(np.arange(2), Scores.of(found, [AUC()]), [AUC()])
    assert record["my_auc"] is None
    assert record["per_client"]["my_auc"] == [1.0, None]


def test_defined_nowhere():
    found = predictions([[1, 0], [0, 1]], [0, 0], [1, 1])
    record = Evaluate().summary(np.arange(2), Scores.of(found, [AUC()]), [AUC()])
    assert (record["my_auc"], record["my_auc_clients"], record["clients"]) == (None, 0, 2)


def test_metrics_of_a_task_come_first_and_once():
    task = task_named("classification")
    names = [m.name for m in metrics_for(task, ("my_brier", "loss", "auc", "my_brier"), further=False)]
    assert names == ["accuracy", "loss", "my_brier", "auc"]
    assert [m.name for m in metrics_for(task, ("my_brier", "auc"))] == [*task.metrics, *task.further, "my_brier"]


def test_the_worst_tenth_is_on_the_bad_side():
    values = np.arange(20.0)
    assert spread(values)["worst_decile"] == 0.5
    assert spread(values, higher_is_better=False)["worst_decile"] == 18.5


def test_how_a_number_is_written():
    assert (AUC.shown(0.61803), AUC.axis()) == ("61.8 %", "area under the ROC curve (%)")
    assert (Brier.shown(0.061803), Brier.axis(), Brier.shown(None)) == ("0.0618", "Brier score", "")
