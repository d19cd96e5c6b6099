import signal
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores Ctrl-C, and so would its own
torch.set_num_threads(1)  # the plain loops of the tests are many small operations


@pytest.fixture
def divided(monkeypatch):
    """Small cohorts are divided too: otherwise they are one chunk, which no worker gets."""
    monkeypatch.setattr("manyheads.engines.pool.MOMENT", 0)
