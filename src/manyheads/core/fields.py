"""Types of settings that many methods have, each with its validation and documentation."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

__all__ = ["BatchSize", "Epochs", "Neighbours", "Rate", "Scale", "Steps", "Strength", "Weight"]

Epochs = Annotated[int, Field(ge=1, description="local epochs a round")]
Steps = Annotated[int, Field(ge=0, description="local steps a round, tau; if not 0, instead of epochs")]
BatchSize = Annotated[int, Field(ge=0, description="samples a step; 0: all the client has")]
Rate = Annotated[float, Field(gt=0, description="step size")]
Strength = Annotated[float, Field(ge=0, description="weight of the penalty on the distance to the shared model")]
Neighbours = Annotated[int, Field(ge=1, description="nearest training samples that have a say, k")]
Scale = Annotated[float, Field(gt=0, description="distance of features over which their say falls by a factor e")]
Weight = Annotated[
    Annotated[float, Field(ge=0, le=1)] | None,
    Field(description="their weight in a prediction, lambda; unless given, each client's own choice"),
]
