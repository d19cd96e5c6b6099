"""FLamby's Fed-TCGA-BRCA: survival in six regions, a linear Cox model."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from torch import nn

from manyheads.algorithms import FedAvg, FedProx, Scaffold
from manyheads.core.optim import SGD
from manyheads.data import Federation, Samples
from manyheads.data.public.tcga import REGIONS, TcgaBrca
from manyheads.experiments.flamby.benchmark import POOLED, Benchmark, adaptive

__all__ = ["tcga_benchmark"]


def tcga_benchmark(path: str = "", scaling: Literal["client", "none"] = "none") -> Benchmark:
    """With the settings of FLamby's ``common.py`` and of its configuration of the published results.

    FLamby takes features as they are: ages in years among zeros and ones. ``path`` and ``scaling`` are those of
    :class:`TcgaBrca`.
    """
    data = TcgaBrca(path=path, scaling=scaling).federation(seed=0)
    order = [data.client_names.index(region) for region in REGIONS] if data.client_names else []
    apart = replace(
        data, train=data.train.select(order), test=data.test.select(order), client_names=REGIONS, tables=None
    )
    (features,) = apart.sample_shape
    methods = {
        "fedavg": FedAvg(sgd=SGD(lr=0.1, momentum=0.0), batch=8, steps=100),
        "fedprox": FedProx(sgd=SGD(lr=0.1, momentum=0.0), mu=0.1, batch=8, steps=100),
        "scaffold": Scaffold(lr=0.01, server_lr=1.0, batch=8, steps=100),
        "fedadam": adaptive("adam", 0.01, 0.1, batch=8),
        "fedyogi": adaptive("yogi", 0.01, 0.1, batch=8),
        "fedadagrad": adaptive("adagrad", 0.01, 1.0, batch=8),
    }
    return Benchmark(
        "tcga-brca",
        apart,
        _together(apart),
        lambda: nn.Linear(features, 1),
        "c_index",
        30,
        8,
        0.1,
        rounds=5,
        methods=methods,
    )


def _together(data: Federation) -> Federation:
    train, test = (Samples(part.x, part.y, np.array([0, len(part.y)])) for part in (data.train, data.test))
    return replace(data, train=train, test=test, client_names=(POOLED,))
