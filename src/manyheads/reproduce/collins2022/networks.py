"""The runs of Figures 2, 4 and 5: the six-layer network, trained by FedAvg with tau local steps or by D-SGD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from torch import Tensor

from manyheads.core.optim import FineTune
from manyheads.data import Federation
from manyheads.engines.client_data import ClientData
from manyheads.engines.workbench import tried_on
from manyheads.run import Evaluate, Run
from manyheads.run.config import Config

__all__ = [
    "GRID", "INIT", "LOCAL_RATE", "OURS", "QUICK", "RATE", "REDUCED", "STEPS", "TUNE", "Precision",
    "line_of", "network_config", "shared_features", "untrained",
]  # fmt: skip

Precision = Literal["float32", "bfloat16"]

STEPS = 125_000
"""local steps of every model in the paper, T tau"""
QUICK: dict[str, Any] = {"steps": STEPS // 250, "precision": "bfloat16"}
"""ten rounds of 50 steps, each in half the time"""
REDUCED: dict[str, Any] = {"steps": STEPS // 10, "precision": "bfloat16"}
"""a tenth of the steps, likewise"""
GRID = (0.5, 0.1, 0.05, 0.01, 0.005)
"""the step sizes of which the paper took the one with the lowest training loss: 0.1, for all models"""
RATE, LOCAL_RATE = 0.1, 0.01
"""of D-SGD, and of FedAvg: the largest of these with which they learn; in fine-tuning the latter has the lowest loss (rates.py)"""
INIT = "he"
"""the network's first weights, which the paper does not tell; with torch's, FedAvg learns nothing"""
DECAY = 1e-4
TUNE = FineTune(scope="all", epochs=10, batch=10, lr=LOCAL_RATE, momentum=0.5, weight_decay=DECAY)
"""ten epochs of SGD on all that a new client has"""
OURS = f""" The paper gives neither the network's widths nor its first weights, and one step size for all models, 0.1. Ours begin with
    He's weights; {LOCAL_RATE:g} for FedAvg and {RATE:g} for D-SGD are the largest step sizes of the paper's grid with which they learn, and
    {TUNE.lr:g} has the lowest training loss in fine-tuning (collins2022.rates)."""
HARDLY = 1.5
"""times chance, below which an accuracy is hardly better than it"""


def network_config(
    data: str,
    partition: dict[str, Any],
    clients: int,
    tau: int,
    steps: int,
    seed: int,
    precision: Precision,
    new_data: str = "",
    rate: float | None = None,
    init: str = INIT,
) -> Config:
    """A run of ``steps`` local steps in all, a tenth of the clients in each round."""
    rate = rate or (RATE if tau == 1 else LOCAL_RATE)
    model = {"name": "cnn-6", "init": init} | ({} if precision == "float32" else {"precision": precision})
    sgd = {"lr": rate, "momentum": 0.5, "weight_decay": DECAY}
    fedavg = {"name": "fedavg", "steps": tau, "batch": 10, "sgd": sgd}
    dsgd = {"name": "dsgd", "batch": 10, "lr": rate, "weight_decay": DECAY}  # with one step, momentum is never used
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


def shared_features(run: Run, federation: Federation, rows: np.ndarray) -> Tensor:
    """What the shared network makes of these test images before its last layer, [images, 512]."""
    test = federation.test
    few = type(test)(test.x[rows], test.y[rows], np.array([0, len(rows)]))
    model = tried_on(run.model, federation)
    model.module.eval()
    like = next(iter(run.model.params.all.values()))
    x = ClientData.of(few, federation.task, like, federation.scaling).x
    return model.features(run.client_model(0, "global"), x).flatten(1)


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
