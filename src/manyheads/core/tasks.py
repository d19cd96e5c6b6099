"""Tasks: what the outputs of a model are compared with, and the loss that training minimises."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

__all__ = ["TASKS", "Classification", "ClosedForm", "Regression", "Survival", "Task", "task_named"]


class ClosedForm(ABC):
    """Derivatives of a loss with respect to the outputs, without autograd. C clients, B samples, O outputs."""

    @abstractmethod
    def losses_and_slopes(self, out_CBO: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Every sample's loss, [C, B], and its gradient, [C, B, O], as new tensors that the caller may overwrite."""

    @abstractmethod
    def curved(self, out_CBO: Tensor, rate_CBO: Tensor) -> Tensor:
        """Every sample's Hessian times a tangent of the outputs, [C, B, O]."""


class Task(ABC):
    """A kind of problem; registered in :data:`TASKS`, it can be the ``task`` of a federation.

    A label has one number for each output, unless the task has ``classes`` or names the numbers of its ``label``. A task
    without a closed form is differentiated by autograd.
    """

    name: ClassVar[str]
    classes: ClassVar[bool] = False
    """whether labels are class numbers, of which the one with the largest output is predicted"""
    label: ClassVar[tuple[str, ...]] = ()
    """the names of the numbers of a label, if these are no targets of the outputs; there is one output then"""
    joint: ClassVar[bool] = False
    """whether the loss of a sample depends on the others of the batch; :meth:`losses` is then given one client's alone"""
    metrics: ClassVar[tuple[str, ...]] = ("loss",)
    """names of the metrics of every evaluation; the first is the score by which methods are compared"""
    further: ClassVar[tuple[str, ...]] = ()
    """names of further metrics, which take longer: of the evaluations that are reported"""
    reported: ClassVar[float] = 1.0
    """factor from the loss that training minimises to the one that is reported"""
    loss_words: ClassVar[str] = ""
    """the name of the reported loss in words, if the loss is the score"""
    closed_form: ClassVar[ClosedForm | None] = None

    @abstractmethod
    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The loss of every sample, [B], from outputs [B, O] (or [B], if a model has a single one) and labels."""

    def client_losses(self, outputs: Tensor, labels: Tensor, weight_CB: Tensor) -> Tensor:
        """Each client's loss, [C]: the weighted sum of its samples' losses; a weight of 0 is padding."""
        import torch

        if not self.joint:
            each = self.losses(outputs.flatten(0, 1), labels.flatten(0, 1))
            return (each.view(weight_CB.shape) * weight_CB).sum(dim=1)
        clients = zip(outputs, labels, weight_CB, weight_CB > 0, strict=True)
        return torch.stack([(self.losses(o[real], y[real]) * w[real]).sum() for o, y, w, real in clients])

    def outputs_for(self, labels: np.ndarray) -> int:
        """How many outputs a model needs for such labels."""
        if self.label:
            return 1
        return int(labels.max()) + 1 if self.classes else math.prod(labels.shape[1:])

    def wrong_labels(self, labels: np.ndarray) -> tuple[np.ndarray, str]:
        """A mask of labels that the task cannot use, and what is wrong with them."""
        return np.zeros(len(labels), bool), ""

    def label_type(self, like: Tensor) -> torch.dtype:
        """The dtype of labels, for a model with parameters like this one."""
        import torch

        return torch.int64 if self.classes else like.dtype

    def answers(self, labels: Tensor, outputs: int) -> Tensor | None:
        """Labels as answers that can be averaged, [B, O]: shares of the classes, or values; None if they are no such thing."""
        from torch.nn import functional

        return functional.one_hot(labels, outputs) if self.classes else None

    def strata(self, labels: np.ndarray) -> np.ndarray | None:
        """What each part of a client's samples has its share of: the classes; None: of nothing, parts are random."""
        return labels if self.classes else None

    def check_output(self, out: Any, samples: int, outputs: int) -> None:
        """Raise an error if a model's output for so many samples does not fit the labels."""
        shape = tuple(out.shape) if hasattr(out, "shape") else None
        if shape == (samples, outputs) or (not self.classes and outputs == 1 and shape == (samples,)):
            return
        raise UserError(
            "the model's output does not fit the labels",
            given=type(out).__name__ if shape is None else f"outputs of shape {shape[1:]}",
            allowed=f"({outputs},) for {self.name} with {outputs} {'classes' if self.classes else 'targets'}",
        )


