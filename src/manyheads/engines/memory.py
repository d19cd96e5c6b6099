"""Models fitted to their clients at test time: parameters, and what a client remembers of its training samples."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from manyheads.core.errors import UserError
from manyheads.core.optim import FineTune
from manyheads.core.tasks import Task
from manyheads.core.trees import Tree
from manyheads.engines.cohort import LocalCohort
from manyheads.engines.evaluation import features_of, outputs_of
from manyheads.engines.fine_tuning import fine_tuned
from manyheads.models import TriedModel
from manyheads.models.memory import SLICE, Memory, mixed, nearest

__all__ = ["Fitted", "check_memory", "fitted"]

WEIGHTS = tuple(i / 10 for i in range(10))
"""among which a client chooses; not 1, by which a class that no neighbour has would be impossible"""


class Fitted(NamedTuple):
    """What clients predict with."""

    params: Tree
    """shared, or with the client dimension"""
    memories: tuple[Memory, ...] = ()
    """of each client, if neighbours have a say"""

    def first(self, template: Tree) -> Fitted:
        """The first client's, without a client dimension."""
        own = {k: v[0] if v.ndim > template[k].ndim else v for k, v in self.params.items()}
        return Fitted(Tree(own), self.memories[:1])

    @property
    def memory(self) -> Memory | None:
        """The first client's."""
        return next(iter(self.memories), None)


def fitted(cohort: LocalCohort, model: TriedModel, params: Tree, tune: FineTune) -> Fitted:
    """The models after fine-tuning on each client's training samples, or with these samples remembered."""
    params = fine_tuned(cohort, model, params, tune)
    if tune.scope != "knn":
        return Fitted(params)
    check_memory(model, cohort.data.task)
    return Fitted(params, tuple(_memories(cohort, model, params, tune)))


def check_memory(model: TriedModel, task: Task) -> None:
    """Refuse a model without features to compare samples by, and a task whose labels cannot be averaged."""
    if task.answers(torch.zeros(0, dtype=task.label_type(torch.zeros(()))), 1) is None:
        raise UserError(f"neighbours cannot answer for {task.name}: the mean of their labels is no output of a model")
    if model.head_net is None and model.params.body:
        raise UserError(
            "the model has no features to find neighbours by: its output is not a head applied to them",
            fix="name its last layer as the head of the model",
        )


@torch.no_grad()
def _memories(cohort: LocalCohort, model: TriedModel, params: Tree, tune: FineTune) -> Iterator[Memory]:
    data = cohort.data
    model.module.eval()
    z, out = features_of(model, params, data).flatten(1), outputs_of(model, params, data, cohort.mode)
    model.module.train()
    answers = data.task.answers(data.y, out[:1].numel())
    assert answers is not None
    answers, (neighbours, scale) = answers.to(out.dtype), tune.knn
    for start, stop in pairwise(data.offsets.tolist()):
        rows, weight = slice(start, stop), tune.weight
        if weight is None:
            weight = _chosen(z[rows], answers[rows], out[rows], data.y[rows], data.task, tune)
        yield Memory(
            z[rows], answers[rows],
            neighbours=neighbours, scale=scale, weight=weight, classes=data.task.classes,
        )  # fmt: skip


def _chosen(z: Tensor, answers: Tensor, out: Tensor, y: Tensor, task: Task, tune: FineTune) -> float:
    """The weight with the least mean loss on the training samples, each predicted by the others."""
    if len(z) < 2:
        return 0.0
    rows = torch.arange(len(z), device=z.device)
    parts = [rows[first : first + SLICE] for first in range(0, len(z), SLICE)]
    near = torch.cat([nearest(z[own], z, answers, *tune.knn, own) for own in parts])
    losses = [float(task.losses(mixed(out, near, weight, task.classes), y).mean()) for weight in WEIGHTS]
    return WEIGHTS[losses.index(min(losses))]
