"""Intervals: closed forms, and what must hold of few samples, few runs and several sites."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from manyheads.metrics import paired
from manyheads.metrics.paired import REUSED, Differences, Moments


def differences(each, folds=1, span=1.0):
    """A site with a metric that is a mean over samples, which are dealt to the folds in turn."""
    each = np.asarray(each, float)
    samples = np.arange(each.shape[1])
    return Differences(each.mean(axis=1), each, np.zeros_like(samples), samples % folds, span)


def overall(sites, kind):
    """The estimate from what the sites tell of their samples."""
    return paired.overall([Moments.of(site) for site in sites], kind)


def estimate(site, kind):
    return overall([site], kind)


def width(found):
    low, high = found.interval()
    return high - low


def test_measures_have_students_interval():
    values = np.array([[1.0, 2.0, 4.0]])
    expected = stats.t.interval(0.95, 2, loc=7 / 3, scale=stats.sem(values[0]))
    assert estimate(differences(values), "measure").interval() == pytest.approx(expected)
    assert estimate(differences(values[:, :1]), "measure").interval() == (-np.inf, np.inf)


def test_a_share_has_wilsons_interval():
    """15 of 20, up to the tenths of pseudo-samples and Student's t."""
    found = estimate(differences([[1.0] * 15 + [0.0] * 5]), "share")
    expected = stats.binomtest(15, 20).proportion_ci(method="wilson")
    assert found.value == 0.75
    assert found.interval() == pytest.approx(tuple(expected), abs=0.02)


def test_strata_have_the_degrees_of_freedom_of_satterthwaite():
    """Two strata of a measure: Welch's t-test."""
    a, b = np.array([1.0, 2.0, 4.0, 3.0]), np.array([10.0, 30.0])
    each, stratum, fold = np.concatenate([a, -b])[None], np.repeat([0, 1], [4, 2]), np.zeros(6, int)
    found = estimate(Differences(np.array([a.mean() - b.mean()]), each, stratum, fold), "measure")
    welch = stats.ttest_ind(a, b, equal_var=False)
    assert found.interval() == pytest.approx(tuple(welch.confidence_interval()))
    assert found.p_value == pytest.approx(welch.pvalue, rel=1e-5)


def test_seeds_that_shift_everything_have_students_interval():
    """Every sample has the same value in a run, so only the three runs vary."""
    shifts = np.array([0.1, 0.3, 0.2])
    found = estimate(differences(np.repeat(shifts[:, None], 1000, axis=1)), "measure")
    assert found.interval() == pytest.approx(stats.t.interval(0.95, 2, loc=0.2, scale=stats.sem(shifts)))


@pytest.mark.parametrize("seeds", [1, 3])
def test_folds_that_shift_everything_have_students_interval(seeds):
    shifts = np.array([0.1, 0.3, 0.2, 0.6])
    each = np.tile(shifts, (seeds, 50)) + 1e-9 * np.arange(seeds)[:, None]
    found = estimate(differences(each, folds=4), "measure")
    assert found.interval() == pytest.approx(stats.t.interval(0.95, 3, loc=0.3, scale=stats.sem(shifts)))


def test_folds_alike_have_the_variance_over_samples_widened():
    values = np.tile([1.0, 3.0], 10)
    found = estimate(differences(np.repeat(values, 5)[None], folds=5), "measure")
    alone = estimate(differences(np.repeat(values, 5)[None]), "measure")
    assert width(found) == pytest.approx(REUSED["measure"] ** 0.5 * width(alone))


def test_the_value_of_each_run_may_be_given():
    """As for an AUC, whose value in a fold is not the mean of what samples contribute."""
    site = differences(np.tile([0.1, 0.3, 0.2, 0.6], (2, 50)), folds=4)
    same = site._replace(runs=np.tile([0.1, 0.3, 0.2, 0.6], (2, 1)))
    assert estimate(same, "measure").interval() == pytest.approx(estimate(site, "measure").interval())
    wider = site._replace(runs=np.tile([0.1, np.nan, 0.2, 3.6], (2, 1)))
    assert width(estimate(wider, "measure")) > 3 * width(estimate(site, "measure"))


