"""A new client: its own model from a trained run and a few samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.contract import Round
from manyheads.core.errors import Diverged, UserError
from manyheads.core.optim import SGD, FineTune
from manyheads.core.randomness import Purpose, generator
from manyheads.core.settings import as_dict, build
from manyheads.core.trees import Tree
from manyheads.data import Encoding, Samples
from manyheads.data.hashes import sample_hashes
from manyheads.data.sites.new_site import NewSite, new_site, read_new_site
from manyheads.engines.client_data import ClientData
from manyheads.engines.cohort import LocalCohort, fine_tuned
from manyheads.engines.evaluation import evaluate
from manyheads.engines.workbench import model_of
from manyheads.run.result import Run

__all__ = ["Personal", "personalize"]

SUBSETS = 5
"""random subsets of the training samples for each point of the learning curve"""
SMALLEST = 5
"""samples at the first point of the curve, unless told otherwise; then doubled"""
LEAST_STEPS = 300
"""of fine-tuning, unless told otherwise: ten epochs of a few samples are too few steps to fit a head"""


@dataclass(frozen=True, eq=False)
class Personal:
    """A new client's model, and how good it is on samples that it was not trained on."""

    run: Run
    params: Tree
    encoding: Encoding
    """with the client's own scaling"""
    held_out: np.ndarray
    """encoded inputs of those samples"""
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
    site = new_site(*data, encoding) if isinstance(data, tuple) else read_new_site(data, encoding)
    assert site.y is not None
    seen = _seen(run, site, site.y, encoding)
    train, test = _split(site.y, encoding, test_fraction, seed, seen)
    sizes = _sizes(curve, len(train))
    newcomer = _Newcomer(run, encoding, site, site.y, test, seed)
    newcomer.choose(finetune, lr)
    tune = newcomer.tuning(len(train))
    say(f"training on {len(train)} samples")
    params, own, after = newcomer.tuned([train], 0)
    points = []
    for place, size in enumerate(sizes):
        say(f"learning curve: {SUBSETS} times {size} samples")
        rng = generator(seed, Purpose.SAMPLING, size)
        subsets = [np.sort(rng.choice(train, size, replace=False)) for _ in range(SUBSETS)]
        points.append(_point(size, newcomer.tuned(subsets, 1 + place * SUBSETS)[2]))
    template = run.model.params.all
    facts = {
        "method": run.algorithm.name,
        "rounds": run.rounds,
        "samples": len(site),
        "train": len(train),
        "held_out": len(test),
        "task": encoding.task,
        "finetune": as_dict(tune),
        "finetune_chosen_by": newcomer.chosen_by,
        "protocol": f"{newcomer.words}, {tune.describe()} on {len(train)} samples, step size {tune.lr:g}; "
        f"measured on {len(test)} held-out samples" + (f"; loss: {encoding.loss}" if encoding.loss else ""),
        "before": {"model": newcomer.words, **newcomer.before(own[0])},
        "after": after[0],
        "baseline": _baseline(site.y, train, test, encoding),
        "curve": [*points, _point(len(train), after)],
        "seed": seed,
        "seen": None if seen is None else int(seen.sum()),
        "warnings": [*site.warnings, *_doubts(site.y, encoding), *_known(seen, len(test))],
    }
    return Personal(
        run,
        Tree({k: v[0] if v.ndim > template[k].ndim else v for k, v in params.items()}),
        own[0],
        own[0].inputs(site.samples)[test],
        facts,
    )


