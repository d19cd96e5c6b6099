"""The dissimilarity of clients' gradients, bounded by the distance of their data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from landscapes import lands, random_points

from manyheads import Federation
from manyheads.data import Samples
from manyheads.models import MLP, build_model
from manyheads.theory.fallah2020.similarity import similarity
from manyheads.theory.fallah2020.smoothness import view_at
from manyheads.theory.landscape import Landscape, points_of


@pytest.mark.parametrize("hidden", [(), (3,)])
def test_distances_of_data_bound_distances_of_gradients(hidden):
    federation, clients, points, _ = lands(hidden=hidden)
    views = [view_at(clients, points, w, 0.1) for w in random_points(clients, 3)]
    found = similarity(federation, views)
    assert [row["name"] for row in found["similarity"]] == [
        "Equation (19a)", "Equation (22a)", "Equation (19b)", "Equation (22b)"
    ]  # fmt: skip
    assert all(0 < row["ratio"] <= 1 for row in found["similarity"])
    assert found["distances"]["wasserstein1_exact"]


def test_wasserstein_bound_is_tight_for_two_clients_with_one_point_each():
    """W_1(p_i, p) = d(z_1, z_2)/2 and gamma = ||g_1 - g_2||/2: equality in (22)."""
    both = Samples.of([(np.array([[1.0, 0.0]]), np.array([0])), (np.array([[0.0, 0.5]]), np.array([1]))])
    federation = Federation("two", both, both, "classification", 2)
    model = build_model(MLP(hidden=()), (2,), 2, 0, "float64")
    clients, points = Landscape(model, federation), Landscape(model, points_of(federation)[0])
    found = similarity(federation, [view_at(clients, points, clients.flat(model.params.all), 0.1)])
    ratios = {row["name"]: row["ratio"] for row in found["similarity"]}
    assert ratios["Equation (22a)"] == pytest.approx(1)
    assert ratios["Equation (22b)"] == pytest.approx(1)
    assert found["distances"]["total_variation"] == [0.5, 0.5]
    assert found["distances"]["wasserstein1"] == pytest.approx([math.sqrt(1.25 + 2) / 2] * 2)
