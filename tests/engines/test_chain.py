"""Which models are plain chains of layers, and when their first layer is computed in its dual form."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from manyheads import SGD
from manyheads.engines.chain import Chain, Dual, Steps

MOMENTUM = SGD(lr=0.05, momentum=0.6)


def steps(samples, inputs, visits, batch=10):
    plan = [np.arange(batch)] * (visits // batch)
    nothing = torch.zeros(len(plan), 1, batch, dtype=torch.int64)
    x = torch.zeros(samples, inputs)
    return Steps(x, nothing, nothing, nothing, "classification", [plan], np.zeros(1, int), np.array([samples]))


@pytest.mark.parametrize(
    ("samples", "inputs", "outputs", "visits", "pays"),
    [(148, 784, 512, 150, True), (148, 784, 512, 750, True), (5000, 784, 512, 5000, False), (500, 64, 10, 5000, False)],
)
def test_when_the_dual_form_is_taken(samples, inputs, outputs, visits, pays):
    weight = torch.zeros(1, outputs, inputs)
    assert (Dual.of(steps(samples, inputs, visits), weight, MOMENTUM) is not None) == pays


def test_what_is_a_chain():
    linear, relu = torch.nn.Linear(4, 4), torch.nn.ReLU()
    hooked = torch.nn.Sequential(torch.nn.Linear(4, 4))
    hooked.register_forward_hook(lambda _module, _inputs, out: 2 * out)
    chain = Chain.of(torch.nn.Sequential(torch.nn.Flatten(), linear, torch.nn.Sequential(relu, torch.nn.Linear(4, 2))))
    assert chain is not None
    assert [link.name for link in chain.links] == ["1.", "2.1."]
    assert chain.links[0].activation is relu
    for other in (
        torch.nn.Sequential(relu, linear),
        torch.nn.Sequential(linear, relu, linear),  # a layer used twice
        torch.nn.Sequential(linear, relu, torch.nn.ReLU()),
        torch.nn.Sequential(linear, torch.nn.Dropout(0.5)),
        torch.nn.Sequential(linear, torch.nn.ELU(alpha=0.5)),
        torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1), linear),
        torch.nn.Sequential(torch.nn.Flatten(0), linear),
        torch.nn.Sequential(),
        hooked,
    ):
        assert Chain.of(other) is None
