import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from manyheads.baselines import BASELINES
from manyheads.core.contract import ALGORITHMS
from manyheads.core.registry import is_ours
from manyheads.core.tasks import TASKS
from manyheads.data.partitions.partitioners import PARTITIONERS
from manyheads.data.sources import SOURCES
from manyheads.metrics import METRICS
from manyheads.models import MODELS
from manyheads.monitors.monitor import MONITORS
from manyheads.reproduce import EXPERIMENTS

TUNED_IN_FULL = {
    "baselines", "test_flower_full.py",
    "test_a_planted_federation_is_seen_through", "test_alone_is_about_the_best_of_what_a_site_can_do_alone",
}  # fmt: skip
"""tests of what the models of sites alone can do, and those that compare what other processes fit"""
REGISTRIES = (ALGORITHMS, BASELINES, EXPERIMENTS, METRICS, MODELS, MONITORS, PARTITIONERS, SOURCES, TASKS)
sys.path.insert(0, str(Path(__file__).parent))
# a job in the background ignores Ctrl-C, one under nohup the end of its terminal, and so would the commands of the tests
signal.signal(signal.SIGINT, signal.default_int_handler)
for stop in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(stop, signal.SIG_DFL)
torch.set_num_threads(1)  # the plain loops of the tests are many small operations


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Models of sites alone, fitted hundreds of times in a comparison, are tuned over less, unless they are what is tested.

    A hook and no fixture, since the fixtures of whole modules and sessions make comparisons too.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not TUNED_IN_FULL & {item.path.parent.name, item.path.name, getattr(item, "originalname", "")}:
            patch.setattr("manyheads.baselines.linear.PENALTIES", np.array([100.0, 1.0, 0.01]))
            patch.setattr("manyheads.baselines.linear.FOLDS", 2)
            patch.setattr("manyheads.baselines.trees.TREES", 30)
        return (yield)


@pytest.fixture(autouse=True)
def nothing_stays_registered():
    """What a test registers is forgotten after it: what others find must not depend on the order of the tests."""
    before = [dict(registry._known) for registry in REGISTRIES]
    yield
    for registry, known in zip(REGISTRIES, before, strict=True):
        registry._known = {n: thing for n, thing in registry._known.items() if is_ours(thing)} | known


@pytest.fixture
def divided(monkeypatch):
    """Small cohorts are divided too: otherwise they are one chunk, which no worker gets."""
    monkeypatch.setattr("manyheads.engines.chunks.DIVIDED_ABOVE", 0)
