"""New clients of a trained run: fine-tuned anew, on other data or fewer samples, without training again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from manyheads import FedAvg, FedRep, FineTune, UserError, simulate
from manyheads.data import Classes, Digits, federate
from manyheads.metrics import METRICS, layer_cka

TUNE = FineTune(scope="all", epochs=3, lr=0.05)


def federation_and_run(algorithm=FedAvg):
    federation = federate(Digits().pool(0), Classes(4), clients=8, seed=0).with_new_clients(3, 0)
    return federation, simulate(algorithm(), "mlp", federation, rounds=4, finetune=TUNE)


@pytest.mark.parametrize("algorithm", [FedAvg, FedRep])
def test_they_predict_as_in_the_evaluation_of_the_run(algorithm):
    federation, run = federation_and_run(algorithm)
    said = [found["accuracy"] for found in run.final if found["who"] == "new"]
    for tune, expected in zip((FineTune(), TUNE), said, strict=True):
        values, _ = METRICS.find("accuracy")().of_clients(run.new_predictions(federation, tune))
        assert values.mean() == pytest.approx(expected)


def test_a_new_model_is_the_one_that_predicts():
    federation, run = federation_and_run()
    new = federation.new
    module = run.model.module_with(run.new_model(federation, 1, TUNE))
    x, _ = new.test.client(1)
    predicted = run.new_predictions(federation, TUNE)
    own = slice(*np.cumsum([0, *new.test.sizes])[1:3])
    assert torch.allclose(module(torch.as_tensor(x)), torch.as_tensor(predicted.outputs[own]), atol=1e-5)


def test_other_samples_without_training_again():
    federation, run = federation_and_run()
    few = replace(federation.new, train=type(federation.new.train)(*_first(federation.new.train, 5)))
    before, after = (run.new_predictions(replace(federation, new=n), TUNE).outputs for n in (federation.new, few))
    assert not np.allclose(before, after)
    with pytest.raises(UserError, match="digits has no new clients"):
        run.new_predictions(replace(federation, new=None), TUNE)


def test_layers_of_a_tuned_model_differ_most_where_it_was_tuned():
    federation, run = federation_and_run()
    shared = run.model.module_with(run.client_model(0, "global"))
    head = run.model.module_with(run.new_model(federation, 0, replace(TUNE, scope="head")))
    x = torch.as_tensor(federation.test.x[:100])
    cka = list(layer_cka(shared, head, x).values())
    assert cka[:-1] == pytest.approx([1.0] * (len(cka) - 1))
    assert cka[-1] < 0.999
    whole = list(layer_cka(shared, run.model.module_with(run.new_model(federation, 0, TUNE)), x).values())
    assert max(whole) < 1 - 1e-6


def _first(samples, count):
    rows = [samples.offsets[i] + np.arange(count) for i in range(len(samples.sizes))]
    chosen = np.concatenate(rows)
    return samples.x[chosen], samples.y[chosen], count * np.arange(len(rows) + 1)
