"""All cases of all kinds, several at a time."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import Protocol

from fuzz.bases import Bases
from fuzz.comparisons import COMPARISONS
from fuzz.configs import CONFIGS
from fuzz.lines import LINES
from fuzz.models import MODELS
from fuzz.runs import RUNS
from fuzz.searches import SEARCHES
from fuzz.tables import TABLES
from fuzz.verdict import Case
from manyheads.core.machine import machine_facts

__all__ = ["KINDS", "Kind", "Trials"]


class Kind(Protocol):
    """Cases of one kind."""

    name: str

    def prepare(self, bases: Bases, place: Path) -> None:
        """Ask for what all cases start from; ``place`` is for trying it out."""

    def attempt(self, rng: Random, place: Path) -> Case:
        """One case, in a folder of its own."""


CASES: list[tuple[Kind, int]] = [
    *((LINES, 600), (CONFIGS, 400), (TABLES, 500), (RUNS, 600), (COMPARISONS, 150), (SEARCHES, 150), (MODELS, 400))
]
KINDS = {kind.name: kind for kind, _ in CASES}


LIMIT = 3000
"""seconds for a whole case, which is more than all its commands may take"""


class Trials:
    """Cases from a seed, in a folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed, self.prepared, self.machine = folder, seed, set[str](), machine_facts()
        empty = folder / "nothing"
        empty.mkdir()
        os.environ |= {"MANYHEADS_DATA": str(empty), "HF_HUB_OFFLINE": "1", "COLUMNS": "80", "TMPDIR": str(folder)}
        os.environ["GIT_DIR"] = str(empty)  # results must not tell of a commit made in the meantime
        tempfile.tempdir = None  # asked for again
        _imported()
        self.bases = Bases(folder)

    def only(self, named: str) -> Case:
        name, _, number = named.partition(":")
        self._prepare(name)
        return self.attempt(name, int(number))

    def all(self, names: list[str], part: float, minutes: float, jobs: int) -> dict[str, list[Case]]:
        """Every kind's cases, as far as the time allows; those that fail are told at once."""
        until = time.monotonic() + 60 * minutes
        for name in names:
            self._prepare(name)
        counts = {kind.name: round(part * count) for kind, count in CASES if kind.name in names}
        # a share of every kind at a time, so that all have their part of the time
        queue = sorted((i / counts[name], name, i) for name in counts for i in range(counts[name]))
        found: dict[str, list[Case]] = {name: [] for name in counts}
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
            for name, number, case in pool.map(self._timely, ((n, i, until) for _, n, i in queue)):
                if case is not None:
                    found[name].append(case)
                    self._tell(name, number, case)
        return found

    def attempt(self, name: str, number: int) -> Case:
        """One case; its place is removed afterwards."""
        place = self.folder / f"{name}-{number}"
        place.mkdir()
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(LIMIT)
        try:
            return KINDS[name].attempt(Random(f"{self.seed} {name} {number}"), place)
        except Exception as error:  # of the case itself: it must not end the others, nor pass for a success
            return Case("", "broken", f"the case could not be tried: {error!r}", traceback.format_exc())
        finally:
            signal.alarm(0)
            shutil.rmtree(place, ignore_errors=True)

    def _timely(self, wanted: tuple[str, int, float]) -> tuple[str, int, Case | None]:
        name, number, until = wanted
        return name, number, self.attempt(name, number) if time.monotonic() < until else None

    def _prepare(self, name: str) -> None:
        if name not in KINDS:
            sys.exit(f"no kind {name!r}; there are {', '.join(KINDS)}")
        if name not in self.prepared:
            self.prepared.add(name)
            (self.folder / name).mkdir()
            KINDS[name].prepare(self.bases, self.folder / name)

    def _tell(self, name: str, number: int, case: Case) -> None:
        if case.wrong:
            again = f"python -m fuzz --seed {self.seed} --only {name}:{number}"
            print(f"FAILED {name}: {case.what}\n       {case.wrong}\n       {again}", flush=True)


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError("it took too long")


def _imported() -> None:
    """What commands import as they go, so that no case pays for it; and one thread, which alone survives a fork."""
    import altair  # noqa: F401
    import openpyxl  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import sklearn.datasets  # noqa: F401
    import torch
    import vl_convert

    import manyheads.cli.app
    import manyheads.cli.failures
    import manyheads.cli.streams
    import manyheads.report.figures
    import manyheads.report.live
    import manyheads.report.run_page  # noqa: F401

    torch.set_num_threads(1)
    vl_convert.javascript_bundle = lambda snippet, version=None: (
        ""
    )  # seconds a page, for a library that no case looks at
