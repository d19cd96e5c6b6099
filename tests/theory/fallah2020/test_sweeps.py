"""The sweeps of Fallah et al. 2020: how many rounds eps needs, and gamma against the number of samples."""

from __future__ import annotations

import json

import pytest
from landscapes import SMALL

from manyheads.theory import figure_of, sweep
from manyheads.theory.fallah2020 import Fallah2020, by_rounds, by_samples


def test_gamma_falls_as_one_over_the_root_of_the_samples(monkeypatch):
    monkeypatch.setattr(by_samples, "SAMPLES", (40, 160, 640))
    facts = sweep(Fallah2020(), "samples")
    gamma_G, gamma_H, tv, several, share = (row["value"] for row in facts["outcome"])
    for power in (gamma_G, gamma_H, tv):
        assert power == pytest.approx(-0.5, abs=0.1)
    assert several == pytest.approx(0, abs=0.15)
    assert 0 < share < 1
    assert all(row["holds"] for row in facts["outcome"])
    json.dumps(facts, allow_nan=False)
    assert len(figure_of(facts).to_dict()["hconcat"]) == 2


def test_K_tau_is_what_counts_at_one_step_size_and_K_at_the_largest(monkeypatch):
    monkeypatch.setattr(by_rounds, "LONG", 400)
    monkeypatch.setattr(by_rounds, "SHARES", (0.9, 0.8))
    monkeypatch.setattr(by_rounds, "TAUS", {1: 200, 2: 100, 4: 60})
    facts = sweep(SMALL, "rounds")
    below, power, same, largest = (row["value"] for row in facts["outcome"])
    assert 0 < below < 1
    assert power > 2  # the square is reached from above
    assert same == pytest.approx(1, abs=0.15)
    assert largest == pytest.approx(1, abs=0.15)
    json.dumps(facts, allow_nan=False)
    assert len(figure_of(facts).to_dict()["hconcat"]) == 3


def test_an_eps_out_of_reach_is_undecided(monkeypatch):
    monkeypatch.setattr(by_rounds, "LONG", 20)
    monkeypatch.setattr(by_rounds, "SHARES", (1e-6,))
    monkeypatch.setattr(by_rounds, "TAUS", {1: 5, 2: 5})
    facts = sweep(SMALL, "rounds")
    assert [row["K"] for row in facts["by_eps"]] == [None]
    assert [row["holds"] for row in facts["outcome"]] == [None] * 4
    json.dumps(facts, allow_nan=False)