class _Newcomer:
    """What the method gives a client that was not part of the training, and what becomes of it with samples."""

    def __init__(self, run: Run, encoding: Encoding, site: NewSite, y: np.ndarray, test: np.ndarray, seed: int) -> None:
        self.run, self.encoding, self.site, self.y, self.test = run, encoding, site, y, test
        self.population = len(run._store.slot)
        self.round = Round(run.rounds, seed, self.population, 1)
        state = run.algorithm.newcomer(run.model.params, run.server)
        self.model = model_of(run.algorithm, run.algorithm.models[0], run.server, state)
        kept, initial = {leaf.partition("/")[2] for leaf in state.flat}, run.model.params.all
        self.untrained = {k for k in kept & self.model.keys() if self.model[k].equal(initial[k])}
        run.model.check(self._data([encoding], np.arange(min(2, len(site)))).x, encoding.task, encoding.outputs)

    @property
    def words(self) -> str:
        """The newcomer's model before any training."""
        if not self.untrained:
            return "the shared model"
        if self.untrained == self.model.keys():
            return "an untrained model"
        head = self.untrained == set(self.run.model.params.head)
        return "the shared body with an untrained head" if head else "the shared layers, the others untrained"

    def choose(self, given: FineTune | str | None, lr: float | None) -> None:
        """Decide how it is fine-tuned, and note who says so."""
        algorithm, head = self.run.algorithm, set(self.run.model.params.head)
        sgd = getattr(algorithm, "sgd", SGD())
        suits = FineTune(
            scope="head" if head and self.untrained <= head else "all",
            batch=getattr(algorithm, "batch", 0) or FineTune().batch,
            lr=sgd.lr,
            momentum=sgd.momentum,
            weight_decay=sgd.weight_decay,
        )
        self.tune, self.chosen_by = suits, "default"
        for tune, who in ((algorithm.adaptation(), "method"), (self.run.training.finetune, "run")):
            if tune.scope != "none":
                self.tune, self.chosen_by = tune, who
        if isinstance(given, str):
            given = build(FineTune, as_dict(suits) | FineTune.parse(given), where="finetune")
        if given is not None:
            self.tune, self.chosen_by = given, "you"
        if lr is not None:
            self.tune = build(FineTune, as_dict(self.tune) | {"lr": lr}, where="finetune")
        if self.tune.scope == "none":
            raise UserError(
                "a new client needs some training", where="finetune", given="none", allowed="head:10, all:5"
            )
        if self.tune.scope == "head" and not head:
            raise UserError("the model has no head to fine-tune", where="finetune", fix="use --finetune all:10")

    def tuning(self, samples: int) -> FineTune:
        """The fine-tuning on so many samples."""
        if self.chosen_by != "default":
            return self.tune
        return replace(self.tune, steps=max(LEAST_STEPS, self.tune.epochs * -(-samples // self.tune.batch)))

    def tuned(self, subsets: Sequence[np.ndarray], first: int) -> tuple[Tree, list[Encoding], list[dict[str, Any]]]:
        """Models trained on equally large subsets of the rows, each as if the client had no others, and their scores."""
        encodings = [self.encoding.of_site(self.site.samples, rows) for rows in subsets]
        names = [self.population + first + i for i in range(len(subsets))]  # draws of their own
        mode = self.run.training.engine.mode
        data = self._data(encodings, *subsets, augment=self.encoding.augment)
        cohort = LocalCohort(self.run.model, data, names, self.round, mode, purpose=Purpose.FINETUNE)
        params = fine_tuned(cohort, self.run.model, self.model, self.tuning(len(subsets[0])))
        return params, encodings, self._scores(params, encodings)

    def before(self, encoding: Encoding) -> dict[str, Any]:
        """The newcomer's model without any training of its own."""
        return self._scores(self.model, [encoding])[0]

    def _scores(self, params: Tree, encodings: list[Encoding]) -> list[dict[str, Any]]:
        data = self._data(encodings, *[self.test] * len(encodings))
        sums = evaluate(self.run.model, params, data, self.run.training.engine.mode).sums()
        if not np.isfinite(sums.loss).all():
            raise Diverged("fine-tuning ended in numbers that are not finite", fix="try a tenth of the step size: --lr")
        return [_score(loss, correct, len(self.test), self.encoding) for loss, correct in zip(*sums[:2], strict=True)]

    def _data(self, encodings: Sequence[Encoding], *rows: np.ndarray, augment: bool = False) -> ClientData:
        """Rows of the site's samples, each group encoded in its own way, as those of one client each."""
        inputs = [e.inputs(self.site.samples)[r] for e, r in zip(encodings, rows, strict=True)]
        samples = Samples.of([(x, self.y[r]) for x, r in zip(inputs, rows, strict=True)])
        like = next(iter(self.run.model.params.all.values()))
        return ClientData.of(samples, self.encoding.task, like, self.encoding.pixels, augment)


def _seen(run: Run, site: NewSite, y: np.ndarray, encoding: Encoding) -> np.ndarray | None:
    """Which of the samples the run was trained on; None if that cannot be told."""
    trained = run.directory.trained()
    return None if trained is None else np.isin(sample_hashes(site.samples, y, encoding.columns), trained)


def _split(
    y: np.ndarray, encoding: Encoding, fraction: float, seed: int, seen: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Training rows and held-out rows: of every label its part, rounded up or down, none that the run has ``seen``.

    Rows are laid out label by label, in random order within each, and picked at even distances.
    """
    if not 0 < fraction < 1:
        raise UserError("out of range", where="test_fraction", given=fraction, allowed="more than 0, less than 1")
    rows = len(y)
    if rows < 2:
        raise UserError("the new client has too few samples to hold any out", given=rows, allowed="at least 2")
    fresh = np.arange(rows) if seen is None else np.flatnonzero(~seen)
    if not len(fresh):
        raise UserError(
            f"the run was trained on all of these {rows} samples: none is left to measure the model by",
            where="data",
            fix="give samples of the client that the run has not seen",
        )
    rng = generator(seed, Purpose.SPLIT)
    count = min(max(round(fraction * rows), 1), rows - 1, len(fresh))
    labels = y if encoding.task == "classification" else np.zeros(rows)
    order = fresh[np.lexsort((rng.random(len(fresh)), labels[fresh]))]
    picked = np.diff((int(rng.integers(len(fresh))) + np.arange(len(fresh) + 1) * count) // len(fresh)) > 0
    held_out = np.sort(order[picked])
    return np.setdiff1d(np.arange(rows), held_out), held_out


def _sizes(curve: Sequence[int] | None, most: int) -> list[int]:
    """Numbers of samples at which the learning curve is measured, all of them excepted."""
    if curve is None:
        doubled = (SMALLEST * 2**i for i in range(64))
        return [n for n in doubled if n < most]
    wrong = [n for n in curve if not 1 <= n <= most]
    if wrong:
        raise UserError("no such number of training samples", where="curve", given=wrong[0], allowed=f"1 to {most}")
    return sorted(set(curve) - {most})


def _score(loss: float, correct: float, samples: int, encoding: Encoding) -> dict[str, Any]:
    """Accuracy with its 95 % interval (Wilson's), or the root mean squared error in the target's unit; and the loss."""
    if encoding.task == "regression":  # the loss is the squared error, of scaled targets
        return {"rmse": float(np.sqrt(loss / samples)) * encoding.target[1], "loss": float(loss) / samples}
    from scipy.stats import binomtest  # takes long to load

    interval = binomtest(round(correct), samples).proportion_ci(0.95, "wilson")
    return {
        "accuracy": float(correct) / samples,
        "correct": round(correct),
        "interval": [interval.low, interval.high],
        "loss": float(loss) / samples,
    }


def _point(samples: int, scores: list[dict[str, Any]]) -> dict[str, Any]:
    """A point of the learning curve: mean and standard deviation over subsets."""
    measure = "accuracy" if "accuracy" in scores[0] else "rmse"
    values = [s[measure] for s in scores]
    spread = {"min": min(values), "max": max(values), "std": float(np.std(values, ddof=1)) if len(values) > 1 else None}
    return {"samples": samples, "subsets": len(values), measure: float(np.mean(values)), **spread}


def _baseline(y: np.ndarray, train: np.ndarray, test: np.ndarray, encoding: Encoding) -> dict[str, Any]:
    """Without any model: always the most frequent label, or the mean target, of the training samples."""
    if encoding.task == "regression":
        mean = y[train].mean(axis=0)
        loss = float(np.square(y[test] - mean).sum())
        return {"value": encoding.unscaled(mean).tolist(), **_score(loss, 0, len(test), encoding)}
    most = int(np.bincount(y[train]).argmax())
    return {"label": encoding.labels[most], "accuracy": float((y[test] == most).mean())}


def _known(seen: np.ndarray | None, held_out: int) -> list[str]:
    """What the run's own training samples among these mean for the numbers."""
    if seen is None:
        return [
            "the run does not tell what it was trained on: if these samples are among that, the numbers are too good"
        ]
    if not seen.any():
        return []
    return [f"the run was trained on {seen.sum()} of these {len(seen)} samples: only others are held out ({held_out})"]


def _doubts(y: np.ndarray, encoding: Encoding) -> list[str]:
    if encoding.task == "classification" and len(np.unique(y)) == 1:
        return [f"all samples have the label {encoding.labels[int(y[0])]!r}: the accuracy tells nothing"]
    return []
