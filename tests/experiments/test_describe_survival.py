"""What is told about survival data: events and times, not the mean of both."""

from __future__ import annotations

import numpy as np
from survivors import sites

from manyheads.experiments.describe import federation_facts


def test_survival_data_are_told_by_events_and_times():
    federation = sites((30, 40))
    facts = federation_facts(federation, seed=0)
    assert facts.targets is None
    assert list(facts.distances) == ["input_wasserstein"]
    for i, own in enumerate(facts.followed):
        _, y = federation.train.client(i)
        assert (own.samples, own.events) == (len(y), int(y[:, 1].sum()))
        assert own.median == np.median(y[:, 0])
