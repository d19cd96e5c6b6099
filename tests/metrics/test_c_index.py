"""The C-index, pair by pair."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from survivors import TRUE, subjects

from manyheads.metrics import CIndex, Predictions, c_index
from manyheads.metrics.c_index import comparable_pairs
from manyheads.metrics.contributions import jackknife


def by_pairs(risk, time, event):
    """In the right order, and all that can be compared; i has the event first."""
    right = pairs = 0.0
    for i, j in permutations(range(len(risk)), 2):
        if event[i] and (time[i] < time[j] or (time[i] == time[j] and not event[j])):
            pairs += 1
            right += 1.0 if risk[i] > risk[j] else 0.5 if risk[i] == risk[j] else 0.0
    return right, pairs


def predictions(risk, time, event):
    labels = np.stack([time, event], axis=1).astype(float)
    return Predictions(np.array(risk, float)[:, None], labels, np.zeros(len(risk)), np.array([len(risk)]))


@pytest.mark.parametrize("block", [1, 7, 2**22])
def test_with_ties_of_all_kinds(block, monkeypatch):
    monkeypatch.setattr(c_index, "BLOCK", block)
    rng = np.random.default_rng(0)
    for _ in range(20):
        risk, time, event = rng.integers(0, 4, 20), rng.integers(1, 6, 20), rng.integers(0, 2, 20)
        right, pairs = by_pairs(risk, time, event)
        assert CIndex().of_client(predictions(risk, time, event)) == pytest.approx(right / pairs)


def test_what_is_known():
    time, event = np.arange(1, 6), np.array([1, 0, 1, 1, 0])
    perfect = predictions(-time, time, event)
    assert CIndex().of_client(perfect) == 1
    assert CIndex().of_client(predictions(time, time, event)) == 0
    assert CIndex().of_client(predictions(np.zeros(5), time, event)) == 0.5


def test_where_nothing_can_be_compared():
    assert CIndex().of_client(predictions([1, 2], [3, 4], [0, 0])) is None
    assert CIndex().of_client(predictions([1, 2], [4, 4], [1, 1])) is None
    assert CIndex().of_client(predictions([1], [4], [1])) is None


def variance(found):
    return found.each.var(ddof=1) / len(found.each)


def test_contributions_are_what_the_jackknife_tends_to():
    rng = np.random.default_rng(2)
    own = predictions(rng.normal(size=150), rng.integers(1, 40, 150), rng.integers(0, 2, 150))
    exact = CIndex().contributions(own, np.zeros(150))
    left_out = jackknife(CIndex().of_client, own, np.zeros(150))
    assert exact.value == CIndex().of_client(own) == pytest.approx(exact.each.mean())
    assert variance(exact) == pytest.approx(variance(left_out), rel=0.05)
    assert np.ptp(exact.each) <= exact.span
    assert not exact.stratum.any()


@pytest.mark.parametrize("folds", [1, 5])
def test_the_variance_is_that_over_many_clients(folds):
    rng, found = np.random.default_rng(3), []
    for _ in range(400):
        x, y = subjects(rng, 150)
        own = predictions(x @ TRUE + rng.normal(size=150), *y.T)
        found.append(CIndex().contributions(own, np.arange(150) % folds))
    values = np.array([f.value for f in found])
    assert np.mean([variance(f) for f in found]) == pytest.approx(values.var(ddof=1), rel=4 * (2 / 400) ** 0.5)


def test_pairs_within_folds():
    rng = np.random.default_rng(1)
    risk, time, event, fold = rng.normal(size=30), rng.integers(1, 9, 30), rng.integers(0, 2, 30), np.arange(30) % 3
    pairs, in_order = comparable_pairs(risk, time, event, fold)
    for k in range(3):
        right, all_ = by_pairs(risk[fold == k], time[fold == k], event[fold == k])
        assert (in_order[fold == k].sum() / 2, pairs[fold == k].sum() / 2) == (right, all_)
