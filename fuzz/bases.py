"""What cases start from: a user's folder with small sites, and what the commands make of them, all of it sound."""

from __future__ import annotations

import csv
import importlib.util
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from fuzz.child import command

__all__ = ["ONNX", "PARTS", "SEARCH", "SOUND", "TWIN", "Bases"]

SITES, ROWS = 4, 14
SOUND, TWIN = "sound", "twin"
FLAGS: dict[str, list[str]] = {SOUND: [], TWIN: ["--seed", "5"]}
"""two such folders, alike but for the seed"""
ONNX = all(importlib.util.find_spec(name) for name in ("onnx", "onnxscript", "onnxruntime"))
"""may be missing: then the weights alone are tried"""
SEARCH = "3" if importlib.util.find_spec("optuna") else "0"
"""whole trainings that a search may cost; without Optuna, step sizes alone are tried"""


class Bases:
    """Folders that are filled with what is needed, once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in FLAGS:
            (folder / name).mkdir()

    def need(self, *parts: str, base: str = SOUND) -> None:
        """Make these parts unless they are there, after those that they are made of."""
        place = self.folder / base
        for part in parts:
            made_of, make = PARTS[part]
            self.need(*made_of, base=base)
            if not (place / part).exists():
                make(place, FLAGS[base])

    def copy(self, place: Path, *parts: str) -> None:
        """Give a case its own of these parts."""
        for part in parts:
            here = self.folder / SOUND / part
            if here.is_dir():
                shutil.copytree(here, place / part)
            else:
                shutil.copyfile(here, place / part)


def _clinics(place: Path, flags: Sequence[str]) -> None:
    (place / "clinics").mkdir()
    for i in range(SITES):
        _write_site(place / "clinics" / f"site{i}.csv", ROWS)


def _write_site(path: Path, rows: int) -> None:
    """A table with numbers, a category, gaps and a label of two classes."""
    rng = Random(path.name)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["age", "weight", "ward", "label"])
        for row in range(rows):
            age, kind = rng.gauss(50, 10), "ill" if row % 3 == 0 else "well"
            weight = "" if row == 5 else f"{rng.gauss(70, 5) + 9 * (kind == 'ill'):.2f}"
            writer.writerow([f"{age:.1f}", weight, rng.choice(["north", "south"]), kind])


def _new(place: Path, flags: Sequence[str]) -> None:
    _write_site(place / "new.csv", 30)


def _run(place: Path, flags: Sequence[str]) -> None:
    """With personal states, and a checkpoint after every round."""
    words = [
        "run",
        "--data",
        "sites",
        "--data.path",
        "clinics",
        "--algorithm",
        "fedrep",
        "--algorithm.head-epochs",
        "2",
    ]
    words += ["--model.hidden", "6", "--rounds", "3", "--participation", "0.75", "--checkpoint-seconds", "0"]
    _done(place, [*words, "--finetune", "head:1", "--workers", "1", "--out", "run", *flags])


def _comparison(place: Path, flags: Sequence[str]) -> None:
    words = ["compare", "clinics", "--methods", "fedavg,fedrep", "--seeds", "1", "--rates", "0.03,0.1", "--rounds", "2"]
    words += ["--folds", "2", "--local-rounds", "2"]
    _done(place, [*words, "--model.hidden", "6", "--workers", "1", "--out", "comparison", *flags])


def _search(place: Path, flags: Sequence[str]) -> None:
    words = ["tune", "fedprox", "clinics", "--search", SEARCH, "--seeds", "1", "--rates", "0.03,0.1", "--rounds", "2"]
    _done(place, [*words, "--model.hidden", "6", "--workers", "1", "--out", "search", *flags])


def _model(place: Path, flags: Sequence[str]) -> None:
    words = ["personalize", "run", "new.csv", "--out", "model", "--finetune", "head:3", "--curve", "5"]
    _done(place, [*words, "--export", "onnx" if ONNX else "none", *flags])


def _done(place: Path, words: Sequence[str]) -> None:
    """A command that must end well; on a still clock, so that every byte is the same the next time."""
    ended = command(words, place, still=True)
    if ended.code:
        raise RuntimeError(f"manyheads {' '.join(words)}: {ended.err}")


PARTS: dict[str, tuple[Sequence[str], Callable[[Path, Sequence[str]], None]]] = {
    "clinics": ((), _clinics),
    "new.csv": ((), _new),
    "run": (("clinics",), _run),
    "comparison": (("clinics",), _comparison),
    "search": (("clinics",), _search),
    "model": (("run", "new.csv"), _model),
}
