"""Local optimizers and fine-tuning, as settings. The engine carries them out."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.fields import Neighbours, Scale, Weight
from manyheads.core.settings import settings

__all__ = ["SGD", "FineTune", "OptimizerName", "TorchOptimizer", "decays", "optimizer_named"]

OptimizerName = Literal["sgd", "adam", "adamw", "rmsprop", "adagrad"]


@settings
class SGD:
    """Stochastic gradient descent with momentum; the momentum starts from zero at every local update.

    ``v <- momentum * v + (gradient + weight_decay * w)``, ``w <- w - lr * v``.
    """

    lr: Annotated[float, Field(gt=0)] = 0.01
    """step size"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """momentum within one local update"""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """weight decay; not applied to biases"""


@settings
class TorchOptimizer:
    """Another optimizer of ``torch.optim``, with its own defaults except for these."""

    name: Literal["adam", "adamw", "rmsprop", "adagrad"] = "adam"
    """which"""
    lr: Annotated[float, Field(gt=0)] = 0.001
    """step size"""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """weight decay"""


def decays(parameter: str) -> bool:
    """Whether weight decay applies to a parameter of this name: to weights, not to biases.

    >>> [name for name in ("0.weight", "0.bias", "lstm.weight_ih_l0", "lstm.bias_ih_l0") if decays(name)]
    ['0.weight', 'lstm.weight_ih_l0']
    """
    return "bias" not in parameter.rpartition(".")[2]


def optimizer_named(name: OptimizerName, sgd: SGD) -> SGD | TorchOptimizer:
    """The optimizer of that name; others than sgd have its step size and weight decay."""
    return sgd if name == "sgd" else TorchOptimizer(name=name, lr=sgd.lr, weight_decay=sgd.weight_decay)


@settings
class FineTune:
    """Adapting a trained model to a client's own training samples, before it is evaluated: fine-tuning, or neighbours."""

    scope: Literal["none", "head", "all", "lp-ft", "knn"] = "none"
    """what is tuned: the head, or the whole model; lp-ft: first the head alone (a linear probe), then the whole model;
    knn: nothing, but the nearest training samples have a say in each prediction"""
    epochs: Annotated[int, Field(ge=0)] = 10
    """passes over the client's samples; lp-ft: of each of the two"""
    steps: Annotated[int, Field(ge=0)] = 0
    """steps; if not 0, instead of epochs"""
    batch: Annotated[int, Field(ge=0)] = 10
    """samples a step; 0: all the client has"""
    optimizer: OptimizerName = "sgd"
    """the optimizer"""
    lr: Annotated[float, Field(gt=0)] = 0.01
    """step size"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """momentum, of sgd"""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """weight decay"""
    mu: Annotated[float, Field(gt=0)] | None = None
    """strength of a pull to the model that tuning begins with, mu/2 |w - w_0|^2, as FedProx has it in training; none unless
    given; needs sgd"""
    neighbours: Neighbours | None = None
    """of knn: nearest training samples that have a say; 10 unless given"""
    scale: Scale | None = None
    """of knn: distance of features over which their say falls by a factor e; 1 unless given"""
    weight: Weight = None
    """of knn: their weight in a prediction; unless given, each client's own choice"""

    @property
    def knn(self) -> tuple[int, float]:
        """Number of neighbours and scale. Like ``mu`` they are None by default, so that most runs' settings lack them."""
        return self.neighbours or 10, self.scale or 1.0

    @property
    def opt(self) -> SGD | TorchOptimizer:
        return optimizer_named(self.optimizer, SGD(lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay))

    @property
    def parts(self) -> tuple[Literal["head", "all"], ...]:
        """What is tuned, one after the other."""
        if self.scope == "lp-ft":  # Kumar et al., Fine-Tuning can Distort Pretrained Features, ICLR 2022
            return ("head", "all")
        return () if self.scope == "none" or self.scope == "knn" else (self.scope,)

    def samples(self, sizes: np.ndarray) -> float:
        """How many samples it goes through at clients with so many of them.

        >>> FineTune(scope="lp-ft", epochs=5).samples(np.array([20, 30]))
        500.0
        """
        each = self.steps * np.minimum(self.batch or sizes, sizes) if self.steps else self.epochs * sizes
        return float(len(self.parts) * each.sum())

    def describe(self) -> str:
        """In words."""
        if self.scope == "knn":
            weight = "weights by leave-one-out" if self.weight is None else f"weight {self.weight:g}"
            return f"with its {self.knn[0]} nearest training samples ({weight})"
        amount = f"{self.steps} steps" if self.steps else f"{self.epochs} epochs"
        named = {"head": "the head", "all": "the whole model"}
        pull = "" if self.mu is None else f" with a pull to its beginning (mu {self.mu:g})"
        return "after fine-tuning " + ", then ".join(f"{named[part]} for {amount}{pull}" for part in self.parts)

    @staticmethod
    def parse(text: str) -> dict[str, str]:
        """Settings from ``head:10`` (epochs), ``all:1step``, ``lp-ft:5`` or ``knn:10`` (neighbours).

        >>> FineTune.parse("all:1step")
        {'scope': 'all', 'steps': '1'}
        """
        scope, _, amount = text.partition(":")
        count = amount.removesuffix("steps").removesuffix("step")
        known = ("none", "head", "all", "lp-ft", "knn")
        if scope not in known or (amount and not (amount if scope == "knn" else count).isdigit()):
            allowed = "head:EPOCHS, all:EPOCHS, lp-ft:EPOCHS, head:STEPSsteps, knn:NEIGHBOURS, none"
            raise UserError("cannot read", where="finetune", given=text, allowed=allowed)
        if not amount:
            return {"scope": scope}
        if scope == "knn":
            return {"scope": scope, "neighbours": count}
        return {"scope": scope, "steps" if "step" in amount else "epochs": count}
