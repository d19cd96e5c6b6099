"""Benjamini and Hochberg, against scipy."""

from __future__ import annotations

import numpy as np
from scipy import stats

from manyheads.metrics.discoveries import discoveries


def test_as_scipy_adjusts():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p = rng.random(20) ** 3
        assert (discoveries(p) == (stats.false_discovery_control(p) <= 0.05)).all()


def test_none_of_none():
    assert discoveries([]).tolist() == []
    assert discoveries([0.9, 1.0]).tolist() == [False, False]
