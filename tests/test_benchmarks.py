"""What the benchmarks compare is the same work: on the same batches, the plain loop gives the same model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from manyheads.engines.threads import one_thread

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from check import arithmetic, difference, in_double, traffic
from workloads import WORKLOADS

QUICK = [
    "mlp-fedavg",
    "class-fedavg",
    "mlp-ditto",
    "mlp-scaffold",
    "mlp-apfl",
    "mlp-perfedavg",
    "lenet-fedavg",
    "linear-40",
    "linear-1000",
    "relu-deep",
    "lstm-fedavg",
    "perfedavg-exact",
    "perfedavg-fo",
]


@pytest.mark.parametrize("name", QUICK)
def test_a_round_is_the_plain_loop_s(name):
    with one_thread():
        assert difference(in_double(WORKLOADS[name])) < 1e-9


def test_an_evaluation_is_the_plain_loop_s():
    with one_thread():
        assert difference(in_double(WORKLOADS["evaluate-1000"])) < 1e-9


def test_arithmetic_and_traffic_by_hand():
    """ReLU 784-1000-10 with a fixed top: the first layer forward and its gradient, the top forward and down."""
    wide, steps = WORKLOADS["relu-wide"], 50 * 10
    assert arithmetic(wide) == 2 * 50 * (2 * 784 * 1000 + 2 * 1000 * 10) * steps
    assert traffic(wide) == 4 * 784 * 1000 * 3 * steps
    assert arithmetic(WORKLOADS["perfedavg-exact"]) == traffic(WORKLOADS["perfedavg-exact"]) == 0
