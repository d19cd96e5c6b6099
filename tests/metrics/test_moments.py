"""What sites tell of their samples is enough: the estimate is that of the samples themselves, of any number of sites."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads import UserError
from manyheads.core.records import from_table, to_table
from manyheads.metrics.paired import REUSED, Differences, Moments, overall

KINDS = st.sampled_from(["share", "difference", "measure"])


@st.composite
def federations(draw):
    """Sites with some of the strata and folds each, as many seeds all; alike, rounded or with runs of their own."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    seeds, folds, strata = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    given_runs, alike = draw(st.booleans()), draw(st.sampled_from([0, 1, 2]))
    sites = []
    for samples in draw(st.lists(st.integers(1, 30), min_size=1, max_size=5)):
        each = np.round(rng.normal(0.3, 1, (seeds, samples)), alike)
        fold = rng.integers(0, folds, samples)
        runs = None
        if given_runs:
            runs = rng.normal(size=(seeds, fold.max() + 1))
            runs[rng.random(runs.shape) < 0.2] = np.nan
        sites.append(
            Differences(rng.normal(size=seeds), each, 2 * rng.integers(0, strata, samples), fold, 1.5, runs)
        )  # fmt: skip
    return sites


def plainly(sites, kind):
    """Value, variances over samples with their degrees of freedom, and that between runs, sample by sample."""
    count, seeds, parts, residual, shift = len(sites), len(sites[0].values), [], 0.0, 0.0
    for site in sites:
        each = site.each.mean(axis=0)
        changed = each[each != 0]
        size = np.sqrt((changed**2).mean()) if len(changed) else site.span
        for stratum in set(site.stratum.tolist()):
            own = site.stratum == stratum
            x, w = each[own], np.ones(own.sum())
            if kind == "share":
                low = x.mean() * (1 - max(site.span, 1))
                x, w = np.append(x, [low, low + site.span]), np.append(w, [0.1 / count] * 2)
            elif kind == "difference":
                x, w = np.append(x, [size, -size]), np.append(w, [0.5 / count] * 2)
            n, mean = w.sum(), np.average(x, weights=w)
            variance = np.average((x - mean) ** 2, weights=w) / (n - 1) if n > 1 else np.inf
            parts.append((variance, max(n - 1, 1)))
            shift += mean - each[own].mean()
            if seeds > 1:
                rest = site.each[:, own] - each[own]
                rest = rest - rest.mean(axis=1, keepdims=True)
                residual += (rest**2).sum() / (max(own.sum() - 1, 1) * own.sum()) / ((seeds - 1) * seeds)
    variances, freedom = np.array(parts).T
    value = np.mean([site.values.mean() for site in sites])
    with np.errstate(invalid="ignore"):
        samples = variances.sum() / count**2, variances.sum() ** 2 / (variances**2 / freedom).sum()
    return value, samples, residual / count**2, shift / count, runs_of(sites)


def runs_of(sites):
    """The deviations of the runs, mean over sites, [seeds, folds]."""
    folds, found = 1 + max(int(site.fold.max()) for site in sites), []
    for site in sites:
        own = np.full((len(site.values), folds), np.nan)
        if folds == 1:
            own[:, 0] = site.values - site.values.mean()
        elif site.runs is not None:
            own[:, : site.runs.shape[1]] = site.runs
            own -= np.nanmean(own) if not np.isnan(own).all() else 0.0
        else:
            for fold in set(site.fold.tolist()):
                inside = site.fold == fold
                own[:, fold] = 0
                for stratum in set(site.stratum[inside].tolist()):
                    of = site.stratum == stratum
                    own[:, fold] += site.each[:, of & inside].mean(axis=1) - site.each[:, of].mean()
        found.append(own)
    runs = np.stack(found)
    return np.nan_to_num(runs[:, :, ~np.isnan(runs).all(axis=(0, 1))]).mean(axis=0)


@given(federations(), KINDS)
@settings(max_examples=300, deadline=None)
def test_the_estimate_is_that_of_the_samples(sites, kind):
    value, (variance, freedom), residual, shift, runs = plainly(sites, kind)
    found = overall([Moments.of(site) for site in sites], kind)
    (seeds, folds), dealt = runs.shape, 1 + max(int(site.fold.max()) for site in sites)
    close = {"rel": 1e-9, "abs": 1e-12}
    assert found.value == pytest.approx(value, **close)
    assert (found.seeds, found.folds) == (seeds, folds)
    if kind == "share":
        assert found.near == pytest.approx(value + shift, **close)
    if np.isfinite(variance):
        widened = variance * (REUSED[kind] if dealt > 1 else 1)
        assert found.common.variance + found.noise.variance == pytest.approx(widened, **close)
        if variance > 1e-9:
            assert found.common.freedom == pytest.approx(freedom, rel=1e-6)
        if folds == 1 and seeds > 1 and variance > 1e-9:
            assert found.noise.variance == pytest.approx(min(residual / variance, 1) * widened, **close)
    if folds > 1:
        assert found.runs.variance == pytest.approx(runs.mean(axis=0).var(ddof=1) / folds, **close)
    elif folds and seeds > 1:
        assert found.runs.variance == pytest.approx(runs.var(axis=0, ddof=1).mean() / runs.size, **close)


@given(federations(), KINDS)
@settings(max_examples=100, deadline=None)
def test_moments_survive_json(sites, kind):
    told = [Moments.of(site) for site in sites]
    again = [travelled(each) for each in told]
    assert repr(again) == repr(told)  # NaN is not equal to itself
    assert repr(overall(again, kind)) == repr(overall(told, kind))


def travelled(told):
    return from_table(Moments, json.loads(json.dumps(to_table(told), allow_nan=False)), "site")


def test_what_is_not_finite_survives_json():
    each, zeros = np.array([[np.inf, 1.0]]), np.zeros(2, int)
    with np.errstate(invalid="ignore"):
        told = Moments.of(Differences(np.array([-np.inf]), each, zeros, np.array([0, 2])))
    again = travelled(told)
    assert (again.values, again.sums) == ((-np.inf,), (np.inf,))
    assert np.isnan([again.span, again.runs[0][1]]).all()


def test_as_many_numbers_are_told_of_many_samples_as_of_few():
    def told(samples):
        each, index = np.arange(2.0 * samples).reshape(2, samples), np.arange(samples)
        return json.dumps(to_table(Moments.of(Differences(each[:, 0], each, index % 2, index % 3)))).count(",")

    assert told(6) == told(6000)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sums": [0.5, 0.5]}, "every stratum has a count"),
        ({"counts": [], "sums": [], "squares": []}, "every stratum has a count"),
        ({"counts": [0]}, "at least 1"),
        ({"runs": [[0.0]]}, "every seed has a value"),
        ({"runs": [[0.0], [0.0, 1.0]]}, "one for each of the same folds"),
        ({"counts": ["many"]}, "counts.0"),
    ],
)
def test_what_does_not_fit_together_is_refused(change, said):
    each, zeros = np.ones((2, 3)), np.zeros(3, int)
    table = to_table(Moments.of(Differences(each[:, 0], each, zeros, zeros)))
    with pytest.raises(UserError, match=f"north does not hold what it should.*{said}"):
        from_table(Moments, table | change, "north")
