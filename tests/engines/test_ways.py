"""Which way of training is taken: by sizes alone, so that a run takes the same one anywhere."""

from __future__ import annotations

import pytest
import torch
from problems import ConvNet, images
from torch import nn
from torch.nn import functional

from manyheads import APFL, FedAvg, FedRep, Model, simulate
from manyheads.engines import cohort


def taken(monkeypatch, algorithm, model) -> set[str]:
    """The ways that a round takes."""
    seen = set()

    def watched(name):
        way = getattr(cohort, name)
        return lambda *given: (seen.add(name), way(*given))[1]

    for name in ("stacked", "looped", "chained"):
        monkeypatch.setattr(cohort, name, watched(name))
    simulate(algorithm, model, images(), rounds=1)
    return seen


@pytest.mark.parametrize(("border", "way"), [(96 * 5, "stacked"), (96 * 5 - 1, "looped")])
def test_convolutions_are_looped_from_some_work_on(monkeypatch, border, way):
    monkeypatch.setattr(cohort, "CONVOLVED_STACK_BELOW", border)
    assert taken(monkeypatch, FedAvg(batch=5), Model(ConvNet(), head="out")) == {way}


def test_heads_are_trained_without_the_convolutions(monkeypatch):
    monkeypatch.setattr(cohort, "CONVOLVED_STACK_BELOW", 0)
    assert taken(monkeypatch, FedRep(head_epochs=1, batch=5), Model(ConvNet(), head="out")) == {"chained", "looped"}


def test_steps_of_a_methods_own_follow_the_same_border(monkeypatch):
    stacks = []

    def watched(self, step, state, streams, counts, members, scan=cohort.LocalCohort._scan):
        stacks.append(len(members))
        return scan(self, step, state, streams, counts, members)

    monkeypatch.setattr(cohort.LocalCohort, "_scan", watched)
    simulate(APFL(batch=5), Model(ConvNet(), head="out"), images(), rounds=1)
    assert max(stacks) > 1
    stacks.clear()
    monkeypatch.setattr(cohort, "CONVOLVED_STACK_BELOW", 0)
    simulate(APFL(batch=5), Model(ConvNet(), head="out"), images(), rounds=1)
    assert set(stacks) == {1}


def test_the_work_of_convolutions_by_hand():
    """A 3x3 convolution to 4 channels gives 4 x 2 x 2 numbers of 9 products each; there are three layers."""
    x = torch.zeros(2, 1, 4, 4)
    assert Model(ConvNet(), head="out").tried(x, "classification", 3).convolved == 2 * 4 * 2 * 2 * 9 / 3
    flat = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    assert Model(flat, head="1").tried(x, "classification", 3).convolved == 0


class ByKeywords(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, 4, 3, 3))

    def forward(self, x):
        return functional.conv2d(input=x, weight=self.weight, padding="same")


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv2d(4, 6, 3, stride=2, groups=2), (4, 9, 9)),
        (nn.Conv1d(4, 6, 3, padding=1, dilation=2), (4, 11)),
        (nn.Conv3d(2, 3, 2), (2, 5, 5, 5)),
        (nn.Conv2d(3, 6, 3, padding="same", padding_mode="circular"), (3, 9, 9)),
        (nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2), (4, 9, 9)),
        (ByKeywords(), (4, 7, 7)),
    ],
    ids=["strided groups", "dilated", "of a volume", "circular", "transposed", "called by keywords"],
)
def test_the_work_of_convolutions_is_what_torchs_own_counter_finds(layer, shape):
    from torch.utils.flop_counter import FlopCounterMode

    x = torch.zeros(1, *shape)
    with FlopCounterMode(display=False) as counter:
        width = layer(x).numel()
    net = nn.Sequential(layer, nn.Flatten(), nn.Linear(width, 3))
    (operations,) = (n for op, n in counter.get_flop_counts()["Global"].items() if "convolution" in str(op))
    assert Model(net).tried(torch.zeros(2, *shape), "classification", 3).convolved == operations / 2
