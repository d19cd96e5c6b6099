"""How far the shared representation is from the true one, where that is known."""

from __future__ import annotations

from manyheads.core.contract import Algorithm
from manyheads.core.errors import UserError
from manyheads.core.round_end import RoundEnd
from manyheads.data import Federation
from manyheads.metrics.representation import principal_angle_distance
from manyheads.models import TriedModel
from manyheads.monitors.monitor import MONITORS, Monitor

__all__ = ["PrincipalAngle"]


@MONITORS.register
class PrincipalAngle(Monitor):
    """The sine of the largest angle between the two. Reference: Collins et al. 2021, Definition 1."""

    name = "principal_angle"
    title = "distance from the truth"
    meaning = "the sine of the largest angle to the true representation"
    higher_is_better = False
    bounds = (0.0, None)

    def __init__(self, algorithm: Algorithm, model: TriedModel, federation: Federation, seed: int) -> None:
        super().__init__(algorithm, model, federation, seed)
        if federation.truth is None or len(model.params.body) != 1:
            raise UserError(
                "the true representation is not known",
                where="monitor",
                given=self.name,
                fix="it is for --data linear-tasks with --model linear; use cka for others",
            )

    def __call__(self, end: RoundEnd) -> float | None:
        body = self.body(end.server)
        if body is None:
            return None
        (weight,) = body.values()
        assert self.federation.truth is not None
        return principal_angle_distance(weight.T.double(), self.federation.truth)
