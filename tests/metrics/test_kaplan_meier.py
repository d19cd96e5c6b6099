"""The Kaplan-Meier estimate, against the textbook and against simulated lives."""

from __future__ import annotations

import numpy as np
import pytest
from survivors import REMISSION

from manyheads.metrics.kaplan_meier import kaplan_meier

PUBLISHED = {6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448}
"""Kleinbaum and Klein, Survival Analysis, of the patients with 6-mercaptopurine"""


def test_a_textbook_curve():
    curve = kaplan_meier(*REMISSION.T)
    at = dict(zip(curve.times.tolist(), curve.survival.tolist(), strict=True))
    assert {t: round(at[t], 3) for t in PUBLISHED} == pytest.approx(PUBLISHED, abs=0.001)
    assert at[0] == 1
    assert at[9] == at[7]  # censored times change nothing
    assert curve.at_risk[:4].tolist() == [21, 21, 17, 16]


def test_a_published_interval():
    """log-log, of R's survfit at 23 weeks: 0.448 (0.188, 0.680)."""
    curve = kaplan_meier(*REMISSION.T)
    at = curve.times.tolist().index(23)
    assert (curve.low[at], curve.high[at]) == pytest.approx((0.188, 0.680), abs=0.001)


def test_the_interval_covers_as_promised():
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(1000):
        life, seen = rng.exponential(size=60), rng.exponential(2.0, size=60)
        curve = kaplan_meier(np.minimum(life, seen), life <= seen, level=0.9)
        at = np.searchsorted(curve.times, 0.5, side="right") - 1
        covered.append(curve.low[at] <= np.exp(-0.5) <= curve.high[at])
    assert np.mean(covered) == pytest.approx(0.9, abs=0.03)


def test_the_ends():
    everyone = kaplan_meier(np.array([1.0, 2.0]), np.array([1, 1]))
    assert everyone.survival.tolist() == [1, 0.5, 0]
    assert (everyone.low[-1], everyone.high[-1]) == (0, 0)
    nobody = kaplan_meier(np.array([1.0, 2.0]), np.array([0, 0]))
    assert nobody.survival.tolist() == nobody.low.tolist() == nobody.high.tolist() == [1, 1, 1]
    at_once = kaplan_meier(np.array([0.0, 2.0]), np.array([1, 0]))
    assert (at_once.times.tolist(), at_once.survival.tolist()) == ([0, 2], [0.5, 0.5])
