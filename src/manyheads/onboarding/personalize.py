"""A new client: its own model from a trained run and a few samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from manyheads.baselines import inner_folds
from manyheads.core.optim import FineTune
from manyheads.core.settings import as_dict
from manyheads.core.trees import Tree
from manyheads.data import Encoding
from manyheads.data.sites.new_site import new_site, read_new_site
from manyheads.engines.memory import Fitted
from manyheads.engines.threads import one_thread
from manyheads.models.memory import Memory, WithMemory
from manyheads.onboarding.adaptation import adapted
from manyheads.onboarding.alone import Alone, best_alone
from manyheads.onboarding.held_out import doubts, seen_by, split
from manyheads.onboarding.learning_curve import curve_point, curve_sizes, learning_curve
from manyheads.onboarding.newcomer import Newcomer, Tuning
from manyheads.onboarding.scores import check_task, score
from manyheads.onboarding.verdict import verdict
from manyheads.run.result import Run

__all__ = ["Personal", "personalize"]

FOLDS = 5
"""of the training samples, by which the fine-tuning is chosen and models are compared"""


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
    memory: Memory | None = None
    """of its training samples, if these have a say in its predictions"""

    @property
    def module(self) -> nn.Module:
        """The network with the client's parameters, and its memory if it has one, ready to predict."""
        network = self.run.model.module_with(self.params).requires_grad_(False)
        return network if self.memory is None else WithMemory(network, self.run.model.head_layer, self.memory)


@one_thread()
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
    adaptation, else 10 epochs, but at least 300 steps, of what suits it, unless cross-validation on the training samples
    favours another amount. ``lr`` changes its step size. Models of the client's samples alone are measured beside it.

    >>> import manyheads as mh
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=8, seed=0).with_new_clients(1, seed=0)
    >>> run = mh.simulate(mh.FedRep(sgd=mh.SGD(lr=0.05)), "mlp", federation, rounds=5)
    >>> mine = mh.personalize(run, federation.new.train.client(0))
    >>> mine.facts["after"]["accuracy"] > mine.facts["before"]["accuracy"]
    True
    """
    check_task(encoding := run.encoding)
    site = new_site(*data, encoding) if isinstance(data, tuple) else read_new_site(data, encoding)
    assert site.y is not None
    seen = seen_by(run, site, site.y, encoding)
    train, test = split(site.y, encoding, test_fraction, seed, seen)
    sizes, newcomer = curve_sizes(curve, len(train)), Newcomer(run, encoding, site, site.y, seed)
    given = newcomer.tuning(finetune, lr)
    folds = list(inner_folds(site.y[train], encoding.task, FOLDS, seed))
    say(f"training on {len(train)} samples")
    tuning, losses = adapted(newcomer, given, train, folds)
    mine, (own,) = newcomer.tuned(tuning, [train])
    (after,) = newcomer.scores(mine, [own], test)
    say("fitting models to the client's samples alone")
    alone = Alone(newcomer, seed)
    best = best_alone(models := alone.models(train, test, folds))
    scores = {name: score(each.held_out, encoding) for name, each in models.items()}
    points = learning_curve(newcomer, tuning, (alone, best) if best else None, sizes, train, test, say)
    ours = newcomer.predictions(mine, [own], test)
    last = curve_point(len(train), [after], [scores[best]] if best else None, encoding.task)
    facts = {
        **_facts(newcomer, tuning, train, test),
        "before": {"model": newcomer.words, **newcomer.scores(Fitted(newcomer.model), [own], test)[0]},
        "after": after | {"validation": float(losses.mean()) if folds else None},
        "alone": {n: {"model": m.words, **scores[n], "validation": m.validation} for n, m in models.items()},
        "best_alone": best,
        "verdict": verdict(ours, float(losses.mean()), models[best], len(train), encoding.task) if best else None,
        "curve": [*points, last],
        "seed": seed,
        "seen": None if seen is None else int(seen.sum()),
        "warnings": [*site.warnings, *doubts(run, site.y, encoding, seen, len(test))],
    }
    params = mine.first(run.model.params.all).params
    return Personal(run, params, own, own.inputs(site.samples)[test], facts, mine.memory)


def _facts(newcomer: Newcomer, tuning: Tuning, train: np.ndarray, test: np.ndarray) -> dict[str, Any]:
    """What is done."""
    run, encoding, tune = newcomer.run, newcomer.encoding, tuning.on(len(train))
    step = f", step size {tune.lr:g}" if tune.parts else ""
    return {
        "method": run.algorithm.name,
        "rounds": run.rounds,
        "samples": len(newcomer.site),
        "train": len(train),
        "held_out": len(test),
        "task": encoding.task,
        "finetune": as_dict(tune),
        "finetune_chosen_by": tuning.chosen_by,
        "protocol": f"{newcomer.words}, {tune.describe()} on {len(train)} samples{step}; "
        f"measured on {len(test)} held-out samples" + (f"; loss: {encoding.loss}" if encoding.loss else ""),
    }
