"""Losses, gradients and Hessians of clients: exact on quadratics."""

from __future__ import annotations

import numpy as np
import torch
from landscapes import SMALL, quadratics
from quadratic import DIM

from manyheads import Evaluate, Federation, PerFedAvg, State, simulate
from manyheads.data import Samples
from manyheads.models import MLP, build_model
from manyheads.theory.landscape import points_of


def test_landscape_of_quadratics_is_the_closed_form():
    federation, land, answer = quadratics()
    w = torch.tensor([0.3, -2.0, 1.1], dtype=torch.float64)
    np.testing.assert_allclose(land.hessians(w), answer.A, atol=1e-12)
    np.testing.assert_allclose(land.gradients(w), answer.A @ w.numpy() - answer.b, atol=1e-12)
    losses = [0.5 * np.mean((x @ w.numpy() - y) ** 2) for x, y in map(federation.train.client, range(len(federation)))]
    np.testing.assert_allclose(land.losses(w), losses, rtol=1e-12)


def test_landscape_takes_a_point_for_each_client():
    _, land, answer = quadratics()
    each = torch.arange(len(land) * DIM, dtype=torch.float64).reshape(len(land), DIM)
    expected = np.einsum("cij,cj->ci", answer.A, each.numpy()) - answer.b
    np.testing.assert_allclose(land.gradients(each), expected, atol=1e-12)


def test_points_are_the_distinct_samples_and_how_often_each_client_has_them():
    x, y = np.array([[0.0], [1.0], [0.0], [0.0]]), np.array([0, 1, 0, 1])
    both = Samples.of([(x[:3], y[:3]), (x[3:], y[3:])])
    alone, shares = points_of(Federation("f", both, both, "classification", 2))
    assert alone.train.x[:, 0].tolist() == [0, 0, 1]
    assert alone.train.y.tolist() == [0, 1, 1]
    np.testing.assert_allclose(shares, [[2 / 3, 0, 1 / 3], [0, 1, 0]])


def test_watching_a_run_does_not_change_it():
    federation, seen = SMALL.federation(), []
    model = build_model(MLP(hidden=()), federation.sample_shape, federation.outputs, 0, "float64")
    runs = [
        simulate(PerFedAvg(steps=2, batch=3), model, federation, rounds=3, evaluate=Evaluate(every=3), on_round=watch)
        for watch in (None, lambda end: seen.append(end.server))
    ]
    assert runs[0].checksum == runs[1].checksum
    assert len(seen) == 3
    assert isinstance(seen[-1], State)
    torch.testing.assert_close(dict(seen[-1].model), dict(runs[0].server.model), rtol=0, atol=0)
