"""The runs of Figures 2, 4 and 5: the six-layer network, trained by FedAvg with tau local steps or by D-SGD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from manyheads.core.optim import FineTune
from manyheads.run import Evaluate
from manyheads.run.config import Config

__all__ = ["QUICK", "REDUCED", "STEPS", "TUNE", "Precision", "line_of", "network_config", "untrained"]

Precision = Literal["float32", "bfloat16"]

STEPS = 125_000
"""local steps of every model in the paper, T tau"""
QUICK = STEPS // 250
"""at the quick scale: ten rounds of 50 steps"""
REDUCED: dict[str, Any] = {"steps": STEPS // 10, "precision": "bfloat16"}
"""a tenth of the steps, each in half the time"""
DECAY = 1e-4
RATES = {1: 0.1, "more": 0.01}
"""step sizes by the number of local steps, chosen as the paper chose 0.1 for all of its models: of 0.5, 0.1, 0.05, 0.01 and
0.005, those with the lowest training loss. With the paper's one, FedAvg's network loses in its first round what its
features know of an image, and never learns (docs/decisions.md)"""
HARDLY = 1.5
"""times chance, below which an accuracy is hardly better than it"""
TUNE = FineTune(scope="all", epochs=10, batch=10, lr=RATES[1], momentum=0.5, weight_decay=DECAY)
"""ten epochs of SGD on all that a new client has, with the settings of the training"""


def network_config(
    data: str,
    partition: dict[str, Any],
    clients: int,
    tau: int,
    steps: int,
    seed: int,
    precision: Precision,
    new_data: str = "",
) -> Config:
    """A run of ``steps`` local steps in all, a tenth of the clients in each round."""
    model = {"name": "cnn-6"} | ({} if precision == "float32" else {"precision": precision})
    sgd = {"lr": RATES["more"], "momentum": 0.5, "weight_decay": DECAY}
    fedavg = {"name": "fedavg", "steps": tau, "batch": 10, "sgd": sgd}
    dsgd = {"name": "dsgd", "batch": 10, "lr": RATES[1], "weight_decay": DECAY}  # with one step, momentum is never used
    rounds = max(1, steps // tau)
    return Config(
        data={"name": data},
        partition=partition,
        clients=clients,
        participation=0.1,
        rounds=rounds,
        seed=seed,
        model=model,
        algorithm=dsgd if tau == 1 else fedavg,
        new_data=new_data,
        evaluate=Evaluate(every=rounds),
    )


def untrained(accuracies: Mapping[str, Sequence[float]], classes: int) -> str:
    """Which lines, of those with these accuracies over seeds, are hardly better than chance, as a reason; empty if none.

    >>> untrained({"D-SGD": [0.2], "FedAvg": [0.11]}, classes=10)
    'after so few steps FedAvg has an accuracy of 11.0 %, where chance is 10 %'
    """
    means = {line: float(np.mean(values)) for line, values in accuracies.items()}
    idle = [f"{line} has an accuracy of {100 * mean:.1f} %" for line, mean in means.items() if mean < HARDLY / classes]
    return f"after so few steps {' and '.join(idle)}, where chance is {100 / classes:g} %" if idle else ""


def line_of(tau: int) -> str:
    return "D-SGD" if tau == 1 else f"FedAvg, {tau} local steps"
