import signal
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
# a job in the background ignores Ctrl-C, one under nohup the end of its terminal, and so would the commands of the tests
signal.signal(signal.SIGINT, signal.default_int_handler)
for stop in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(stop, signal.SIG_DFL)
torch.set_num_threads(1)  # the plain loops of the tests are many small operations


@pytest.fixture
def divided(monkeypatch):
    """Small cohorts are divided too: otherwise they are one chunk, which no worker gets."""
    monkeypatch.setattr("manyheads.engines.chunks.DIVIDED_ABOVE", 0)
