"""How far the clients' uploads lie apart."""

from __future__ import annotations

import torch
from torch import Tensor

from manyheads.core.round_end import RoundEnd
from manyheads.monitors.monitor import MONITORS, Monitor

__all__ = ["Drift", "LocalDrift", "LocalDriftSquare"]


@MONITORS.register
class Drift(Monitor):
    """Root mean square distance of the round's uploads from their mean, relative to the server's state."""

    name = "drift"
    title = "drift"
    meaning = "how far the sites' uploads are from their mean, relative to the model"
    bounds = (0.0, None)

    def __call__(self, end: RoundEnd) -> float | None:
        server = end.server.flat
        found = {k: v.double() for k, v in end.rows.flat.items() if k in server and v.is_floating_point()}
        if not found or len(next(iter(found.values()))) < 2:
            return None
        spread = sum(float((v - v.mean(dim=0)).square().sum()) / len(v) for v in found.values())
        size = sum(float(server[k].double().square().sum()) for k in found)
        return (spread / size) ** 0.5 if size else None


def _distances(end: RoundEnd) -> Tensor | None:
    """How far each uploaded model is from their mean; None without two whole models."""
    parts = [v.double().flatten(1) for k, v in end.rows.flat.items() if k.startswith("model/")]
    if not parts or len(parts[0]) < 2:
        return None
    flat = torch.cat(parts, dim=1)
    return (flat - flat.mean(dim=0)).norm(dim=1)


@MONITORS.register
class LocalDrift(Monitor):
    """``1/n sum_i |w_i - w|`` of the clients' models after their local steps: what (59a) of Fallah et al. 2020 bounds."""

    name = "local_drift"
    title = "distance of local models"
    meaning = "mean distance of the sites' models after their local steps from the mean of these models"
    bounds = (0.0, None)

    def __call__(self, end: RoundEnd) -> float | None:
        far = _distances(end)
        return None if far is None else float(far.mean())


@MONITORS.register
class LocalDriftSquare(Monitor):
    """``1/n sum_i |w_i - w|^2`` of the same models: what (59b) of Fallah et al. 2020 bounds."""

    name = "local_drift_square"
    title = "squared distance of local models"
    meaning = "mean squared distance of the sites' models after their local steps from the mean of these models"
    bounds = (0.0, None)

    def __call__(self, end: RoundEnd) -> float | None:
        far = _distances(end)
        return None if far is None else float(far.square().mean())
