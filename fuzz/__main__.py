"""``python -m fuzz``: try all cases, tell which fail and how to repeat them, and write what was tried."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from fuzz.record import record
from fuzz.trials import KINDS, Trials


def main() -> int:
    parser = argparse.ArgumentParser(
        "fuzz", description="Wrong uses and damaged files, each of which must be survived."
    )
    parser.add_argument("--seed", type=int, default=0, help="all cases come from it")
    parser.add_argument("--cases", type=float, default=1.0, help="as a part of the usual number")
    parser.add_argument("--kinds", default=",".join(KINDS), help="which, with commas between")
    parser.add_argument("--minutes", type=float, default=10.0, help="after which no more are begun")
    parser.add_argument("--jobs", type=int, default=2, help="at a time")
    parser.add_argument("--only", help="one case, as runs:17; what it printed is shown")
    parser.add_argument("--out", type=Path, help="file for what was tried, JSON")
    given = parser.parse_args()
    with TemporaryDirectory(prefix="manyheads-fuzz-") as folder:
        trials = Trials(Path(folder), given.seed)
        if given.only:
            case = trials.only(given.only)
            print(f"{case.what}\n{case.outcome} {case.wrong}\n{case.said}")
            for traceback in Path(folder).glob("manyheads-error-*"):
                print(traceback.read_text(encoding="utf-8"))
            return bool(case.wrong)
        found = trials.all(given.kinds.split(","), given.cases, given.minutes, given.jobs)
    if given.out:
        record(given.out, given.seed, trials.machine, found)
    return any(case.wrong for cases in found.values() for case in cases)


if __name__ == "__main__":
    sys.exit(main())
