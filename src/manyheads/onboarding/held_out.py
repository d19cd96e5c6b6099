"""Which of a new client's samples its model is trained on, and which are held out to measure it."""

from __future__ import annotations

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.randomness import Purpose, generator
from manyheads.core.tasks import task_named
from manyheads.data import Encoding
from manyheads.data.hashes import sample_hashes
from manyheads.data.sites.new_site import NewSite
from manyheads.run.result import Run

__all__ = ["doubts", "seen_by", "split"]


def seen_by(run: Run, site: NewSite, y: np.ndarray, encoding: Encoding) -> np.ndarray | None:
    """Which of the samples the run was trained on; None if that is not known."""
    trained = run.directory.trained()
    return None if trained is None else np.isin(sample_hashes(site.samples, y, encoding.columns), trained)


def split(
    y: np.ndarray, encoding: Encoding, fraction: float, seed: int, seen: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Training rows and held-out rows, stratified by label (or event); no row that the run has ``seen`` is held out.

    Rows are laid out label by label, in random order within each, and picked at even distances.
    """
    if not 0 < fraction < 1:
        raise UserError("out of range", where="test_fraction", given=fraction, allowed="more than 0, less than 1")
    rows = len(y)
    if rows < 2:
        raise UserError("the new client has too few samples to hold any out", given=rows, allowed="at least 2")
    unseen = np.arange(rows) if seen is None else np.flatnonzero(~seen)
    if not len(unseen):
        raise UserError(
            f"the run was trained on all of these {rows} samples: none is left to measure the model by",
            where="data",
            fix="give samples of the client that the run has not seen",
        )
    rng = generator(seed, Purpose.SPLIT)
    count = min(max(round(fraction * rows), 1), rows - 1, len(unseen))
    strata = task_named(encoding.task).strata(y)
    labels = np.zeros(rows) if strata is None else strata
    order = unseen[np.lexsort((rng.random(len(unseen)), labels[unseen]))]
    picked = np.diff((int(rng.integers(len(unseen))) + np.arange(len(unseen) + 1) * count) // len(unseen)) > 0
    held_out = np.sort(order[picked])
    return np.setdiff1d(np.arange(rows), held_out), held_out


def doubts(run: Run, y: np.ndarray, encoding: Encoding, seen: np.ndarray | None, held_out: int) -> list[str]:
    """Why the numbers measured on the held-out samples may mislead."""
    found = []
    if task_named(encoding.task).classes and len(np.unique(y)) == 1:
        found.append(f"all samples have the label {encoding.labels[int(y[0])]!r}: the accuracy tells nothing")
    if seen is None:
        why = (
            "the samples that the run was trained on are known to its sites alone"
            if run.at_sites
            else "the run does not tell what it was trained on"
        )
        found.append(f"{why}: if these samples are among them, the numbers are too good")
    elif seen.any():
        found.append(
            f"the run was trained on {seen.sum()} of these {len(seen)} samples: only others are held out ({held_out})"
        )
    return found
