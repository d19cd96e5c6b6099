"""FLamby's Fed-TCGA-BRCA: survival in six regions, a linear Cox model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import nn

from manyheads.algorithms import FedAvg, FedProx, Scaffold
from manyheads.core.optim import SGD
from manyheads.data import Federation, Samples
from manyheads.data.public.tcga import REGIONS, TcgaBrca
from manyheads.experiments.flamby.benchmark import POOLED, Benchmark

__all__ = ["tcga_benchmark"]


def tcga_benchmark(path: str = "") -> Benchmark:
    """With the settings of FLamby's ``common.py`` and of its configuration of the published results.

    Features are as they are: ages in years among zeros and ones. ``path`` is that of :class:`TcgaBrca`.
    """
    data = TcgaBrca(path=path, scaling="none").federation(seed=0)
    order = [data.client_names.index(region) for region in REGIONS] if data.client_names else []
    apart = replace(
        data, train=data.train.select(order), test=data.test.select(order), client_names=REGIONS, tables=None
    )
    methods = {
        "fedavg": FedAvg(sgd=SGD(lr=0.1, momentum=0.0), batch=8, steps=100),
        "fedprox": FedProx(sgd=SGD(lr=0.1, momentum=0.0), mu=0.1, batch=8, steps=100),
        "scaffold": Scaffold(lr=0.01, server_lr=1.0, batch=8, steps=100),
    }
    return Benchmark(
        "tcga-brca", apart, _together(apart), lambda: nn.Linear(39, 1), "c_index", 30, 8, 0.1, rounds=5, methods=methods
    )


def _together(data: Federation) -> Federation:
    train, test = (Samples(part.x, part.y, np.array([0, len(part.y)])) for part in (data.train, data.test))
    return replace(data, train=train, test=test, client_names=(POOLED,))
