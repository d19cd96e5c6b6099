"""The Cox model of one site, against published coefficients and its own optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from survivors import PLACEBO, REMISSION, TRUE, subjects

from manyheads.baselines.cox import fit_cox
from manyheads.core.cox import cox_losses


def loss(b: np.ndarray, x: np.ndarray, y: np.ndarray, penalty: float) -> float:
    risk, (time, event) = torch.from_numpy(x @ b), torch.from_numpy(y.T)
    return float(cox_losses(risk, time, event).sum()) + penalty / 2 * b @ b


def test_a_published_coefficient():
    """Placebo against 6-mercaptopurine: 1.572 with Efron's ties, as R's survival and SAS report."""
    x, y = np.repeat([0.0, 1.0], 21)[:, None], np.concatenate([REMISSION, PLACEBO])
    assert fit_cox(x, y)[0] == pytest.approx(1.57213, abs=1e-5)


@pytest.mark.parametrize("penalty", [0.0, 3.0, 1000.0])
def test_a_numerical_optimum_with_ties(penalty):
    x, y = subjects(np.random.default_rng(0), 60)
    y = np.ceil(4 * y)
    y[:, 1] = y[:, 1] > 0
    best = minimize(loss, np.zeros(3), (x, y, penalty), method="BFGS", tol=1e-9).x
    assert fit_cox(x, y, penalty) == pytest.approx(best, abs=1e-5)


def test_hazard_ratios_are_found():
    """Within four standard errors, of about 1 / sqrt(events)."""
    x, y = subjects(np.random.default_rng(1), 20_000)
    assert fit_cox(x, y) == pytest.approx(TRUE, abs=4 / y[:, 1].sum() ** 0.5)


def test_what_has_no_single_optimum():
    rng = np.random.default_rng(2)
    x, y = subjects(rng, 40)
    constant = np.concatenate([x, np.ones((40, 1))], axis=1)
    assert fit_cox(constant, y) == pytest.approx([*fit_cox(x, y), 0])
    assert fit_cox(x, y * [1, 0]).tolist() == [0, 0, 0]  # no events
    assert fit_cox(x[:1], y[:1]).tolist() == [0, 0, 0]
    separated = np.argsort(np.argsort(-y[:, :1], axis=0), axis=0).astype(float)  # the first to go has the highest value
    alone = fit_cox(separated, y)
    assert np.isfinite(alone).all()
    assert alone[0] > 3
    assert 0 < fit_cox(separated, y, 1.0)[0] < alone[0]
