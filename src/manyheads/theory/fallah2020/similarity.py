"""Fallah et al. 2020, Section 4.2: the dissimilarity of clients' gradients, bounded by the distance of their data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyheads.data import Federation
from manyheads.metrics import total_variation, wasserstein1
from manyheads.theory.fallah2020.smoothness import View, spectral
from manyheads.theory.landscape import points_of

__all__ = ["against", "similarity"]

EXACT_UP_TO = 1000
"""samples of all clients together up to which optimal transport is solved"""


def against(name: str, what: str, measured: float, bound: float) -> dict[str, Any]:
    """One measured number beside its bound."""
    ratio = measured / bound if bound else None
    return {
        "name": name,
        "what": what,
        "measured": measured,
        "bound": bound,
        "ratio": ratio,
        "below": measured <= bound,
    }


def similarity(federation: Federation, views: list[View], transport: bool = True) -> dict[str, Any]:
    """gamma_G and gamma_H against (19), from total variation, and (22), from 1-Wasserstein, at the points of a run.

    The distance of two samples is the Euclidean one of (x, one-hot y). The constants of (18) and (21) are taken at each
    w, the largest over the finite set of samples: the proofs use no more. The rows are those of the w with the largest
    ratio. Beyond 1000 samples the Wasserstein distance is sliced, hence too small for a bound, and (22) is left out; so it is without ``transport``.
    """
    alone, shares = points_of(federation)
    pooled = _embedded(federation.train.x, federation.train.y, federation.outputs)
    own = [_embedded(*federation.train.client(i), federation.outputs) for i in range(len(federation))]
    exact = transport and len(pooled) <= EXACT_UP_TO
    tv = [total_variation(share, shares.mean(axis=0)) for share in shares]
    w1 = [wasserstein1(z, pooled, method="exact" if exact else "sliced") for z in own]
    place = torch.from_numpy(_embedded(alone.train.x, alone.train.y, federation.outputs))
    far = torch.cdist(place, place)
    at_each = [list(_rows(view, far, _root_mean_square(tv), _root_mean_square(w1))) for view in views]
    rows = [max(same, key=lambda row: row["ratio"] or 0.0) for same in zip(*at_each, strict=True)]
    return {
        "distances": {"total_variation": tv, "wasserstein1": w1, "wasserstein1_exact": exact},
        "similarity": [row for row in rows if exact or "(22" not in row["name"]],
    }


def _rows(view: View, far: Tensor, tv: float, w1: float) -> Iterator[dict[str, Any]]:
    between_G = (view.gradients - view.gradients.mean(dim=0)).norm(dim=1)
    between_H = spectral(view.hessians - view.hessians.mean(dim=0))
    G, H = view.point_gradients, view.point_hessians
    for letter, part, between, size, apart in (
        ("G", "a", between_G, G.norm(dim=1), torch.cdist(G, G)),
        ("H", "b", between_H, spectral(H), torch.stack([spectral(H - one) for one in H])),
    ):
        gamma = float(between.square().mean().sqrt())
        steepest = float((apart / far.masked_fill(far == 0, torch.inf)).max())
        yield against(f"Equation (19{part})", f"gamma_{letter} from total variation", gamma, 2 * float(size.max()) * tv)
        yield against(f"Equation (22{part})", f"gamma_{letter} from 1-Wasserstein", gamma, steepest * w1)


def _embedded(x: np.ndarray, y: np.ndarray, classes: int) -> np.ndarray:
    return np.concatenate([x.reshape(len(x), -1), np.eye(classes)[y]], axis=1)


def _root_mean_square(values: list[float]) -> float:
    return math.sqrt(np.mean(np.square(values)))
