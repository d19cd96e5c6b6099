"""The fitted rate and the three-valued verdict on assumptions."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from manyheads.theory.facts import condition, fitted_contraction, number, within


def test_the_rate_is_fitted_in_the_linear_phase_only():
    plateau, fall, floor = [0.99] * 20, [0.99 * 0.8**t for t in range(1, 60)], [1e-15] * 50
    fit = fitted_contraction(plateau + fall + floor, low=1e-10, high=0.5)
    assert fit["contraction"] == pytest.approx(0.8, rel=1e-9)
    assert fit["r2"] == pytest.approx(1)
    assert (plateau + fall + floor)[fit["first"]] < 0.5 <= (plateau + fall + floor)[fit["first"] - 1]


def test_a_bend_lowers_r2_and_a_plateau_has_no_rate():
    bent = [0.4 * 0.7**t for t in range(15)] + [0.4 * 0.7**15 * 0.99**t for t in range(100)]
    assert fitted_contraction(bent, 1e-10, 0.5)["r2"] < 0.7
    assert fitted_contraction([0.99] * 100, 1e-10, 0.5) is None
    assert fitted_contraction([1.0, 1e-12], 1e-10, 0.5) is None


def test_noise_on_the_logarithm_does_not_shift_the_rate():
    rng = np.random.default_rng(0)
    noisy = np.exp(np.log(0.9) * np.arange(150) + 0.1 * rng.normal(size=150))
    assert fitted_contraction(noisy, 1e-10, 0.5)["contraction"] == pytest.approx(0.9, abs=0.002)


def test_undecided_is_neither_within_nor_outside():
    yes, no, open_ = (condition("a", holds, 1, "") for holds in (True, False, None))
    assert within([yes, yes]) is True
    assert within([yes, open_]) is None
    assert within([open_, no]) is False


def test_values_are_json():
    assert number(math.inf) is None
    assert json.loads(json.dumps(condition("a", np.bool_(True), np.float64(2), "> 1")))["holds"] is True
