"""Singular values over subsets of clients."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from manyheads.theory.collins2021.subsets import extreme_singular_values


def by_hand(heads, size):
    values = [np.linalg.svd(heads[list(rows)] / np.sqrt(size))[1] for rows in combinations(range(len(heads)), size)]
    return min(v[-1] for v in values), max(v[0] for v in values)


@pytest.mark.parametrize(("n", "size", "k"), [(8, 3, 2), (8, 8, 3), (10, 5, 3)])
def test_few_subsets_are_exact(n, size, k):
    heads = np.random.default_rng(n).normal(size=(n, k))
    found = extreme_singular_values(heads, size, np.random.default_rng(0))
    low, high = by_hand(heads, size)
    assert found.exact
    assert found.smallest == pytest.approx((low, low))
    assert found.largest == pytest.approx((high, high))


@pytest.mark.parametrize(("n", "size", "k"), [(12, 9, 2), (12, 6, 3), (12, 2, 2)])
def test_bounds_enclose_the_exact_values(n, size, k, monkeypatch):
    monkeypatch.setattr("manyheads.theory.collins2021.subsets.MOST_SUBSETS", 0)
    heads = np.random.default_rng(n).normal(size=(n, k))
    found = extreme_singular_values(heads, size, np.random.default_rng(0))
    low, high = by_hand(heads, size)
    assert found.smallest[0] - 1e-12 <= low <= found.smallest[1] + 1e-12
    assert found.largest[0] - 1e-12 <= high <= found.largest[1] + 1e-12
    # the search finds the extreme subset in problems of this size
    assert found.smallest[1] == pytest.approx(low, abs=1e-7)
    assert found.largest[0] == pytest.approx(high)


def test_fewer_clients_than_features_do_not_span():
    assert extreme_singular_values(np.eye(3), 2, np.random.default_rng(0)).smallest == (0, 0)
