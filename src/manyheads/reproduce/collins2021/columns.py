"""The columns of Table 1: data, division and budget of each, and the stand-ins for data that cannot be had."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["COLUMNS", "EXPLAINED", "FIRST", "NEARER", "ROWS", "SECOND", "Column", "Row"]

Table = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A row of the table: a method as the paper runs it, and which of its models is reported."""

    algorithm: Table
    tuned: bool = False
    """after ten epochs on the head"""


SGD = {"lr": 0.01, "momentum": 0.5, "weight_decay": 1e-4}
EPOCHS = {"epochs": 1}
"""replaced by the column's number of local epochs"""
ROWS: dict[str, Row] = {
    "Local Only": Row({"name": "local", "sgd": SGD, **EPOCHS}),
    "FedAvg": Row({"name": "fedavg", "sgd": SGD, **EPOCHS}),
    "FedAvg+FT": Row({"name": "fedavg", "sgd": SGD, **EPOCHS}, tuned=True),
    "FedProx": Row({"name": "fedprox", "sgd": SGD, "mu": 0.1, **EPOCHS}),
    "FedProx+FT": Row({"name": "fedprox", "sgd": SGD, "mu": 0.1, **EPOCHS}, tuned=True),
    "SCAFFOLD": Row({"name": "scaffold", "lr": 0.01, "server_lr": 0.1, **EPOCHS}),
    "SCAFFOLD+FT": Row({"name": "scaffold", "lr": 0.01, "server_lr": 0.1, **EPOCHS}, tuned=True),
    "Fed-MTL": Row({"name": "fedmtl", "sgd": SGD, **EPOCHS}),
    "PerFedAvg": Row({"name": "perfedavg", "variant": "fo", "alpha": 0.01, "beta": 0.01, "steps": 0, **EPOCHS}),
    "LG-Fed": Row({"name": "lg-fedavg", "sgd": SGD, "shared_layers": 2, **EPOCHS}),
    "L2GD": Row({"name": "l2gd", "eta": 1.0, "lam": 0.5, "p": 0.9}),
    "APFL": Row({"name": "apfl", "lr": 0.01, "alpha": 0.75, **EPOCHS}),
    "Ditto": Row({"name": "ditto", "sgd": SGD, "lam": 1.0, **EPOCHS}),
    "FedPer": Row({"name": "fedper", "sgd": SGD, **EPOCHS}),
    "FedRep": Row({"name": "fedrep", "sgd": SGD, "head_epochs": 10}),
}
"""the paper's rows in its order, with the constants of the authors' scripts"""


@dataclass(frozen=True)
class Column:
    """A column: what is learnt, by whom, for how long."""

    data: Table
    partition: str
    clients: int
    rounds: int
    published: tuple[float, ...]
    """the paper's accuracies in per cent, a row each"""
    batch: int = 10
    epochs: int = 5
    """local epochs, of the representation for FedRep, of everything for the others"""
    model: Table = field(default_factory=dict)
    stands_for: str = ""
    """for stand-ins: what the paper has instead, and how they differ; its numbers are shown, and not judged by"""

    def paper(self, row: str) -> float:
        """The paper's accuracy of a row, in per cent."""
        return dict(zip(ROWS, self.published, strict=True))[row]


FIRST = "CIFAR-10 (100, 2)"
SECOND = "CIFAR-10 (100, 5)"
COLUMNS: dict[str, Column] = {
    FIRST: Column(
        {"name": "cifar10"}, "shards:2", 100, 100, epochs=1,
        published=(89.79, 42.65, 87.65, 39.92, 85.81, 37.72, 86.35, 80.46, 82.27, 84.14, 81.04, 83.77, 85.39, 87.13, 87.70),
    ),
    SECOND: Column(
        {"name": "cifar10"}, "shards:5", 100, 100,
        published=(70.68, 51.78, 73.68, 50.99, 72.75, 47.33, 68.23, 58.31, 67.20, 63.02, 59.98, 72.29, 70.34, 73.84, 75.68),
    ),
    "CIFAR-10 (1000, 2)": Column(
        {"name": "cifar10"}, "shards:2", 1000, 100,
        published=(78.30, 44.31, 82.04, 21.93, 75.41, 33.79, 78.24, 76.53, 67.36, 77.48, 71.96, 82.39, 80.36, 81.73, 83.27),
    ),
    "CIFAR-100 (100, 5)": Column(
        {"name": "cifar100"}, "shards:5", 100, 100,
        published=(75.29, 23.94, 79.34, 20.17, 78.52, 20.32, 78.88, 71.47, 72.05, 72.44, 72.13, 78.20, 78.91, 76.00, 79.15),
    ),
    "CIFAR-100 (100, 20)": Column(
        {"name": "cifar100"}, "shards:20", 100, 100,
        published=(41.29, 31.97, 55.44, 28.52, 55.09, 22.52, 44.34, 41.25, 52.49, 38.76, 42.84, 55.44, 56.34, 55.68, 56.10),
    ),
    "tweets (183)": Column(
        {"name": "sent140"}, "dirichlet-shares:1,samples=60", 183, 50, batch=4,
        stands_for="Sent140 (183, 2): a 2.7 % sample without enough tweets an author, so made-up clients of 60 tweets, the shares of "
        "whose labels are drawn from a Dirichlet distribution; a trained embedding in place of GloVe",
        published=(69.88, 52.75, 71.92, 52.33, 71.21, 51.31, 71.49, 71.20, 68.45, 70.37, 70.67, 69.87, 71.04, 72.12, 72.41),
    ),
    "MNIST (150, 3)": Column(
        {"name": "mnist"}, "femnist-recipe", 150, 200, model={"name": "femnist-mlp"},
        stands_for="FEMNIST (150, 3): the same recipe on MNIST's digits, which are easier than letters",
        published=(60.86, 51.64, 72.41, 18.89, 53.54, 17.65, 52.11, 54.11, 71.51, 62.08, 66.18, 70.74, 68.28, 76.91, 78.56),
    ),
    "Chars74K (15, 3)": Column(
        {"name": "chars74k", "characters": "a-j"}, "classes:3", 15, 200, model={"name": "femnist-mlp"},
        stands_for="FEMNIST (150, 3): ten letters of 55 writers, so fewer clients with fewer samples",
        published=(60.86, 51.64, 72.41, 18.89, 53.54, 17.65, 52.11, 54.11, 71.51, 62.08, 66.18, 70.74, 68.28, 76.91, 78.56),
    ),
}  # fmt: skip

EXPLAINED: dict[tuple[str, str], str] = {
    (FIRST, "SCAFFOLD"): "SCAFFOLD's server step 1",
    (FIRST, "SCAFFOLD+FT"): "SCAFFOLD's server step 1",
    (SECOND, "FedPer"): "one local epoch, five classes a client, FedPer",
}
"""cells that differ from the paper's, and the switch (:mod:`.switches`) with which they do not"""
NEARER: dict[tuple[str, str], str] = {
    (FIRST, "L2GD"): "L2GD with an epoch for a step, 100 iterations",
    (SECOND, "FedAvg"): "one local epoch, five classes a client",
}
"""cells that no switch explains, and the one that comes nearest"""
