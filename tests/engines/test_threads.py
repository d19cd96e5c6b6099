"""One thread of torch wherever a user's program calls for much work in small operations."""

from __future__ import annotations

import pytest
import torch
from new_client import FEDERATION, X, Y
from torch import nn

import manyheads as mh
from manyheads.engines.threads import one_thread
from manyheads.theory import sweep, theory
from manyheads.theory.paper import Sweep

SEEN: list[int] = []
"""how many threads torch had in each forward pass, or run of a paper"""


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(64, 16), nn.Linear(16, 10)

    def forward(self, x):
        SEEN.append(torch.get_num_threads())
        return self.head(self.body(x).sin())  # by autograd: no plain chain


class Paper:
    name = "counting"

    def run(self, say):
        SEEN.append(torch.get_num_threads())
        return {}

    sweeps = {"all": Sweep("counts", run, lambda facts: None)}


@pytest.fixture(scope="module")
def run():
    return mh.simulate(mh.FedAvg(), mh.Model(Counting(), head="head"), FEDERATION, rounds=1)


TUNE = mh.FineTune(scope="all", epochs=1)
CALLS = {
    "personalize": lambda run: mh.personalize(run, (X, Y), finetune=TUNE, curve=[]),
    "predictions": lambda run: run.predictions(FEDERATION),
    "new predictions": lambda run: run.new_predictions(FEDERATION, TUNE),
    "new model": lambda run: run.new_model(FEDERATION, 0, TUNE),
    "everywhere": lambda run: run.everywhere(FEDERATION),
    "theory": lambda run: theory(Paper()),
    "sweep": lambda run: sweep(Paper(), "all"),
}


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", CALLS)
def test_it_is_done_with_one_thread_and_the_program_has_its_own_afterwards(name, run, three_threads, monkeypatch):
    monkeypatch.setattr("manyheads.theory.as_dict", lambda paper: {})
    SEEN.clear()
    CALLS[name](run)
    assert torch.get_num_threads() == 3
    assert set(SEEN) == {1}


def test_after_an_error_too(three_threads):
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert torch.get_num_threads() == 3
