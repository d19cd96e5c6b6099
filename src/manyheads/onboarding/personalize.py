"""A new client: its own model from a trained run and a few samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.optim import FineTune
from manyheads.core.randomness import Purpose, generator
from manyheads.core.settings import as_dict
from manyheads.core.trees import Tree
from manyheads.data import Encoding
from manyheads.data.sites.new_site import new_site, read_new_site
from manyheads.engines.workbench import of_one
from manyheads.onboarding.held_out import doubts, seen_by, split
from manyheads.onboarding.newcomer import Newcomer, Tuning
from manyheads.onboarding.scores import baseline, check_task, curve_point, curve_sizes
from manyheads.run.result import Run

__all__ = ["Personal", "personalize"]

SUBSETS = 5
"""random subsets of the training samples for each point of the learning curve"""


@dataclass(frozen=True, eq=False)
class Personal:
    """A new client's model, and how good it is on samples that it was not trained on."""

    run: Run
    params: Tree
    encoding: Encoding
    """with the client's own scaling"""
    examples: np.ndarray
    """encoded inputs to try its exports on"""
    facts: dict[str, Any]
    """what was done and measured, as plain values"""


def personalize(
    run: Run,
    data: str | Path | tuple[np.ndarray, np.ndarray],
    *,
    finetune: FineTune | str | None = None,
    lr: float | None = None,
    test_fraction: float = 0.3,
    curve: Sequence[int] | None = None,
    seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> Personal:
    """Give a new client its own model: what the method gives a newcomer, fine-tuned on the client's samples.

    ``data`` is a file (see :func:`manyheads.data.sites.new_site.read_new_site`) or arrays ``(x, y)``. A part of the samples is
    held out to measure the model before and after; ``curve`` are numbers of training samples to measure it for as well.
    ``finetune`` is as in a run, or in short ``"head:10"``; without it, the run's own setting, else the method's own
    adaptation, else 10 epochs, but at least 300 steps, of what suits it. ``lr`` changes its step size.

    >>> import manyheads as mh
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=8, seed=0).with_new_clients(1, seed=0)
    >>> run = mh.simulate(mh.FedRep(sgd=mh.SGD(lr=0.05)), "mlp", federation, rounds=5)
    >>> mine = mh.personalize(run, federation.new.train.client(0))
    >>> mine.facts["after"]["accuracy"] > mine.facts["before"]["accuracy"]
    True
    """
    encoding = run.encoding
    check_task(encoding)
    site = new_site(*data, encoding) if isinstance(data, tuple) else read_new_site(data, encoding)
    assert site.y is not None
    seen = seen_by(run, site, site.y, encoding)
    train, test = split(site.y, encoding, test_fraction, seed, seen)
    sizes = curve_sizes(curve, len(train))
    newcomer = Newcomer(run, encoding, site, site.y, seed)
    tuning = newcomer.tuning(finetune, lr)
    say(f"training on {len(train)} samples")
    params, (own,) = newcomer.tuned(tuning, [train])
    after = newcomer.scores(params, [own], test)
    facts = {
        **_facts(newcomer, tuning, train, test),
        "before": {"model": newcomer.words, **newcomer.scores(newcomer.model, [own], test)[0]},
        "after": after[0],
        "baseline": baseline(site.y, train, test, encoding),
        "curve": [*_curve(newcomer, tuning, sizes, train, test, seed, say), curve_point(len(train), after)],
        "seed": seed,
        "seen": None if seen is None else int(seen.sum()),
        "warnings": [*site.warnings, *doubts(site.y, encoding, seen, len(test))],
    }
    return Personal(run, of_one(params, run.model.params.all), own, own.inputs(site.samples)[test], facts)


def _facts(newcomer: Newcomer, tuning: Tuning, train: np.ndarray, test: np.ndarray) -> dict[str, Any]:
    """What is done."""
    run, encoding, tune = newcomer.run, newcomer.encoding, tuning.on(len(train))
    return {
        "method": run.algorithm.name,
        "rounds": run.rounds,
        "samples": len(newcomer.site),
        "train": len(train),
        "held_out": len(test),
        "task": encoding.task,
        "finetune": as_dict(tune),
        "finetune_chosen_by": tuning.chosen_by,
        "protocol": f"{newcomer.words}, {tune.describe()} on {len(train)} samples, step size {tune.lr:g}; "
        f"measured on {len(test)} held-out samples" + (f"; loss: {encoding.loss}" if encoding.loss else ""),
    }


def _curve(
    newcomer: Newcomer,
    tuning: Tuning,
    sizes: Sequence[int],
    train: np.ndarray,
    test: np.ndarray,
    seed: int,
    say: Callable[[str], None],
) -> Iterator[dict[str, Any]]:
    """The learning curve: models trained on random subsets of the training samples, at each of the sizes."""
    for place, size in enumerate(sizes):
        say(f"learning curve: {SUBSETS} times {size} samples")
        rng = generator(seed, Purpose.SAMPLING, size)
        subsets = [np.sort(rng.choice(train, size, replace=False)) for _ in range(SUBSETS)]
        params, encodings = newcomer.tuned(tuning, subsets, first=1 + place * SUBSETS)
        yield curve_point(size, newcomer.scores(params, encodings, test))
