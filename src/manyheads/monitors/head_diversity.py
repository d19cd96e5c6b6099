"""How differently the clients' heads use the representation."""

from __future__ import annotations

from manyheads.core.round_end import RoundEnd
from manyheads.monitors.monitor import MONITORS, Monitor, leaves

__all__ = ["HeadDiversity"]


@MONITORS.register
class HeadDiversity(Monitor):
    """How evenly the clients' heads spread over the directions of the representation.

    Of the weights' deviations from their mean over clients, with covariance S of k dimensions:
    ``(tr S)^2 / (k tr S^2)``, 1 if all directions are used alike, 1/k if one is.
    """

    name = "head_diversity"
    title = "diversity of the heads"
    meaning = "how evenly the heads use the representation: 1 if all directions alike"
    bounds = (0.0, None)

    def __call__(self, end: RoundEnd) -> float | None:
        names = self.model.params.head
        found = leaves(end.kept, names) or leaves(end.rows, names)
        weights = [w.double() for w in found.values() if w.ndim == 3 and len(w) > 1]  # [C, outputs, k]
        if not weights:
            return None
        rows = (weights[-1] - weights[-1].mean(dim=0)).flatten(0, 1)
        S = rows.T @ rows
        square = float((S * S).sum())
        return float(S.trace()) ** 2 / (len(S) * square) if square else None
