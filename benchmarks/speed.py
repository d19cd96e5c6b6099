"""Rounds of every workload, by the plain loop and by us, timed in turns: ``python benchmarks/speed.py [WORKLOAD ...]``.

Each engine is a process of its own that waits while the others work, so that what else happens on the machine hits all
alike. Before anything is timed, one round of both on the same batches, in double precision, must give the same model.
Writes benchmarks/results/speed.json, from which benchmarks/tables.py makes the tables of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from select import select
from typing import Any

import torch
from check import arithmetic, difference, in_double, traffic
from workloads import WORKLOADS, Workload, known

from manyheads.core.machine import machine_facts

HERE = Path(__file__).parent
RESULT = HERE / "results" / "speed.json"
ENGINES = ("plain", "plain-1", "ours", "ours-1", "peak", "memory")
"""plain: torch's default threads; plain-1: one thread; ours: a worker for each core; peak: a matrix product, all cores;
memory: an addition of arrays as large as the model"""
PEERS = {"flower": "flower.py", "pfl": "pfl_research.py", "fluke": "fluke_peer.py", "pfllib": "pfllib_peer.py"}
NEEDED = {"flower": ("flwr", "ray"), "pfl": ("pfl",), "fluke": ("fluke",)}
"""what must be installed for a peer to be timed; PFLlib cannot be, its checkout is given"""
THREADED = {"fluke", "pfllib"}
"""peers of one process, which are timed with torch's threads and with one, as the plain loop is"""
SAME = 1e-9
"""largest difference of two results on the same batches in double precision, relative to the largest weight"""
HOPELESS = 1.5
"""times as slow as with one thread: then the default number of threads is timed only once"""
STARTED, PATIENCE = 30.0, 10
"""seconds in which a process starts, and times as long as with one thread, after which the default is given up"""


class Child:
    """A process that times one engine whenever it is asked to."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def time(self, limit: float | None = None) -> list[float]:
        """Seconds of a round, and of processor time if the engine knows it; nothing, and its end, after ``limit`` seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        if limit is not None and not select([self._process.stdout], [], [], limit)[0]:
            self._process.kill()
            self.close()
            return []
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"benchmark process ended: {self._process.args}")
        return [float(number) for number in answer.split()]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def settled(children: dict[str, Child], rounds: int, engine: str = "plain") -> list[float]:
    """Warm up an engine, with one thread and with torch's; close the latter if it is hopeless: then what it took once.

    Where other processes take the cores, its threads wait for each other, and it may come to no end: then nothing.
    """
    for _ in range(2):
        single = children[f"{engine}-1"].time()[0]
    for _ in range(2):
        several = children[engine].time(STARTED + PATIENCE * single * rounds)
        if not several:
            del children[engine]
            return []
    if several[0] <= HOPELESS * single:
        return []
    children.pop(engine).close()
    return several[:1]


def measure(workload: Workload, repeats: int, peers: dict[str, list[str]]) -> dict[str, Any]:
    """Timings of all engines in turns. ``peers`` are the commands of the other libraries that are there."""
    here, name = str(HERE / "child.py"), workload.name
    children = {engine: Child(sys.executable, here, engine, name) for engine in ENGINES}
    present = {peer: command for peer, command in peers.items() if peer in workload.peers}
    children |= {peer: Child(*command, name) for peer, command in present.items()}
    for peer in THREADED & set(present):
        children[f"{peer}-1"] = Child(*present[peer], name, "1")
    seconds: dict[str, list[float]] = {engine: [] for engine in children}
    processor: dict[str, list[float]] = {"plain-1": [], "ours-1": []}
    seconds["plain"] += settled(children, workload.rounds)
    for peer in THREADED & set(present):
        seconds[peer] += settled(children, 1, peer)
    for engine, child in children.items():
        if engine.partition("-")[0] not in {"plain", *THREADED}:
            child.time()  # a warm-up, by the end of which all have started
    for _ in range(repeats):
        for engine, child in children.items():
            wall, *spent = child.time()
            seconds[engine].append(wall)
            if engine in processor:
                processor[engine] += spent
    for child in children.values():
        child.close()
    return {
        "name": name,
        "words": workload.words,
        "target": workload.target,
        "target_peak": workload.peak,
        "seconds": seconds,
        "processor": processor,
        "operations": arithmetic(workload),
        "bytes": traffic(workload),
        "repeats": repeats,
        "load": os.getloadavg()[0],
        "machine": machine_facts(),
    }


def ratios(row: dict[str, Any], engine: str = "ours") -> list[float]:
    """How many times as fast as the plain loop, turn by turn, with whichever number of threads serves it better."""
    seconds = row["seconds"]
    better = min(
        (engine for engine in ("plain", "plain-1") if seconds[engine]), key=lambda e: statistics.median(seconds[e])
    )
    return [p / o for p, o in zip(seconds[better], seconds[engine], strict=False)]


