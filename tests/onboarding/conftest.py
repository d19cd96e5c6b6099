"""A run that new clients join."""

from __future__ import annotations

import pytest
from new_client import FEDERATION

import manyheads as mh


@pytest.fixture(scope="session")
def fedrep():
    return mh.simulate(mh.FedRep(sgd=mh.SGD(lr=0.05)), "mlp", FEDERATION, rounds=8)
