"""Runs of a federation of real sites: the coordinator keeps no personal state, only which round's state each site has."""

from __future__ import annotations

from typing import Any

import torch

from manyheads.core.contract import Algorithm
from manyheads.core.trees import Params, State
from manyheads.run.training import Training

__all__ = ["AT_SITES", "AT_SITES_DATA", "kept_of"]

AT_SITES_DATA = "study"
"""the name of the data of such a run"""
AT_SITES = State(version=torch.zeros((), dtype=torch.int64))
"""what is kept of each client: the last round after which its site has kept a state"""


def kept_of(data: dict[str, Any], training: Training, algorithm: Algorithm, params: Params) -> State:
    """What a run with these ``data`` keeps of each client, before its first round."""
    return AT_SITES if data["name"] == AT_SITES_DATA else training.client_state(algorithm, params)
