"""How long the package and its commands take to start: ``python benchmarks/startup.py [--against OTHER_CHECKOUT]``.

Every repetition starts each command once, of this checkout and of the other in turn, in a new process. The least of the
repetitions counts, since whatever else the machine does can only add to it. Writes benchmarks/results/startup.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent
RESULT = HERE / "results" / "startup.json"
SCRIPT = """
import manyheads as mh
from manyheads.data import Classes, Digits, federate

mh.simulate(mh.FedAvg(), "mlp", federate(Digits().pool(seed=0), Classes(3), clients=20, seed=0), rounds=1)
"""
COMMANDS = {
    "import torch": ["-c", "import torch"],
    "import manyheads": ["-c", "import manyheads"],
    "import manyheads.api": ["-c", "import manyheads.api"],
    "manyheads --help": ["-m", "manyheads", "--help"],
    "manyheads --version": ["-m", "manyheads", "--version"],
    "manyheads report --help": ["-m", "manyheads", "report", "--help"],
    "manyheads run --help": ["-m", "manyheads", "run", "--help"],
    "manyheads compare --help": ["-m", "manyheads", "compare", "--help"],
    "manyheads data list": ["-m", "manyheads", "data", "list"],
    "manyheads run --data digits --rounds 1": ["-m", "manyheads", "run", "--data", "digits", "--rounds", "1", "--json"],
    "a script with one round on digits": ["-c", SCRIPT],
}


def started(words: list[str], source: Path) -> tuple[float, float]:
    """Seconds and processor seconds of a new process."""
    environment = os.environ | {"PYTHONPATH": str(source.resolve())}
    with TemporaryDirectory() as place:  # of the run
        before, begun = os.times(), time.perf_counter()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([sys.executable, *words], env=environment, cwd=place, check=True, **quiet)
    seconds, after = time.perf_counter() - begun, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, used


def main() -> None:
    from manyheads.core.machine import machine_facts

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "commands", nargs="*", default=list(COMMANDS), metavar="COMMAND", help="all, unless some are named"
    )
    parser.add_argument("--against", type=Path, help="another checkout to compare with")
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    sources = {"now": HERE.parent / "src"} | ({"before": options.against / "src"} if options.against else {})
    found: dict[str, dict[str, list[tuple[float, float]]]] = {
        name: {which: [] for which in sources} for name in options.commands
    }
    for _ in range(options.repeats):
        for name in found:
            for which, source in sources.items():
                found[name][which].append(started(COMMANDS[name], source))
        print(".", end="", file=sys.stderr, flush=True)
    before = json.loads(RESULT.read_text())["rows"] if RESULT.exists() else []
    rows = {row["command"]: row for row in before}  # of commands that are not timed now
    for name, runs in found.items():
        least = {which: [min(values) for values in zip(*pairs, strict=True)] for which, pairs in runs.items()}
        rows[name] = {"command": name, "repeats": options.repeats, "load": os.getloadavg()[0]}
        rows[name] |= {w: {"seconds": s, "processor_seconds": p} for w, (s, p) in least.items()}
        print(f"\n{name:40}", *(f"{which} {s:.3f} s, {p:.3f} of processor" for which, (s, p) in least.items()), end="")
    print()
    facts = {"rows": [rows[name] for name in COMMANDS if name in rows], "machine": machine_facts()}
    RESULT.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
