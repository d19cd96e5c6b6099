"""A cohort of a smooth model, on which derivatives are checked numerically."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from manyheads import Federation, Model, Tree
from manyheads.core.contract import Round
from manyheads.data import Samples
from manyheads.engines.client_data import ClientData
from manyheads.engines.cohort import LocalCohort


def smooth_cohort(clients=(0, 1, 2)) -> tuple[LocalCohort, Tree]:
    """A smooth net in float64 on a few clients, and its parameters for each."""
    rng = np.random.default_rng(0)
    data = [(rng.normal(size=(n, 4)), rng.integers(0, 3, n)) for n in (9, 14, 7)]
    federation = Federation("smooth", Samples.of(data), Samples.of(data), "classification", 3)
    torch.manual_seed(0)
    net = Model(torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).double())
    tensors = ClientData.of(federation.train, "classification", net.params.all["0.weight"])
    tried = net.tried(tensors.x[:2], "classification", 3)
    cohort = LocalCohort(tried, tensors, clients, Round(1, 0, 3, 3), "stacked")
    return cohort, cohort.each(net.params.all)


def losses_at(cohort: LocalCohort, w: Tree) -> torch.Tensor:
    """f_i(w) of each client on all its samples, by plain evaluation."""
    full = cohort.draw(0)
    out = cohort.model.net.stacked(dict(w), full.x)
    each = torch.nn.functional.cross_entropy(out.flatten(0, 1), full.y.flatten(), reduction="none").view(full.y.shape)
    return (each * full.weight).sum(dim=1).detach()


def assert_gradient(direction: Tree, losses: Callable[[Tree], torch.Tensor], w: Tree, h: float = 1e-5) -> None:
    """Compare some entries of every leaf with central differences of each client's loss."""
    rng = np.random.default_rng(1)
    for name, leaf in w.items():
        for _ in range(4):
            place = tuple(int(rng.integers(s)) for s in leaf.shape[1:])
            nudge = torch.zeros_like(leaf)
            nudge[(slice(None), *place)] = h
            numerical = (losses(w | {name: leaf + nudge}) - losses(w | {name: leaf - nudge})) / (2 * h)
            torch.testing.assert_close(direction[name][(slice(None), *place)], numerical, atol=1e-7, rtol=1e-4)
