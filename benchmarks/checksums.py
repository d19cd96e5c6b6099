"""Checksums of a set of reference runs: a refactoring keeps them, bit for bit.

    python benchmarks/checksums.py --out before.json       # record
    python benchmarks/checksums.py --against before.json   # compare; exit code 1 if anything differs

Every method in every way of working (loop, stacked, chosen), with one and two workers; images, text, batch norm,
dropout, own training loops of the theory, a comparison and the onboarding of a client. Of a run, the checksum of its
final states and a hash of its history count, without times. Numbers depend on the processor and on torch: compare with
what the same machine recorded.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

import manyheads as mh
import manyheads.algorithms
from manyheads.core.contract import ALGORITHMS
from manyheads.core.machine import machine_facts
from manyheads.core.randomness import Purpose, torch_seeded
from manyheads.data import Classes, Digits, Federation, LinearTasks, federate
from manyheads.models import MLP

MONITORS = ("cka", "head_diversity", "drift")
KEPT = {
    "round",
    "clients",
    "cohort",
    "train_loss",
    "dropped",
    "bytes_down",
    "bytes_up",
    "monitors",
    "evaluation",
    "also",
}
KEPT |= {"client", "loss", "accuracy", "accuracy_std", "accuracy_worst_decile", "accuracy_min", "accuracy_max"}
KEPT |= {"per_client", "protocol", "model", "who", "why", *MONITORS}
"""entries of a history that every version has"""
COMPARED = ("accuracy", "loss", "interval", "per_seed", "worst_decile", "spread", "bytes", "rate", "rounds_to_target")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, help="where to record")
    options.add_argument("--against", type=Path, help="what was recorded before")
    options.add_argument("--only", default="", help="only cases whose name contains this")
    given = options.parse_args()
    found = {}
    for name, case in cases():
        if given.only in name:
            found[name] = case()
            print(f"{name:40} {found[name][:16]}", flush=True)
    if given.out:
        given.out.write_text(json.dumps({"machine": machine_facts(), "checksums": found}, indent=1) + "\n")
    if given.against:
        before = json.loads(given.against.read_text())["checksums"]
        different = [name for name, checksum in found.items() if before.get(name) != checksum]
        print(f"{len(found)} cases, {len(different)} differ{': ' if different else ''}{', '.join(different)}")
        sys.exit(bool(different))


def cases() -> Iterator[tuple[str, Callable[[], str]]]:
    """Name and what gives the checksum, each a few seconds."""
    digits = federate(Digits().pool(seed=0), Classes(3), clients=12, seed=0).with_new_clients(2, seed=0)
    for name, algorithm in sorted(ALGORITHMS.items()):
        if name == "fedrep-linear":
            continue
        model = MLP(norm="layer") if name == "fedbn" else "mlp"
        for mode in ("auto", "loop", "stacked"):
            yield f"{name}, {mode}", _run(algorithm(), model, digits, mode=mode, monitor=MONITORS)
        yield f"{name}, two workers", _run(algorithm(), model, digits, workers=2, participation=1.0)
    linear = LinearTasks(clients=20, dim=10, rank=2, samples=30).federation(seed=0)
    for name in ("fedrep-linear", "fedavg", "dsgd", "perfedavg"):
        monitor = ("principal_angle",)
        yield f"linear, {name}", _run(ALGORITHMS[name](), "linear", linear, monitor=monitor)
    images = _reshaped(digits, (1, 8, 8))
    nets = {
        "cnn": _seeded(_cnn, head="6"),
        "batch norm": _seeded(_batch_norm, head="4", norm="average"),
        "dropout": _seeded(_dropout, head="4"),
    }
    for kind, model in nets.items():
        for algorithm in (mh.FedAvg(), mh.FedRep(head_epochs=2), mh.Ditto(), mh.PerFedAvg()):
            if kind != "batch norm" or algorithm.name != "perfedavg":
                yield f"{kind}, {algorithm.name}", _run(algorithm, model, images)
    yield (
        "validation, local models",
        _run(
            mh.FedAvg(),
            "mlp",
            digits.with_validation(0.2, seed=0),
            evaluate=mh.Evaluate(
                model="local", who="sampled", weight="sample", split="validation", report="mean_last_10", every=1
            ),
        ),
    )
    for kind in ("sgd", "adam", "yogi", "adagrad"):
        stepped = mh.FedRep(head_epochs=2, server=mh.ServerOptimizer(kind=kind))
        yield f"server {kind}, fedrep", _run(stepped, "mlp", digits, schedule=mh.Schedule(kind="cosine"))
    yield "adam", _run(mh.FedAvg(), "mlp", digits, finetune=mh.FineTune(scope="head", epochs=2, optimizer="adam"))
    yield "compare", _compared
    for paper in ("collins2021", "collins2022", "deng2022", "fallah2020"):
        yield f"theory, {paper}", _theory(paper)
    yield "personalize", _personalized(digits)


def _run(
    algorithm: Any, model: Any, federation: Federation, *, mode: str = "auto", workers: int = 1, **more: Any
) -> Any:
    def run() -> str:
        usual = {"finetune": mh.FineTune(scope="all", epochs=1), "participation": 0.5, "evaluate": mh.Evaluate(every=1)}
        settings = usual | more
        engine = mh.Engine(mode=mode, workers=workers)
        done = mh.simulate(algorithm, model, federation, rounds=4, engine=engine, **settings)
        return _hash([done.checksum, [_kept(record) for record in done.history]])

    return run


def _compared() -> str:
    options = ["--methods", "fedavg,fedavg+ft,fedrep,ditto", "--rates", "0.03,0.1", "--rounds", "4", "--seeds", "2"]
    with tempfile.TemporaryDirectory() as folder:
        said = _command(
            "compare", "digits", "--partition", "classes:3", "--clients", "8", *options, "--out", f"{folder}/c"
        )
        trained = sorted(_trained(run) for run in Path(folder).glob("c/runs/*"))
    methods = {name: [method.get(key) for key in COMPARED] for name, method in said["methods"].items()}
    gains = {name: [method.get("gain"), method.get("gains")] for name, method in said["methods"].items()}
    return _hash([methods, gains, said["recommendation"]["text"], said["check"], trained])


def _trained(run: Path) -> str:
    done = mh.load(run)
    return _hash([done.checksum, [_kept(record) for record in done.history]])


def _theory(paper: str) -> Callable[[], str]:
    def run() -> str:
        facts = _command("theory", paper)
        return _hash({k: v for k, v in facts.items() if k != "out"})

    return run


def _personalized(federation: Federation) -> Callable[[], str]:
    def run() -> str:
        run = mh.simulate(mh.FedRep(), "mlp", federation, rounds=3)
        x, y = federation.new.train.client(0)
        found = mh.personalize(run, (x, y))
        tree = found.params
        return _hash([[name, hashlib.sha256(tree[name].numpy().tobytes()).hexdigest()] for name in sorted(tree)])

    return run


def _command(*arguments: str) -> dict[str, Any]:
    program = [sys.executable, "-m", "manyheads", *arguments, "--json"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def _kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _kept(v) for k, v in value.items() if k in KEPT}
    return [_kept(v) for v in value] if isinstance(value, list) else value


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def _reshaped(federation: Federation, shape: tuple[int, ...]) -> Federation:
    train, test = (
        [(s.client(i)[0].reshape(-1, *shape), s.client(i)[1]) for i in range(len(federation))]
        for s in (federation.train, federation.test)
    )
    both = [(np.concatenate([a, c]), np.concatenate([b, d])) for (a, b), (c, d) in zip(train, test, strict=True)]
    return Federation.from_clients(both, name="images", outputs=10, seed=0)


def _seeded(build: Callable[[], nn.Module], **settings: Any) -> mh.Model:
    with torch_seeded(0, Purpose.MODEL):
        return mh.Model(build(), **settings)


def _cnn() -> nn.Module:
    start = (nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    return nn.Sequential(*start, nn.Linear(72, 32), nn.ReLU(), nn.Linear(32, 10))


def _batch_norm() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))


def _dropout() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 10))


if __name__ == "__main__":
    main()