def test_few_samples_that_agree_are_no_certainty():
    low, high = estimate(differences(np.zeros((2, 5))), "difference").interval()
    assert low == -high < -0.3
    assert estimate(differences(np.ones((1, 3))), "difference").p_value > 0.05
    low, high = estimate(differences(np.ones((1, 8))), "share").interval()
    assert 0.5 < low < 0.7
    assert high == pytest.approx(1)


@pytest.mark.parametrize(("value", "span"), [(1.0, 4.0), (0.0, 4.0), (0.7, 1.3)])
def test_a_share_of_pairs_stays_a_share(value, span):
    """A sample that has more pairs than others moves a C-index by more, so its range is wider than that of a share."""
    site = differences(np.full((2, 11), value), span=span)
    low, high = estimate(site, "share").interval()
    assert 0 <= low <= value <= high <= 1
    assert 0.1 < high - low < 0.8


def test_a_stratum_with_one_sample_widens_but_does_not_hide():
    each, stratum = np.array([[0.5, 0, 0, 0, 0, -0.5, 0, 0, 0]]), np.array([1, 0, 0, 0, 0, 0, 0, 0, 0])
    one = Differences(np.array([0.4]), each, stratum, np.zeros(9, int), 0.5)
    assert estimate(one, "difference").interval() == (-1, 1)
    assert 0.1 < estimate(one, "difference").p_value < 1


def test_a_p_value_below_five_percent_is_an_interval_without_zero():
    rng = np.random.default_rng(0)
    drawn = [rng.integers(-1, 2, (3, 40)) + rng.normal(0, 0.4, (3, 1)) for _ in range(200)]
    found = [estimate(differences(each), "difference") for each in drawn]
    excluded = [low > 0 or high < 0 for low, high in (e.interval() for e in found)]
    assert [e.p_value < 0.05 for e in found] == excluded
    assert 0 < sum(excluded) < 100


def test_models_that_are_the_same_differ_by_nothing():
    found = estimate(differences(np.zeros((3, 30))), "measure")
    assert found.interval() == (0, 0)
    assert found.p_value == 1


def test_the_mean_over_sites_averages_samples_but_not_shifts_that_they_share():
    rng = np.random.default_rng(0)
    own = rng.normal(size=(16, 5, 60))
    shared = own + 10 * rng.normal(size=(5, 1))
    ratios = []
    for drawn in (own, shared):
        sites = [differences(each) for each in drawn]
        single = np.mean([width(estimate(site, "measure")) for site in sites])
        ratios.append(width(overall(sites, "measure")) / single)
    assert ratios[0] < 0.4
    assert ratios[1] > 0.95


def test_one_run_says_that_runs_are_not_known():
    rng = np.random.default_rng(0)
    sites = [differences(rng.normal(gain, 0.1, (1, 100))) for gain in (0.0, 1.0, 2.0)]
    assert not estimate(sites[0], "measure").runs_known
    assert estimate(differences(rng.normal(size=(1, 100)), folds=2), "measure").runs_known
    mean = overall(sites, "measure")
    assert not mean.runs_known
    assert width(mean) == pytest.approx(2 * stats.t.ppf(0.975, 2) / 3**0.5, rel=0.05)  # sites are as the only runs


def test_folds_that_a_site_lacks_are_no_runs():
    """Three samples, in the first, the second and the last of five folds."""
    site = Differences(np.array([0.2]), np.array([[0.1, 0.3, 0.2]]), np.zeros(3, int), np.array([0, 1, 4]))
    assert estimate(site, "measure").runs == pytest.approx((0.01 / 3, 2))
    nowhere = site._replace(runs=np.full((1, 5), np.nan))
    assert not estimate(nowhere, "measure").runs_known
    assert estimate(site._replace(runs=np.array([[0.1, np.nan, np.nan, 0.3, 0.2]])), "measure").runs.freedom == 2
