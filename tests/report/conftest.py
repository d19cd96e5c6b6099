from __future__ import annotations

import numpy as np
import pytest
from comparisons import made

from manyheads import FedRep, Local, simulate
from manyheads.data import Classes, Digits, federate
from manyheads.data.federation import Federation
from manyheads.data.samples import Samples
from manyheads.experiments import compare


@pytest.fixture(scope="session")
def compared(tmp_path_factory):
    """The folder of a small comparison of classifiers."""
    out = tmp_path_factory.mktemp("compared") / "digits"
    federation = federate(Digits().pool(0), Classes(3), clients=8, seed=0)
    methods = ["fedavg", "fedavg+ft", "fedrep"]
    compare(
        federation,
        "mlp",
        methods=methods,
        rounds=4,
        seeds=2,
        rates=[0.03, 0.1],
        folds=2,
        local_rounds=4,
        baselines=["majority", "linear"],
        out=out,
    )
    return out


@pytest.fixture(scope="session")
def regressed(tmp_path_factory):
    """The folder of a small comparison with a regression, one seed, and a site without test samples."""
    out = tmp_path_factory.mktemp("regressed") / "plants"
    rng = np.random.default_rng(0)

    def samples(counts):
        inputs = [rng.normal(size=(n, 3)).astype(np.float32) for n in counts]
        return Samples.of([(x, (x.sum(axis=1) + i).astype(np.float32)) for i, x in enumerate(inputs)])

    names = ("Köln", "<b>Süd</b>", "A & B", "empty", "Zürich")
    federation = Federation(
        "plants", samples([20, 21, 22, 23, 24]), samples([9, 8, 7, 0, 6]), "regression", 1, client_names=names
    )
    compare(federation, "mlp", methods=["fedavg", "ditto"], rounds=3, seeds=1, rates=[0.03], local_rounds=3, out=out)
    return out


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The folders of two runs, by method."""
    out = tmp_path_factory.mktemp("runs")
    federation = federate(Digits().pool(0), Classes(3), clients=8, seed=0)
    for algorithm in (FedRep(), Local()):
        simulate(algorithm, "mlp", federation, rounds=4, out=out / algorithm.name)
    return {name: out / name for name in ("fedrep", "local")}


@pytest.fixture
def facts():
    """The results of a made-up comparison in their form in a file, which tests change."""
    return made().to_json()
