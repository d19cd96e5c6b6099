"""A method whose server keeps more than its clients send: the error names what to override."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from problems import ragged, small_net

from manyheads import SGD, Algorithm, FedAvg, State, Update, UserError, settings, simulate


@settings
class Momentum(Algorithm):
    """FedAvg with momentum at the server, in which something may be forgotten."""

    name: ClassVar[str] = "momentum"
    models: ClassVar[tuple[str, ...]] = ("global",)

    def init_server(self, params, population):
        return State(model=params.all, momentum=params.all.map(torch.zeros_like))

    def local(self, cohort, server, client):
        return Update(State(model=cohort.sgd(server.model, opt=SGD(), batch=10, epochs=1)))

    def global_model(self, server):
        return server.model


@settings
class Announced(Momentum):
    """It says what clients send, and does not merge."""

    def expects(self, server, round):
        return State(model=server.model)


@settings
class Merged(Announced):
    """Nothing is forgotten."""

    beta: float = 0.0

    def download(self, server, round):
        return State(model=server.model)

    def merge(self, server, uploads, round):
        step = uploads.mean().model - server.model
        momentum = self.beta * server.momentum + step
        return State(model=server.model + momentum, momentum=momentum)


@settings
class Talkative(Merged):
    """It sends more than it says."""

    def local(self, cohort, server, client):
        return Update(State(model=cohort.each(server.model), steps=torch.ones(len(cohort.samples))))


@settings
class Reshaped(Merged):
    def merge(self, server, uploads, round):
        return State(model=server.model, momentum=server.momentum.map(lambda v: v.unsqueeze(0)))


@pytest.mark.parametrize(
    ("algorithm", "says"),
    [
        (Momentum, r"wrong names in upload: it lacks 'momentum'.*override expects\(\) to say what they send"),
        (Announced, r"momentum's merge\(\) gives lacks 'momentum'; it must have what init_server.*override merge\(\)"),
        (Talkative, r"upload: it has 'steps'.*local\(\) does not give what its expects\(\) announces"),
        (Reshaped, r"merge\(\) gives has another shape of momentum/0.weight; given \(1, 8, 6\); allowed: \(8, 6\)"),
    ],
)
def test_the_error_names_what_to_override(algorithm, says):
    with pytest.raises(UserError, match=says):
        simulate(algorithm(), small_net(), ragged(), rounds=1)


def test_with_all_of_it_the_method_runs_and_nothing_more_travels():
    federation = ragged()
    run = simulate(Merged(beta=0.5), small_net(), federation, rounds=2)
    plain = simulate(FedAvg(), small_net(), federation, rounds=2)
    assert run.history[-1]["bytes_down"] == plain.history[-1]["bytes_down"]
    assert run.history[-1]["bytes_up"] == plain.history[-1]["bytes_up"]
