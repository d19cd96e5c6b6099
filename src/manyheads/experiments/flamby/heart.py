"""FLamby's Fed-Heart-Disease: four hospitals, logistic regression."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.algorithms import FedAvg, FedProx, Scaffold
from manyheads.core.optim import SGD
from manyheads.data import Federation, Samples
from manyheads.data.public.hospitals import HEART
from manyheads.data.sites.tables import read_table
from manyheads.experiments.flamby.benchmark import POOLED, Benchmark, adaptive

__all__ = ["Logistic", "heart_benchmark", "hospitals", "split"]

HOSPITALS = ("Cleveland", "Hungary", "Switzerland", "VA")
DROPPED = ("slope", "ca", "thal")
"""columns that are mostly missing outside Cleveland"""
CODES = ("cp", "restecg")
TRAIN, SEED = 0.66, 43
"""FLamby's fraction of training samples, and the seed of its split"""


class Logistic(nn.Module):
    """Logistic regression with one weight a feature: the log odds of the second class against those of the first, 0."""

    def __init__(self, features: int = 13) -> None:
        super().__init__()
        self.linear = nn.Linear(features, 1)

    def forward(self, x: Tensor) -> Tensor:
        z = self.linear(x)
        return torch.cat([torch.zeros_like(z), z], dim=1)


def heart_benchmark() -> Benchmark:
    """With the settings of FLamby's ``common.py`` and of its configuration of the published results."""
    apart, together = hospitals()
    sgd = SGD(lr=0.001, momentum=0.0)
    methods = {
        "fedavg": FedAvg(sgd=sgd, batch=4, steps=100),
        "fedprox": FedProx(sgd=sgd, mu=0.01, batch=4, steps=100),
        "scaffold": Scaffold(lr=0.001, server_lr=1.0, batch=4, steps=100),
        "fedadam": adaptive("adam", 0.01, 0.01, batch=4),
        "fedyogi": adaptive("yogi", 0.003162, 0.01, batch=4),
        "fedadagrad": adaptive("adagrad", 0.003162, 0.316228, batch=4),
    }
    return Benchmark("heart", apart, together, Logistic, "accuracy", 50, 4, 0.001, rounds=15, methods=methods)


def hospitals() -> tuple[Federation, Federation]:
    """The hospitals as FLamby prepares them, and all patients at one site.

    Rows with a missing value are left out once the mostly missing columns are. Features are standardised by the training
    rows: of each hospital or, at the one site, of all, so that the two have different inputs.
    """
    tables = {name: _complete(name) for name in HOSPITALS}
    levels = {code: np.unique(np.concatenate([t[code] for t in tables.values()]))[1:] for code in CODES}
    x = [_features(table, levels) for table in tables.values()]
    y = [table["disease"].astype(np.int64) for table in tables.values()]
    test = [split(labels) for labels in y]
    apart = [_standardised(own, aside) for own, aside in zip(x, test, strict=True)]
    all_x, all_y, all_test = (np.concatenate(v) for v in (x, y, test))
    whole = _standardised(all_x, all_test)
    return _federation(apart, y, test, HOSPITALS), _federation([whole], [all_y], [all_test], (POOLED,))


def split(labels: np.ndarray) -> np.ndarray:
    """A mask of FLamby's test samples of one hospital: stratified by label, if each label has at least three."""
    from sklearn.model_selection import train_test_split

    rows, few = np.arange(len(labels)), np.bincount(labels).min() < 3
    how = {"test_size": 1 - TRAIN, "train_size": TRAIN, "random_state": SEED, "stratify": None if few else labels}
    _, test = train_test_split(rows, **how)
    return np.isin(rows, test)


def _complete(name: str) -> dict[str, np.ndarray]:
    table, _ = read_table(HEART / f"{name}.csv", DROPPED)
    assert table is not None
    known = ~np.isnan(np.stack(list(table.columns.values()))).any(axis=0)
    return {column: values[known] for column, values in table.columns.items()}


def _features(table: Mapping[str, np.ndarray], levels: Mapping[str, np.ndarray]) -> np.ndarray:
    """Numbers first, then a column for each level of the codes but the lowest."""
    numbers = [values for column, values in table.items() if column not in (*CODES, "disease")]
    hot = [table[code] == level for code in CODES for level in levels[code]]
    return np.stack([*numbers, *hot], axis=1).astype(np.float32)


def _standardised(x: np.ndarray, test: np.ndarray) -> np.ndarray:
    own = x[~test]
    return (x - own.mean(axis=0)) / (own.std(axis=0, ddof=1) + 1e-9)


def _federation(x: list[np.ndarray], y: list[np.ndarray], test: list[np.ndarray], names: tuple[str, ...]) -> Federation:
    train, held_out = (
        Samples.of([(a[m], b[m]) for a, b, m in zip(x, y, masks, strict=True)])
        for masks in ([~aside for aside in test], test)
    )
    return Federation("heart", train, held_out, "classification", 2, client_names=names, own_test=True)
