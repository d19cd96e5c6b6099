"""The settings of the round loop."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from manyheads.core.contract import Algorithm
from manyheads.core.optim import FineTune
from manyheads.core.rounds import LOCAL
from manyheads.core.schedule import Schedule
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State
from manyheads.engines.class_weights import Weighing
from manyheads.engines.engine import Engine
from manyheads.run.protocol import Evaluate

__all__ = ["Training"]


@settings
class Training:
    """How long, with whom, and how it is watched."""

    rounds: Annotated[int, Field(ge=1)] = 30
    """communication rounds"""
    participation: Annotated[float, Field(gt=0, le=1)] = 1.0
    """fraction of the clients in each round, drawn uniformly"""
    cohort: Annotated[int, Field(ge=0)] = 0
    """number of clients in each round; if not 0, instead of participation"""
    seed: Annotated[int, Field(ge=0)] = 0
    """everything random comes from it"""
    weighting: Literal["auto", "samples", "equal"] = "auto"
    """weights of the clients' uploads; auto: as in the method's paper"""
    class_weights: Weighing = "none"
    """weights of the samples in the training loss; balanced: inverse to how frequent the label is in the federation;
    client: at the client itself"""
    schedule: Schedule | None = None
    """how the step sizes change from round to round"""
    checkpoint_seconds: Annotated[float, Field(ge=0)] = 5.0
    """least time between checkpoints; 0: one after every round"""
    finetune: FineTune = FineTune()
    """fine-tuning of the final models, of the clients and of new clients"""
    evaluate: Evaluate = Evaluate()
    """the evaluation protocol"""
    monitor: tuple[str, ...] = ()
    """quantities to record in every round: principal_angle (linear-tasks), cka, head_diversity, drift,
    local_drift, local_drift_square"""
    engine: Engine = Engine()
    """who does the work"""

    def rate(self, round: int) -> float:
        """By what the schedule multiplies the step sizes in a round."""
        return self.schedule.rate(round, self.rounds) if self.schedule else 1.0

    def client_state(self, algorithm: Algorithm, params: Params) -> State:
        """A client's initial personal state, including its local model if the protocol evaluates that."""
        kept = State(**{LOCAL: params.all}) if self.evaluate.model == "local" else State()
        return algorithm.init_client(params) | kept
