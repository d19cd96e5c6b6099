"""The sweeps of Deng et al. 2022: what they state holds on small runs."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from manyheads import UserError
from manyheads.theory import figure_of, sweep
from manyheads.theory.deng2022 import Deng2022

SMALL = Deng2022(width=128, rounds=40, tau=2)


@pytest.fixture(scope="module")
def data():
    return sweep(SMALL, "data")


@pytest.fixture(scope="module")
def local_sgd():
    return sweep(SMALL, "local-sgd")


def test_lemma_2_needs_all_samples(data):
    printed, all_samples, by_n, split, _, rate = data["outcome"]
    assert printed["value"] < -0.8
    assert all_samples["value"] >= 0
    assert by_n["value"] >= 0
    assert split["value"] == pytest.approx(1)
    assert rate["value"] == pytest.approx(-1, abs=0.3)
    for row in data["by_split"]:
        assert row["clients"] * row["samples"] == SMALL.clients * SMALL.samples
        assert row["as_printed"] == pytest.approx(row["least"] * row["samples"] ** 2 / row["phi"])


def test_the_least_gradient_is_in_proportion_to_the_separation(data):
    assert [row["phi"] for row in data["by_phi"]] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert data["outcome"][4]["value"] == pytest.approx(1, abs=0.3)


def test_no_run_is_below_the_least_gradient_by_much(data):
    """The least over all targets is taken at the start, where the network is still what the run's is up to its way."""
    for row in data["by_clients"]:
        assert row["along_run"] > row["least"] / 3


def test_rate_and_R0_belong_to_the_same_step_size(local_sgd):
    for row in local_sgd["by_width"]:
        m, n, phi = row["width"], SMALL.samples, math.sqrt(5**5 * math.log(row["width"]) ** 2 / row["R0"])
        assert row["eta"] == pytest.approx(SMALL.outputs * phi / (m * SMALL.tau * n**3 * math.log(m) ** 2))
        assert row["rate_times_R0"] == pytest.approx(row["rate"] * row["R0"])
        assert row["rate_times_R0"] > 1


def test_lemmas_7_and_9_fail_as_printed_and_hold_corrected(local_sgd):
    _, growth, without_m, mean, without_K = (row["value"] for row in local_sgd["outcome"])
    assert growth == pytest.approx(1, abs=0.25)
    assert without_m == pytest.approx(0, abs=0.25)
    assert mean == pytest.approx(1, abs=0.25)
    assert without_K == pytest.approx(0, abs=0.25)


def test_a_client_with_one_sample_has_no_worst_draw():
    with pytest.raises(UserError, match="samples: a sample alone contradicts no other; given 1; allowed: 2 or more"):
        sweep(replace(SMALL, samples=1), "local-sgd")


def test_sweeps_are_plain_and_drawn(data, local_sgd):
    for facts in (data, local_sgd):
        assert all(row["holds"] for row in facts["outcome"])
        json.dumps(facts, allow_nan=False)
        assert len(figure_of(facts).to_dict()["hconcat"]) == 3
