"""Which models are plain chains of layers."""

from __future__ import annotations

import pytest
from torch import nn

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
