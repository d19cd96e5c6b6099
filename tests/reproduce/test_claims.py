"""Verdicts follow from the checks, and orders are judged by intervals over seeds."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads.reproduce.claims import Check, Claim, above, mean_and_interval, overall


def test_an_order_holds_fails_or_cannot_be_told():
    rng = np.random.default_rng(0)
    low = rng.normal(0, 1, 8)
    assert above("", low + 2, low).holds is True  # paired by seed: what seeds have in common does not matter
    assert above("", low, low + 2).holds is False
    assert above("", low + np.tile([1.0, -0.8], 4), low).holds is None
    assert above("", low + 2, low, by=3).holds is False
    assert above("", [5.0], [1.0]).holds is None
    assert above("", [5.0, 5.0], [1.0]).holds is None


def test_the_interval_covers_the_mean_of_few_seeds():
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(4000):
        mean, half = mean_and_interval(rng.normal(3.0, 1.0, 3))
        covered.append(abs(mean - 3.0) <= half)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.012)


def test_verdicts():
    yes, no, unknown = (Check("", holds, "") for holds in (True, False, None))
    assert Claim("", (yes, yes)).verdict == "reproduced"
    assert Claim("", (yes, unknown)).verdict == "partly"
    assert Claim("", (no, no)).verdict == "not reproduced"
    assert Claim("", (unknown,)).verdict == "undecided"
    assert Claim("", ()).verdict == "undecided"
    assert overall(["reproduced", "not reproduced"]) == "partly"
    assert overall(["not reproduced", "not reproduced"]) == "not reproduced"
    assert overall(["partly"]) == "partly"
    assert overall([]) == "undecided"
