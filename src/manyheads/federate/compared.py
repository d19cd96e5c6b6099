"""A site's part in a comparison: models of its own besides networks, and what it tells of validation and test samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from manyheads.core.checkpoint import read_tensors, write_tensors
from manyheads.core.errors import Damaged
from manyheads.data import Federation, Samples
from manyheads.experiments.alone import outputs_alone
from manyheads.experiments.folds import Fold
from manyheads.experiments.outcomes import out_of_fold, predictions_of
from manyheads.experiments.told import MethodTold, Told, tell, tell_validation
from manyheads.federate.rules import Policy
from manyheads.federate.table import Division
from manyheads.metrics import METRICS

__all__ = ["AtSite"]


@dataclass(frozen=True)
class AtSite:
    """The federations of a comparison at one site, and the folder of what it has computed for it."""

    federations: Sequence[Federation]
    division: Division
    folder: Path
    policy: Policy

    @property
    def folds(self) -> list[Fold]:
        """As the simulator has them; models are not made by these."""
        places = [(self.division.tuning(fold), self.division.final(fold)) for fold in range(self.division.folds)]
        return [Fold(self.federations[t], self.federations[f], _none, _none) for t, f in places]

    def validated(self, metric: str, baselines: Sequence[str]) -> dict[str, Any]:
        """How good models other than networks are on validation samples, fold by fold."""
        folds = self.folds
        found = {
            name: [
                predictions_of(fold.tuning, fold.validation, self._alone(name, k)["validation"])
                for k, fold in enumerate(folds)
            ]
            for name in baselines
        }
        sizes = [int(fold.validation.sizes[0]) for fold in folds]
        return tell_validation(METRICS.find(metric)(), sizes, found).to_json()

    def told(self, facts: Mapping[str, Any], outputs: Mapping[str, list[list[np.ndarray]]]) -> dict[str, Any]:
        """What the site tells of its test samples; ``outputs`` are those of the networks, by seed and fold."""
        folds, whole = self.folds, dict(outputs)
        for name in facts["baselines"]:
            whole[name] = [[self._alone(name, k)["test"] for k in range(len(folds))]] * int(facts["seeds"])
        predictions = {name: out_of_fold(folds, whole[name]) for name in facts["predicting"]}
        metrics = [METRICS.find(name)() for name in facts["metrics"]]
        told = tell(METRICS.find(facts["metric"])(), metrics, predictions, facts["alone"], facts["chosen"])
        return self._of_enough(told).to_json()

    def _of_enough(self, told: Told) -> Told:
        """Without moments in which a stratum (such as a class in a fold) has too few samples."""

        def enough(method: MethodTold) -> MethodTold:
            counts = [m.counts for m in (method.score, method.gain) if m is not None]
            few = any(min(own) < self.policy.min_count for own in counts)
            few |= not self.policy.label_counts and any(len(own) > 1 for own in counts)  # strata are classes
            return replace(method, score=None, gain=None) if few else method

        chosen = enough(told.chosen) if told.chosen else None
        return replace(told, methods={name: enough(each) for name, each in told.methods.items()}, chosen=chosen)

    def _alone(self, baseline: str, fold: int) -> dict[str, np.ndarray]:
        """Outputs for validation and test samples; they are kept, since fitting takes its time."""
        file, own = self.folder / f"alone-{baseline}-{fold}.safetensors", self.folds[fold]
        facts = {
            "baseline": baseline,
            "fold": str(fold),
            "tuning": own.tuning.fingerprint,
            "final": own.final.fingerprint,
        }
        try:
            return {name: value.numpy() for name, value in read_tensors(file, facts).items()}
        except Damaged:
            pass
        seed = self.division.seed
        parts: dict[str, tuple[Federation, Samples]] = {
            "validation": (own.tuning, own.validation),
            "test": (own.final, own.final.test),
        }
        found = {name: outputs_alone(baseline, *part, seed)[0] for name, part in parts.items()}
        write_tensors(file, {name: torch.from_numpy(value) for name, value in found.items()}, facts)
        return found


def _none(seed: int) -> Any:
    raise NotImplementedError
