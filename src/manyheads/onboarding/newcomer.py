"""A client that was not part of the training: the model it starts with, and its fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from manyheads.core.contract import Round
from manyheads.core.errors import Diverged, UserError
from manyheads.core.optim import SGD, FineTune
from manyheads.core.randomness import Purpose
from manyheads.core.settings import as_dict, build
from manyheads.core.trees import Tree
from manyheads.data import Encoding, Samples
from manyheads.data.sites.new_site import NewSite
from manyheads.engines.class_weights import sample_weights
from manyheads.engines.client_data import ClientData
from manyheads.engines.cohort import LocalCohort
from manyheads.engines.evaluation import predict
from manyheads.engines.memory import Fitted, fitted
from manyheads.engines.workbench import model_of
from manyheads.metrics import Predictions
from manyheads.onboarding.scores import score
from manyheads.run.result import Run

__all__ = ["Newcomer", "Tuning"]

LEAST_STEPS = 300
"""of fine-tuning, unless told otherwise: ten epochs of a few samples are too few steps to fit a head"""


@dataclass(frozen=True)
class Tuning:
    """How a new client's model is fine-tuned, and who chose that."""

    setting: FineTune
    chosen_by: Literal["you", "run", "method", "default", "validation"]

    def on(self, samples: int) -> FineTune:
        """The fine-tuning on so many samples."""
        if self.chosen_by != "default":
            return self.setting
        epochs = self.setting.epochs * -(-samples // self.setting.batch)
        return replace(self.setting, steps=max(LEAST_STEPS, epochs))


class Newcomer:
    """A new client with its samples, and the model that the method gives it before any training of its own."""

    def __init__(self, run: Run, encoding: Encoding, site: NewSite, y: np.ndarray, seed: int) -> None:
        self.run, self.encoding, self.site, self.y = run, encoding, site, y
        self.population = len(run._store.slot)
        self.round = Round(run.rounds, seed, self.population, 1)
        self._state = run.algorithm.newcomer(run.model.params, run.server)
        self.model = model_of(run.algorithm, run.algorithm.models[0], run.server, self._state)
        kept, initial = {leaf.partition("/")[2] for leaf in self._state.flat}, run.model.params.all
        self.untrained = {k for k in kept & self.model.keys() if self.model[k].equal(initial[k])}
        few = self.data([encoding], np.arange(min(2, len(site)))).x
        self._tried = run.model.tried(few, encoding.task, encoding.outputs)

    @property
    def words(self) -> str:
        """What the model is before any training, in words."""
        if not self.untrained:
            return "the shared model"
        if self.untrained == self.model.keys():
            return "an untrained model"
        head = self.untrained == set(self.run.model.params.head)
        return "the shared body with an untrained head" if head else "the shared layers, the others untrained"

    def tuning(self, given: FineTune | str | None, lr: float | None) -> Tuning:
        """The user's setting, else the run's, else the method's own adaptation, else what suits the method."""
        algorithm, head = self.run.algorithm, set(self.run.model.params.head)
        sgd = getattr(algorithm, "sgd", SGD())
        default = FineTune(
            scope="head" if head and self.untrained <= head else "all",
            batch=getattr(algorithm, "batch", 0) or FineTune().batch,
            lr=sgd.lr,
            momentum=sgd.momentum,
            weight_decay=sgd.weight_decay,
        )
        if isinstance(given, str):
            given = build(FineTune, as_dict(default) | FineTune.parse(given), where="finetune")
        if given is not None:
            chosen = Tuning(given, "you")
        elif self.run.training.finetune.scope != "none":
            chosen = Tuning(self.run.training.finetune, "run")
        elif algorithm.adaptation().scope != "none":
            chosen = Tuning(algorithm.adaptation(), "method")
        else:
            chosen = Tuning(default, "default")
        if lr is not None:
            chosen = replace(chosen, setting=build(FineTune, as_dict(chosen.setting) | {"lr": lr}, where="finetune"))
        if chosen.setting.scope == "none":
            raise UserError(
                "a new client needs some training", where="finetune", given="none", allowed="head:10, all:5"
            )
        if "head" in chosen.setting.parts and not head:
            raise UserError("the model has no head to fine-tune", where="finetune", fix="use --finetune all:10")
        return chosen

    def tuned(self, tuning: Tuning, subsets: Sequence[np.ndarray], first: int = 0) -> tuple[Fitted, list[Encoding]]:
        """Models fine-tuned on about equally large subsets of the rows, each as if the client had no others.

        ``first`` numbers the subsets: each has random draws of its own.
        """
        encodings = [self.encoding.of_site(self.site.samples, rows) for rows in subsets]
        names = [self.population + first + i for i in range(len(subsets))]
        data = self.data(encodings, *subsets, training=True)
        mode = self.run.training.engine.mode
        cohort = LocalCohort(self._tried, data, names, self.round, mode, purpose=Purpose.FINETUNE)
        return fitted(cohort, self._tried, self._start(cohort), tuning.on(len(subsets[0]))), encodings

    def _start(self, cohort: LocalCohort) -> Tree:
        """The model that fine-tuning starts from; a method may choose it by the samples."""
        algorithm, server = self.run.algorithm, self.run.server
        if algorithm.models[0] != "personal" or not algorithm.settles:
            return self.model
        each = self._state.map(lambda v: v.expand(len(cohort.addresses), *v.shape))
        return model_of(algorithm, "personal", server, algorithm.settled(cohort, server, each))

    def predictions(self, models: Fitted, encodings: Sequence[Encoding], *rows: np.ndarray) -> Predictions:
        """What models predict for some of the rows, each for its own."""
        data, mode = self.data(encodings, *rows), self.run.training.engine.mode
        return predict(self._tried, models.params, data, mode, self.encoding.target, models.memories)

    def scores(self, models: Fitted, encodings: list[Encoding], test: np.ndarray) -> list[dict[str, Any]]:
        """The scores of models on the held-out rows ``test``."""
        found = self.predictions(models, encodings, *[test] * len(encodings))
        if not np.isfinite(found.losses).all():
            raise Diverged("fine-tuning ended in numbers that are not finite", fix="try a tenth of the step size: --lr")
        return [score(found.client(i), self.encoding) for i in range(len(encodings))]

    def data(self, encodings: Sequence[Encoding], *rows: np.ndarray, training: bool = False) -> ClientData:
        """Rows of the site's samples, each group with its own encoding, as those of one client each.

        In training, images are augmented and classes weighed as in the run, but by the client's own labels alone.
        """
        inputs = [e.inputs(self.site.samples)[r] for e, r in zip(encodings, rows, strict=True)]
        samples = Samples.of([(x, self.y[r]) for x, r in zip(inputs, rows, strict=True)])
        like = next(iter(self.run.model.params.all.values()))
        weighs = training and self.run.training.class_weights != "none"
        weight = sample_weights(samples, self.encoding.outputs) if weighs else None
        augment = training and self.encoding.augment
        return ClientData.of(samples, self.encoding.task, like, self.encoding.pixels, augment, weight)