def _check(cls: Any) -> None:
    if not (isinstance(cls, type) and issubclass(cls, Task)):
        raise UserError(f"{cls!r} is no Task", fix="derive a class from manyheads.Task")
    if getattr(cls, "__abstractmethods__", None):
        raise UserError(f"{cls.__name__} does not say what its loss is", fix="write its method losses")


TASKS: Registry[type[Task]] = Registry("task", _check)


def task_named(name: str) -> Task:
    """The task of that name, or at ``package.module:Name``."""
    return TASKS.find(name, where="task")()


class _CrossEntropy(ClosedForm):
    def losses_and_slopes(self, out_CBO: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        log, right = out_CBO.log_softmax(dim=2), labels.unsqueeze(2)
        loss_CB = -log.gather(2, right).squeeze(2)
        return loss_CB, log.exp_().scatter_(2, right, -1.0, reduce="add")

    def curved(self, out_CBO: Tensor, rate_CBO: Tensor) -> Tensor:
        p = out_CBO.softmax(dim=2)
        return p * (rate_CBO - (p * rate_CBO).sum(dim=2, keepdim=True))


class _SquaredError(ClosedForm):
    def losses_and_slopes(self, out_CBO: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        slope = out_CBO - labels.reshape(out_CBO.shape)
        return 0.5 * slope.square().sum(dim=2), slope

    def curved(self, out_CBO: Tensor, rate_CBO: Tensor) -> Tensor:
        return rate_CBO


@TASKS.register
class Classification(Task):
    """One class per sample; the loss is the cross entropy of the outputs' softmax."""

    name = "classification"
    classes = True
    metrics = ("accuracy", "loss")
    further = ("balanced_accuracy", "auc", "average_precision", "f1", "brier", "calibration_error")
    closed_form = _CrossEntropy()

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        from torch.nn import functional

        return functional.cross_entropy(outputs, labels, reduction="none")


@TASKS.register
class Regression(Task):
    """One or several numbers per sample; training minimises half the squared error, reports show the whole."""

    name = "regression"
    metrics = ("rmse", "loss")
    further = ("mae", "r2")
    reported = 2.0
    loss_words = "squared error"
    closed_form = _SquaredError()

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return 0.5 * (outputs.reshape(len(labels), -1) - labels.reshape(len(labels), -1)).square().sum(dim=1)

    def answers(self, labels: Tensor, outputs: int) -> Tensor:
        return labels.reshape(len(labels), outputs)


@TASKS.register
class Survival(Task):
    """The time until an event, by Cox's model: the output is a log risk, compared with those of the client's batch.

    A label is (time, event), event being 1 if it happened then and 0 if the subject was last seen then. Training minimises
    the negative log partial likelihood over the number of samples; whole clients as batches (``batch=0``) give that of
    all clients, stratified by client.
    """

    name = "survival"
    label = ("time", "event")
    joint = True
    metrics = ("c_index", "loss")

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        from manyheads.core.cox import cox_losses

        return cox_losses(outputs.flatten(), labels[:, 0], labels[:, 1])

    def strata(self, labels: np.ndarray) -> np.ndarray:
        return labels[:, 1]

    def wrong_labels(self, labels: np.ndarray) -> tuple[np.ndarray, str]:
        if labels.shape[1:] != (2,):
            return np.ones(len(labels), bool), "is not a pair (time, event)"
        early = ~(labels[:, 0] >= 0)
        if early.any():
            return early, "has a time that is not a number from 0 on"
        return ~np.isin(labels[:, 1], (0, 1)), "has an event that is neither 0 nor 1"
