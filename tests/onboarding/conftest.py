"""A run that new clients join."""

from __future__ import annotations

import pytest
from new_client import FEDERATION

import manyheads as mh
from manyheads.baselines import BASELINES


@pytest.fixture(scope="session")
def fedrep():
    return mh.simulate(mh.FedRep(sgd=mh.SGD(lr=0.05)), "mlp", FEDERATION, rounds=8)


@pytest.fixture
def few_baselines(monkeypatch):
    """No boosted trees beside the method, which take most of the time of ``personalize``."""
    few = {name: BASELINES[name] for name in ("majority", "linear")}
    monkeypatch.setattr("manyheads.onboarding.alone.BASELINES", few)
