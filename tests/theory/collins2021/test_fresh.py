"""Algorithm 2 with fresh batches."""

from __future__ import annotations

from itertools import islice

import numpy as np

from manyheads import FedRepLinear
from manyheads.data import Truth
from manyheads.metrics import principal_angle_distance
from manyheads.theory.collins2021.fresh import fresh_rounds


def test_fresh_rounds_are_algorithm_2_step_by_step():
    """Against the paper's lines, written out for one client after another, on the samples that were drawn."""
    from manyheads.core.randomness import Purpose, generator

    rng, seed, m, eta = np.random.default_rng(0), 3, 6, 0.2
    truth = Truth(np.linalg.qr(rng.normal(size=(5, 2)))[0], rng.normal(size=(4, 2)))
    found = list(islice(fresh_rounds(FedRepLinear(eta=eta), truth, cohort=4, samples=m, noise=0, seed=seed), 4))
    body = None
    for index, expected in enumerate(found, start=1):
        x = generator(seed, Purpose.BATCHES, index).standard_normal((4, m, 5))
        y = [x[i] @ truth.body @ truth.heads[i] for i in range(4)]
        if index == 1:
            z = sum((x[i] * y[i][:, None] ** 2).T @ x[i] / m for i in range(4)) / 4
            body = np.linalg.eigh(z)[1][:, -2:]
            assert principal_angle_distance(body, expected) < 1e-12
            body = expected
        else:
            new = []
            for i in range(4):
                w = np.linalg.lstsq(x[i] @ body, y[i], rcond=None)[0]
                new.append(body - eta * x[i].T @ np.outer(x[i] @ body @ w - y[i], w) / m)
            body = np.mean(new, axis=0)
            np.testing.assert_allclose(expected, body, atol=1e-12)
