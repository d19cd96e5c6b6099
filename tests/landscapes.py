"""Small problems whose losses, gradients and Hessians are known: quadratics, and the setting of Fallah et al. 2020."""

from __future__ import annotations

import numpy as np
import torch
from quadratic import Quadratic
from quadratic import model as quadratic_model
from quadratic import problem as quadratic_problem

from manyheads.models import MLP, build_model
from manyheads.theory.fallah2020 import Fallah2020
from manyheads.theory.landscape import Landscape, points_of

__all__ = ["SMALL", "lands", "quadratics", "random_points"]

SMALL = Fallah2020(clients=4, samples=12, points=16, dim=3, rounds=12, tau=3, batch=4, draws=40, views=3)


def quadratics():
    federation = quadratic_problem()
    return federation, Landscape(quadratic_model(), federation), Quadratic(federation)


def lands(setting=SMALL, hidden=(), activation="tanh"):
    """The clients and the single samples of a small problem."""
    federation = setting.federation()
    spec = MLP(hidden=hidden, activation=activation)
    model = build_model(spec, federation.sample_shape, federation.outputs, 0, "float64")
    alone, shares = points_of(federation)
    return federation, Landscape(model, federation), Landscape(model, alone), shares


def random_points(land, count=6):
    rng = np.random.default_rng(5)
    d = land.flat(land.model.params.all).numel()
    return [torch.from_numpy(scale * rng.normal(size=d)) for scale in np.geomspace(0.1, 20, count)]
