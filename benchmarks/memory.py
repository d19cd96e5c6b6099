"""Memory of methods with large personal states: ``python benchmarks/memory.py [--against OTHER_CHECKOUT]``.

Three questions. Does the peak grow with the cohort, or only with the clients that are trained at a time? What does the
calling process have to do while two workers train the clients of a network for images? How many bytes does a parameter of a large
model cost? Each run is a process of its own, of this checkout and of the other in turn, so that its peak memory is its
own. Processor seconds are those of the rounds after the first. Writes benchmarks/results/memory.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULT = HERE / "results" / "memory.json"
ROUNDS = 2
MB = 1e6
WORDS = {
    "cohort": "clients a round, MLP of 500,000 parameters, 2 workers",
    "images": "clients a round, CNN of CIFAR-10, 2 workers",
    "parameters": "parameters, 16 clients a round, 1 worker",
    "divided": "parameters, 16 clients a round, 2 workers",
}
COHORTS = (32, 64, 128, 256, 512)
CASES: list[tuple[str, str, int]] = [
    *(("cohort", method, size) for method in ("scaffold", "ditto") for size in COHORTS),
    ("images", "scaffold", 500),
    *(("parameters", method, 10_000_000) for method in ("scaffold", "ditto", "fedrep", "fedavg")),
    *(("divided", method, 10_000_000) for method in ("scaffold", "ditto", "fedavg")),
]


def measure(kind: str, method: str, size: int) -> dict[str, float]:
    """A few rounds in this process and its workers, one epoch at batch 10; the server's or the personal models are evaluated."""
    from workloads import classified, mlp_of, named

    from manyheads import Engine, Evaluate, simulate
    from manyheads.core.contract import ALGORITHMS

    if kind == "images":
        federation, model = classified(size, 20, (3, 32, 32)), named("cnn-cifar10", (3, 32, 32))()
    else:
        alike = kind == "cohort"
        federation = classified(size if alike else 16, 20, (100,))
        model = mlp_of(500_000 if alike else size)
    marks, workers = [_used(resource.RUSAGE_SELF)], [0.0]
    base = _peak(os.getpid())

    def on_round(_: object) -> None:
        marks.append(_used(resource.RUSAGE_SELF))
        workers.extend(_peak(process.pid or 0) for process in multiprocessing.active_children())

    run = simulate(
        ALGORITHMS[method](),
        model,
        federation,
        rounds=ROUNDS,
        evaluate=Evaluate(every=ROUNDS),
        engine=Engine(workers=1 if kind == "parameters" else 2),
        on_round=on_round,
    )
    return {
        "parameters": model.params.all.numel,
        "base_mb": base,
        "peak_mb": _peak(os.getpid()),
        "worker_peak_mb": max(workers),
        "seconds": statistics.median(s for _, s in list(run.history.column("seconds"))[1:]),
        "parent_processor": (marks[-1] - marks[1]) / (ROUNDS - 1),
        "workers_processor": _used(resource.RUSAGE_CHILDREN) / ROUNDS,
    }


def case_of(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["kind"], row["method"], row["size"]


def line(rows: list[dict[str, Any]], method: str, which: str) -> dict[str, float]:
    """The straight line through the peaks against the cohort: MB a client, and MB without any.

    The peaks are medians, those of the calling process and of its largest worker.
    """
    own = [row for row in rows if row["kind"] == "cohort" and row["method"] == method and which in row]
    found: dict[str, float] = {}
    for key in ("peak_mb", "worker_peak_mb"):
        fit = statistics.linear_regression(
            [row["size"] for row in own], [statistics.median(row[which][key]) for row in own]
        )
        found |= {key.replace("mb", "mb_a_client"): fit.slope, key.replace("mb", "mb_without"): fit.intercept}
    return found


def lines(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines of each method and state of which three cohorts or more were measured."""
    cohorts = [row for row in rows if row["kind"] == "cohort"]
    pairs = {(row["method"], which) for row in cohorts for which in ("before", "now") if which in row}
    several = [(m, w) for m, w in sorted(pairs) if sum(row["method"] == m and w in row for row in cohorts) > 2]
    return [{"method": method, "which": which} | line(rows, method, which) for method, which in several]


def _used(who: int) -> float:
    found = resource.getrusage(who)
    return found.ru_utime + found.ru_stime


def _peak(process: int) -> float:
    """The largest resident memory that a process has had."""
    (line,) = (x for x in Path(f"/proc/{process}/status").read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / MB


def started(case: tuple[str, str, int], source: Path) -> dict[str, float]:
    """The measurements of a new process that imports the package from ``source``."""
    command = [sys.executable, __file__, "--one", *map(str, case)]
    paths = os.pathsep.join(map(str, (source, HERE)))
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="another checkout to compare with")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="only cases like this, as in 'cohort ditto'")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        kind, method, size = options.one
        print(json.dumps(measure(kind, method, int(size))))
        return
    from manyheads.core.machine import machine_facts

    sources = ({"before": options.against / "src"} if options.against else {}) | {"now": HERE.parent / "src"}
    cases = [case for case in CASES if options.only in " ".join(map(str, case))]
    runs: dict[Any, dict[str, list[dict[str, float]]]] = {case: {s: [] for s in sources} for case in cases}
    for _ in range(options.repeats):
        for case in cases:
            for which, source in sources.items():
                runs[case][which].append(started(case, source))
                print(".", end="", file=sys.stderr, flush=True)
    rows = []
    for (kind, method, size), found in runs.items():
        row: dict[str, Any] = {"kind": kind, "method": method, "size": size, "words": WORDS[kind]}
        row |= {"repeats": options.repeats, "load": os.getloadavg()[0]}
        for which, each in found.items():
            row[which] = {key: [one[key] for one in each] for key in each[0]}
            middle = {key: statistics.median(values) for key, values in row[which].items()}
            print(
                f"{kind:>10} {method:>8} {size:>10,} {which:>6} {middle['peak_mb']:7.0f} MB, workers "
                f"{middle['worker_peak_mb']:5.0f} MB; processor {middle['parent_processor']:6.2f} s, workers "
                f"{middle['workers_processor']:6.2f} s; {middle['seconds']:6.2f} s a round"
            )
        rows.append(row)
    if RESULT.exists():  # what is not measured now
        kept = {case_of(row): row for row in json.loads(RESULT.read_text())["rows"]}
        for row in rows:
            kept[case_of(row)] = kept.get(case_of(row), {}) | row
        rows = [kept[case] for case in CASES if case in kept]
    fits = lines(rows)
    for fit in fits:
        print(
            f"{fit['method']:>10} {fit['which']:>6}: {fit['peak_mb_a_client']:.3f} MB a client and "
            f"{fit['peak_mb_without']:.0f} MB; a worker {fit['worker_peak_mb_a_client']:.3f} and {fit['worker_peak_mb_without']:.0f}"
        )
    facts = {"rows": rows, "lines": fits, "load": os.getloadavg()[0], "machine": machine_facts()}
    RESULT.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
