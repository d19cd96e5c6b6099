"""Which models are plain chains of layers."""

from __future__ import annotations

import pytest
import torch
from problems import ragged
from torch import nn
from torch.nn import functional

from manyheads import SGD, FedAvg, FedRep, Model, PerFedAvg, simulate
from manyheads.engines.activations import activations_of
from manyheads.models.chain import Chain

LINEAR, RELU = nn.Linear(4, 4), nn.ReLU()


def test_sequences_within_sequences_are_one_chain():
    chain = Chain.of(
        nn.Sequential(nn.Flatten(), LINEAR, nn.Sequential(RELU, nn.Identity(), nn.Linear(4, 2))), prefix="body."
    )
    assert chain is not None
    assert chain.flat
    assert [link.name for link in chain.links] == ["body.1.", "body.2.2."]
    assert [link.activation for link in chain.links] == [RELU, None]


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(RELU, LINEAR),
        nn.Sequential(LINEAR, RELU, LINEAR),
        nn.Sequential(LINEAR, RELU, nn.ReLU()),
        nn.Sequential(LINEAR, nn.Dropout(0.5)),
        nn.Sequential(nn.Conv2d(1, 1, 1), LINEAR),
        nn.Sequential(nn.Flatten(0), LINEAR),
        nn.Sequential(),
    ],
    ids=[
        "activation first",
        "a layer twice",
        "two activations",
        "dropout",
        "convolution",
        "another flatten",
        "nothing",
    ],
)
def test_what_is_no_chain(module):
    assert Chain.of(module) is None


def test_layers_that_share_a_weight_are_no_chain():
    other = nn.Linear(4, 4)
    other.weight = LINEAR.weight
    assert Chain.of(nn.Sequential(LINEAR, RELU, other)) is None


@pytest.mark.parametrize(("activation", "known"), [(nn.ELU(), True), (nn.ELU(alpha=0.5), False), (nn.GELU(), False)])
def test_only_chains_with_known_derivatives_are_trained_by_hand(activation, known):
    chain = Chain.of(nn.Sequential(LINEAR, activation, nn.Linear(4, 2)))
    assert chain is not None
    assert (activations_of(chain) is not None) is known


class Layers(nn.Module):
    """Three linear layers, for forwards of many kinds."""

    def __init__(self, forward=None, **more):
        super().__init__()
        self.one, self.two = nn.Linear(6, 8), nn.Linear(8, 5)
        self.top = nn.Sequential(nn.Tanh(), nn.Linear(5, 3))
        self.way = forward
        for name, layer in more.items():
            self.add_module(name, layer)

    def forward(self, x):
        return self.way(self, x)


def seen(module, shape=(6,)):
    return Model(module, head=()).tried(torch.randn(4, *shape), "classification", 3).net.chain


PLAIN = {
    "functional": lambda s, x: s.top(s.two(functional.relu(s.one(x)))),
    "of torch": lambda s, x: s.top(s.two(torch.relu(s.one(x)))),
    "methods": lambda s, x: s.top(s.two(s.one(x).relu())),
    "in place": lambda s, x: s.top(s.two(functional.relu(s.one(x), inplace=True))),
    "flattened": lambda s, x: s.top(s.two(s.one(torch.flatten(x, 1)).relu())),
    "viewed": lambda s, x: s.top(s.two(s.one(x.view(x.size(0), -1)).relu())),
    "reshaped by its length": lambda s, x: s.top(s.two(s.one(x.reshape(len(x), 6)).relu())),
    "shapes asked for": lambda s, x: s.top(s.two(s.one(x if x.ndim == 2 else x.reshape(x.shape[0], -1)).relu())),
}
OTHER = {
    "a sum": lambda s, x: s.top(s.two(s.one(x)) + 1),
    "residual": lambda s, x: s.top(s.two(s.one(x)) + s.two(s.one(x))),
    "another activation in training": lambda s, x: s.top(s.two((torch.tanh if s.training else torch.relu)(s.one(x)))),
    "another parameter of the activation": lambda s, x: s.top(s.two(functional.elu(s.one(x), 0.5))),
    "another form of the activation": lambda s, x: s.top(s.two(functional.gelu(s.one(x), approximate="tanh"))),
    "a layer twice": lambda s, x: s.top(s.two(torch.relu(s.one(functional.pad(s.one(x), (0, -2)))))),
    "a layer left out": lambda s, x: s.top(functional.relu(s.one(x))[:, :5]),
    "a layer for nothing": lambda s, x: (s.two(s.one(x)), s.top(s.two(s.one(x))))[1],
    "a choice by values": lambda s, x: s.top(s.two(s.one(x) if float(x.sum()) > 1e9 else s.one(x).relu())),
    "softmax": lambda s, x: s.top(s.two(s.one(x).softmax(1))),
    "weights changed on the way": lambda s, x: s.top(functional.linear(s.one(x), 2 * s.two.weight, s.two.bias)),
    "without its bias": lambda s, x: s.top(functional.linear(s.one(x), s.two.weight)),
}


@pytest.mark.parametrize("way", PLAIN)
def test_a_class_of_the_users_is_seen_to_be_a_chain(way):
    chain = seen(Layers(PLAIN[way]), (2, 3) if way in ("flattened", "viewed", "shapes asked for") else (6,))
    assert chain is not None
    assert [link.name for link in chain.links] == ["one.", "two.", "top.1."]
    assert [type(link.activation) for link in chain.links] == [nn.ReLU, nn.Tanh, type(None)]
    assert all(link.linear.weight.dtype == torch.float32 for link in chain.links)


@pytest.mark.parametrize("way", OTHER)
def test_a_class_that_does_anything_else_is_no_chain(way):
    assert seen(Layers(OTHER[way])) is None


def test_a_class_with_layers_that_it_does_not_use_is_no_chain():
    assert seen(Layers(PLAIN["functional"], spare=nn.Linear(6, 6))) is None


@pytest.mark.parametrize(
    "algorithm",
    [
        FedAvg(epochs=2, batch=4, sgd=SGD(lr=0.05, momentum=0.5, weight_decay=1e-3)),
        FedRep(head_epochs=2, batch=4),
        PerFedAvg(variant="exact", steps=2, batch=4),
    ],
    ids=lambda a: a.name,
)
def test_it_is_trained_bit_for_bit_as_the_same_layers_in_a_sequence(algorithm):
    own = Layers(PLAIN["functional"])
    same = nn.Sequential(own.one, nn.ReLU(), own.two, *own.top)
    runs = [simulate(algorithm, Model(m, head), ragged(), rounds=2) for m, head in ((own, "top.1"), (same, "4"))]
    one, other = (run.client_model(1) for run in runs)
    assert all(torch.equal(a, b) for a, b in zip(one.values(), other.values(), strict=True))
    assert runs[0].accuracy == runs[1].accuracy
