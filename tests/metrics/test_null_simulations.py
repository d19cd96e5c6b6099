"""With nothing to find, little is found, and intervals cover; at full size by benchmarks/null_simulations.py."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks"))

from learners import Problem
from null_simulations import covers, false_discoveries, learned, outcome, repeated
from outcomes import Scenario, draw

from manyheads.metrics.paired import NOTHING, estimate

SIZES = (20, 50, 200, 1000)
REPETITIONS = 100
DESIGNS = [(1, 2), (1, 3), (1, 5), (5, 1), (5, 2)]
SHIFTS = {"none": {}, "1 point": {"common": 0.01}, "3 points": {"common": 0.03}, "3 points, each site": {"own": 0.03}}


def rate(found, *names):
    return np.mean([found[name][0] for name in names])


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize(("folds", "seeds"), DESIGNS)
def test_with_nothing_to_find(folds, seeds, shift):
    """Of 100 repetitions with 4 sites each; a rate of 0.95 has a Monte Carlo error of 0.02, over all sites half of it."""
    s = Scenario(folds=folds, seeds=seeds, methods=9, sizes=SIZES, **SHIFTS[shift])
    found = repeated(outcome, s, REPETITIONS, seed=0)
    assert rate(found, *(f"{n} covers" for n in SIZES)) >= 0.94
    assert rate(found, *(f"{n} level covers" for n in SIZES)) >= 0.94
    assert rate(found, "mean covers") >= 0.91
    assert rate(found, "mean level covers") >= 0.91
    assert rate(found, "recommended") <= 0.05
    assert rate(found, "some site found") <= 0.08


@pytest.mark.parametrize("metric", ["balanced_accuracy", "auc"])
@pytest.mark.parametrize(("folds", "seeds"), [(1, 3), (5, 2)])
def test_metrics_with_strata(metric, folds, seeds):
    s = Scenario(metric, folds, seeds, own=0.01, sizes=(20, 50, 200))
    found = repeated(outcome, s, REPETITIONS, seed=0)
    assert rate(found, *(f"{n} covers" for n in s.sizes)) >= 0.94
    assert rate(found, *(f"{n} level covers" for n in s.sizes)) >= 0.92
    assert rate(found, "mean covers", "mean level covers") >= 0.92


@pytest.mark.parametrize(("folds", "seeds"), [(1, 3), (5, 1)])
def test_without_the_variance_between_runs_it_would_not_cover(folds, seeds):
    s = Scenario(folds=folds, seeds=seeds, own=0.03, sizes=(1000,))
    drawn = [estimate(draw(np.random.default_rng(r), s).gains[0], "difference") for r in range(200)]
    assert np.mean([covers(found, 0) for found in drawn]) >= 0.92
    assert np.mean([covers(replace(found, runs=NOTHING), 0) for found in drawn]) < 0.85


@pytest.mark.parametrize(("folds", "seeds"), [(1, 5), (5, 2)])
def test_among_sites_that_gain_few_discoveries_are_false(folds, seeds):
    found = repeated(false_discoveries, Scenario(folds=folds, seeds=seeds, own=0.01), REPETITIONS, seed=0)
    assert rate(found, "false share") <= 0.05
    assert rate(found, "found") >= 0.4


@pytest.mark.parametrize(("gain", "least"), [(0.02, 0.05), (0.05, 0.5), (0.1, 0.95)])
def test_planted_gains_are_found(gain, least):
    s = Scenario(folds=5, seeds=2, own=0.01, gain=gain, sizes=(100,) * 10)
    assert rate(repeated(outcome, s, REPETITIONS, seed=0), "recommended") >= least


def test_cross_validation_of_real_models_covers_their_expected_gain():
    """Over 25 repetitions and 4 sites; samples alone, without overlapping training sets, cover less."""
    found = learned(Problem("auc", samples=60, signal=0.0), 25, seed=0)
    assert rate(found, "gain, ours, covers") >= 0.92
    assert rate(found, "level, ours, covers") >= 0.92
    assert rate(found, "level, samples alone, covers") < rate(found, "level, ours, covers")
