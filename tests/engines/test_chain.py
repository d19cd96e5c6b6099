"""Which models are plain chains of layers."""

from __future__ import annotations

import torch

from manyheads.engines.chain import Chain


def test_what_is_a_chain():
    linear, relu = torch.nn.Linear(4, 4), torch.nn.ReLU()
    hooked = torch.nn.Sequential(torch.nn.Linear(4, 4))
    hooked.register_forward_hook(lambda _module, _inputs, out: 2 * out)
    chain = Chain.of(torch.nn.Sequential(torch.nn.Flatten(), linear, torch.nn.Sequential(relu, torch.nn.Linear(4, 2))))
    assert chain is not None
    assert [link.name for link in chain.links] == ["1.", "2.1."]
    assert chain.links[0].activation is not None
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
