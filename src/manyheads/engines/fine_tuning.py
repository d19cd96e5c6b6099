"""Fine-tuning: local training from a given model, before it is evaluated or handed to a client."""

from __future__ import annotations

from manyheads.core.optim import FineTune
from manyheads.core.trees import Tree
from manyheads.engines.cohort import LocalCohort
from manyheads.models import TriedModel

__all__ = ["fine_tuned"]


def fine_tuned(cohort: LocalCohort, model: TriedModel, params: Tree, tune: FineTune) -> Tree:
    """The parameters after fine-tuning on each client's training samples."""
    for chosen in tune.parts:
        part = params.select(model.params.head) if chosen == "head" else params
        given = Tree({k: v for k, v in params.items() if k not in part})
        prox = None if tune.mu is None else (tune.mu, part)
        params = params | cohort.sgd(
            part, given=given, opt=tune.opt, batch=tune.batch, epochs=tune.epochs, steps=tune.steps, prox=prox
        )
    return params
