"""How far the clients' uploads lie apart."""

from __future__ import annotations

from manyheads.core.round_end import RoundEnd
from manyheads.monitors.monitor import MONITORS, Monitor

__all__ = ["Drift"]


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