def processor_ratios(row: dict[str, Any]) -> list[float]:
    """Processor time of the plain loop with one thread against ours with one worker, turn by turn."""
    return [p / o for p, o in zip(row["processor"]["plain-1"], row["processor"]["ours-1"], strict=True)]


def seconds_of(row: dict[str, Any], peer: str) -> list[float]:
    """Seconds of another library, with whichever number of threads serves it better."""
    ways = [row["seconds"].get(engine, []) for engine in (peer, f"{peer}-1")]
    return min((way for way in ways if len(way) == len(row["seconds"]["ours"])), key=statistics.median)


def against(row: dict[str, Any], peer: str) -> list[float]:
    """How many times as fast as another library, turn by turn."""
    return [p / o for p, o in zip(seconds_of(row, peer), row["seconds"]["ours"], strict=True)]


def peak_shares(row: dict[str, Any]) -> list[float] | None:
    """The part of the machine's peak that our rounds reach, turn by turn."""
    if not row["operations"]:
        return None
    turns = zip(row["seconds"]["ours"], row["seconds"]["peak"], strict=True)
    return [row["operations"] / ours * per_operation for ours, per_operation in turns]


def roofline_shares(row: dict[str, Any]) -> list[float] | None:
    """The least time that the arithmetic, or moving the weights, of the plain loop's steps would take, over ours."""
    if not row["operations"]:
        return None
    seconds = row["seconds"]
    turns = zip(seconds["ours"], seconds["peak"], seconds["memory"], strict=True)
    return [max(row["operations"] * flop, row["bytes"] * byte) / ours for ours, flop, byte in turns]


def middle_of(seconds: list[float], form: str = ".3g") -> str:
    """The median, if there is one."""
    return format(statistics.median(seconds), form) if seconds else "no end"


def line(row: dict[str, Any]) -> str:
    def of(values: list[float], form: str = ".2f") -> str:
        middle, low, high = (format(f(values), form) for f in (statistics.median, min, max))
        return f"{middle} ({low} to {high})"

    seconds, shares = row["seconds"], peak_shares(row)
    both = [one / two for one, two in zip(seconds["ours-1"], seconds["ours"], strict=True)]
    words = [
        f"{row['name']:>16}",
        f"plain {middle_of(seconds['plain'], '.4f')} s, one thread {middle_of(seconds['plain-1'], '.4f')} s",
        f"ours {statistics.median(seconds['ours']):.4f} s",
        f"ratio {of(ratios(row))}" + (f", wanted {row['target']}" if row["target"] else ""),
        f"one worker {of(ratios(row, 'ours-1'))}",
        f"workers {of(both)}",
        f"processor time {of(processor_ratios(row))}",
    ]
    words += [f"against {peer} {of(against(row, peer))}" for peer in PEERS if peer in seconds]
    return "; ".join([*words, *([f"of peak {of(shares)}"] if shares else [])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", type=known, default=list(WORKLOADS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULT)
    for peer in NEEDED:
        here = sys.executable if all(map(find_spec, NEEDED[peer])) else ""
        parser.add_argument(
            f"--{peer}-python",
            default=here,
            help=f"interpreter of an environment that has {' and '.join(NEEDED[peer])}; this one, if it does",
        )
    parser.add_argument("--pfllib", default="", help="a checkout of PFLlib, which is run by this interpreter")
    options = parser.parse_args()
    torch.set_num_threads(1)  # of the checks in this process
    pythons = {peer: python for peer in NEEDED if (python := getattr(options, f"{peer}_python"))}
    peers = {peer: [python, str(HERE / PEERS[peer])] for peer, python in pythons.items()}
    if options.pfllib:
        peers["pfllib"] = [sys.executable, str(HERE / PEERS["pfllib"]), options.pfllib]
    before = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    rows = {row["name"]: row for row in before}  # of workloads that are not timed now
    for name in options.workloads:
        workload = WORKLOADS[name]
        apart = difference(in_double(workload))
        if apart > SAME:
            raise SystemExit(f"{name}: the engines do not do the same work: results differ by {apart:.1e}")
        row = measure(workload, options.repeats, peers)
        row |= {"difference": apart, "difference_single_precision": difference(workload)}
        print(line(row), flush=True)
        rows[name] = row
        options.out.parent.mkdir(exist_ok=True)
        found = [rows[known] for known in WORKLOADS if known in rows]
        result = {"rows": found, "repeats": options.repeats, "machine": machine_facts()}  # of what was timed last
        options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
