"""What users get who say nothing about speed: ``python benchmarks/defaults.py [WORKLOAD ...] [--share-only | --no-share]``.

First, a short run by ``mh.simulate(algorithm, model, federation, rounds=5)``, everything included, against as many rounds of
the plain loop, which evaluates nothing; in turns, as in benchmarks/speed.py. So too, for some, a small comparison by
``mh.compare`` against as many local steps of the plain loop. The plain loop with torch's threads, which wait
for each other where other processes take the cores, is timed once, or given up, if it is much slower than with one thread. Second, which
part of the processor time of a run on 100 clients are its evaluations. Writes benchmarks/results/defaults.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from speed import Child, known, ratios, settled
from workloads import WORKLOADS, classified, named

from manyheads import Engine, Evaluate, FedAvg, simulate
from manyheads.core.machine import machine_facts
from manyheads.engines.executor import InProcess

HERE = Path(__file__).parent
RESULT = HERE / "results" / "defaults.json"
ENGINES = ("plain", "plain-1", "api")
FELT = ("mlp-fedavg", "class-fedavg", "cnn-fedavg", "lenet-fedavg", "resnet-fedavg", "lstm-fedavg")
"""workloads that are run by default"""
COMPARED = {"mlp-fedavg": 20, "cnn-fedavg": 2, "lenet-fedavg": 20, "resnet-fedavg": 5, "lstm-fedavg": 5}
"""rounds of the comparison, where there is one: a few seconds of the plain loop at least"""
CADENCES = {"every round": Evaluate(every=1), "by default": Evaluate()}


def measure(name: str, repeats: int) -> dict[str, Any]:
    """Seconds a round of the plain loop, with torch's threads and with one, of a run and of a comparison with defaults."""
    engines = {engine: engine for engine in ENGINES}
    if name in COMPARED:
        engines["compare"] = f"compare-{COMPARED[name]}"
    children = {engine: Child(sys.executable, str(HERE / "child.py"), way, name) for engine, way in engines.items()}
    seconds: dict[str, list[float]] = {engine: [] for engine in children}
    seconds["plain"] += settled(children, WORKLOADS[name].rounds)
    for _ in range(repeats):
        for engine, child in children.items():
            seconds[engine].append(child.time()[0])
    for child in children.values():
        child.close()
    return {"name": name, "words": WORKLOADS[name].words, "seconds": seconds, "load": os.getloadavg()[0]}


def share(evaluate: Evaluate, part: int, rounds: int) -> dict[str, Any]:
    """FedAvg on CIFAR-10's shapes, 10 of 100 clients a round: processor seconds of training, of evaluations, and of all."""
    federation = classified(100, 500 // part, (3, 32, 32), test=100 // part)
    model, spent = named("cnn-cifar10", (3, 32, 32))(), Counter[str]()

    def timed(
        self: Any, job: Callable[..., Any], common: Any, tasks: Sequence[Any], large: bool = False
    ) -> Iterator[Any]:
        for task in tasks:
            started = time.process_time()
            result = job(self.held, common, task)
            spent[job.__name__] += time.process_time() - started
            yield result

    with mock.patch.object(InProcess, "map", timed):
        started = time.process_time()
        run = simulate(
            FedAvg(epochs=1, batch=10), model, federation, rounds=rounds, participation=0.1, evaluate=evaluate,
            engine=Engine(workers=1),
        )  # fmt: skip
        whole = time.process_time() - started
    evaluated = [round for round, _ in run.history.column("accuracy")]
    facts = {"training": spent["train_chunk"], "evaluation": spent["evaluate_chunk"], "whole": whole}
    return {"evaluated": evaluated, "protocol": run.protocol, "load": os.getloadavg()[0], **facts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", type=known, default=FELT)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--share-only", action="store_true", help="only the share of evaluations")
    parser.add_argument("--no-share", action="store_true", help="without the share of evaluations")
    parser.add_argument("--part", type=int, default=5, help="1 / PART of the samples of each client, for their share")
    parser.add_argument("--rounds", type=int, default=30, help="of the run whose evaluations are measured")
    options = parser.parse_args()
    found = json.loads(RESULT.read_text()) if RESULT.exists() else {"rows": [], "shares": {}}
    for name in [] if options.share_only else options.workloads:
        row = measure(name, options.repeats)
        for engine in row["seconds"].keys() - {"plain", "plain-1"}:
            print(f"{name}, {engine}: times as fast", *(f"{ratio:.2f}" for ratio in ratios(row, engine)), flush=True)
        rows = {each["name"]: each for each in found["rows"]} | {name: row}
        found["rows"] = [rows[each] for each in WORKLOADS if each in rows]
        write(found)
    for words, evaluate in [] if options.no_share else CADENCES.items():
        row = share(evaluate, options.part, options.rounds) | {"part": options.part, "rounds": options.rounds}
        print(f"evaluated {words}: {100 * row['evaluation'] / row['whole']:.0f} % of the processor time", flush=True)
        found["shares"][words] = row
        write(found)


def write(found: dict[str, Any]) -> None:
    RESULT.write_text(json.dumps(found | {"machine": machine_facts()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
