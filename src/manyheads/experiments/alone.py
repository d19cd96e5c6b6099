"""What a site can do alone besides training the network: simple models of scikit-learn, at each site of each fold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from manyheads.baselines import BASELINES, flat_inputs
from manyheads.core.checkpoint import read_tensors, write_tensors
from manyheads.core.errors import Damaged
from manyheads.data import Federation, Samples
from manyheads.experiments.cross import CROSS_SITES
from manyheads.experiments.study import Study

__all__ = ["AloneOutputs", "AloneTask", "alone_outputs", "fit_alone", "outputs_alone", "unfit_baselines"]


class AloneTask(NamedTuple):
    """Fit one kind of model at every site of a fold, or to the data of all sites together."""

    baseline: str
    fold: int
    pooled: bool = False

    def __str__(self) -> str:
        return f"{self.baseline}{' on pooled data' if self.pooled else ''}, fold {self.fold + 1}"


class AloneOutputs(NamedTuple):
    """Outputs of the models of a task."""

    validation: np.ndarray
    """for validation samples, of models fitted to the training samples"""
    test: np.ndarray
    """for test samples, of models fitted to training and validation samples"""
    cross: np.ndarray | None
    """of the latter models, each for the test samples of all sites, [models, samples, outputs]; None with many sites"""


def unfit_baselines(names: Sequence[str], federation: Federation) -> dict[str, str]:
    """The baselines that cannot be used with a federation, with the reasons."""
    reasons = {
        name: BASELINES.find(name, where="baselines")().unfit(federation.task, federation.train.x) for name in names
    }
    return {name: reason for name, reason in reasons.items() if reason}


def fit_alone(study: Study, task: AloneTask) -> list[str]:
    """Fit and predict, and save the outputs; returns messages to show."""
    said = []
    if _path(study, task).exists():
        try:
            alone_outputs(study, task)
            return []
        except Damaged as error:
            said.append(f"{error}; the models are fitted again")
    fold = (study.pooled if task.pooled else study.folds)[task.fold]
    found = {
        "validation": outputs_alone(task.baseline, fold.tuning, fold.validation, study.seed)[0],
        "test": None,
    }
    cross = not task.pooled and len(fold.final) <= CROSS_SITES
    found["test"], everywhere = outputs_alone(task.baseline, fold.final, fold.final.test, study.seed, cross)
    tensors = {name: torch.from_numpy(value) for name, value in found.items()}
    if everywhere is not None:
        tensors["cross"] = torch.from_numpy(everywhere)
    _path(study, task).parent.mkdir(parents=True, exist_ok=True)
    write_tensors(_path(study, task), tensors, _origin(study, task))
    return said


def alone_outputs(study: Study, task: AloneTask) -> AloneOutputs:
    """Return the outputs as saved by :func:`fit_alone`."""
    found = {name: value.numpy() for name, value in read_tensors(_path(study, task), _origin(study, task)).items()}
    return AloneOutputs(found["validation"], found["test"], found.get("cross"))


def outputs_alone(
    baseline: str, federation: Federation, samples: Samples, seed: int, cross: bool = False
) -> tuple[np.ndarray, np.ndarray | None]:
    """Outputs of each site's model for its own ``samples`` and, with ``cross``, for those of all sites."""
    model = BASELINES.find(baseline)()
    own, everywhere = [np.zeros((0, federation.outputs), np.float32)], []
    inputs = flat_inputs(federation, samples.x)
    for site in range(len(federation)):
        x, y = federation.train.client(site)
        own_rows = slice(federation.train.offsets[site], federation.train.offsets[site + 1])
        groups = None if federation.train.groups is None else federation.train.groups[own_rows]
        predict = model.fit(flat_inputs(federation, x), y, federation.task, federation.outputs, seed, groups)
        rows = slice(samples.offsets[site], samples.offsets[site + 1])
        if cross:
            everywhere.append(predict(inputs).astype(np.float32))
            own.append(everywhere[-1][rows])
        elif rows.stop > rows.start:
            own.append(predict(inputs[rows]).astype(np.float32))
    return np.concatenate(own), np.stack(everywhere) if cross else None


def _path(study: Study, task: AloneTask) -> Path:
    return study.out / "alone" / f"fold{task.fold}{'-pooled' if task.pooled else ''}-{task.baseline}.safetensors"


def _origin(study: Study, task: AloneTask) -> dict[str, str]:
    fold = (study.pooled if task.pooled else study.folds)[task.fold]
    facts = {"tuning": fold.tuning.fingerprint, "final": fold.final.fingerprint}
    return {**facts, "baseline": task.baseline, "seed": str(study.seed)}
