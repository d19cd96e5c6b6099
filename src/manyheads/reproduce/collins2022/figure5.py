"""Figure 5: fine-tuned on few samples of a new client, FedAvg's model is better than D-SGD's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import altair as alt
import numpy as np
from pydantic import Field

from manyheads.core.settings import as_dict, settings
from manyheads.data import source_of
from manyheads.metrics import METRICS
from manyheads.reproduce.claims import Claim, above_by_units
from manyheads.reproduce.collins2022.networks import (
    OURS,
    QUICK,
    REDUCED,
    STEPS,
    TUNE,
    Precision,
    line_of,
    network_config,
    untrained,
)
from manyheads.reproduce.drawing import banded, row
from manyheads.reproduce.experiment import Experiment, Facts, Measured, Place, Scale, register
from manyheads.reproduce.training import recipe_of, trained
from manyheads.run.config import Config, federation_of

__all__ = ["Figure5"]

PANELS = {"new classes": "20 other classes of CIFAR-100", "new data": "CIFAR-10"}


@register
@settings
class Figure5(Experiment):
    """Accuracy of new clients against the number of samples for fine-tuning, and the classes of a training client."""

    name: ClassVar[str] = "collins2022.figure5"
    title: ClassVar[str] = "Accuracy of new clients after fine-tuning on few samples"
    about: ClassVar[str] = (
        """The six-layer network trained on CIFAR-100 with C classes and 500 images a client: on 80 clients with the first
        80 classes, then fine-tuned for ten epochs on new clients with n images of the other 20 classes (left, 400 test images); or
        on 100 clients with all classes, then on new clients with n images of CIFAR-10 (right, 2000 test images). Mean over five new
        clients; bands over trials. The values of C and n are read off the paper's figure as far as it shows them."""
        + OURS
    )
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {
        "quick": QUICK | {"classes": (5,), "samples": (50, 100, 500), "seeds": 1},
        "reduced": REDUCED | {"classes": (5,), "seeds": 1},
        "paper": {},
    }
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 5, "reduced": 90, "paper": 12000}

    seeds: int = 5
    steps: Annotated[int, Field(ge=1)] = STEPS
    """local steps of a model, T tau"""
    precision: Precision = "float32"
    """of the products in training"""
    classes: tuple[int, ...] = (2, 5, 20)
    """classes of a training client, C"""
    samples: tuple[int, ...] = (50, 100, 200, 300, 400, 500)
    """images of a new client, n"""
    taus: tuple[int, ...] = (50, 1)
    new_clients: Annotated[int, Field(ge=1)] = 5

    def parts(self) -> list[str]:
        return [f"{panel}, C {c}, tau {tau}" for panel in PANELS for c in self.classes for tau in self.taus]

    def needs(self) -> Iterable[Mapping[str, Any]]:
        return [{"name": "cifar100"}, {"name": "cifar10"}]

    def _config(self, part: str, seed: int) -> Config:
        panel, c, tau = (words.split()[-1] if words[0] in "Ct" else words for words in part.split(", "))
        split = {"name": "class-split", "per_client": int(c), "new_clients": self.new_clients}
        clients, new = (80, "") if panel == "new classes" else (100, "cifar10")
        split["train_classes"] = clients
        return network_config("cifar100", split, clients, int(tau), self.steps, seed, self.precision, new_data=new)

    def recipe(self, part: str, seed: int) -> Facts:
        return recipe_of(self._config(part, seed)) | {"samples": list(self.samples), "tune": as_dict(TUNE)}

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        config = self._config(part, seed)
        run, _ = trained(config, place)
        accuracies = []
        for n in self.samples:
            place.say(f"fine-tuning new clients on {n} samples")
            split = config.partition if isinstance(config.partition, dict) else {}
            fewer = replace(config, partition=split | {"new_samples": n})
            federation, _ = federation_of(fewer, source_of(fewer.data))
            values, _ = METRICS.find("accuracy")().of_clients(run.new_predictions(federation, TUNE))
            accuracies.append(values.tolist())
        return {"samples": list(self.samples), "accuracies": accuracies}

    def claims(self, found: Measured) -> list[Claim]:
        checks = []
        for panel in PANELS:
            for c in self.classes:
                for tau in self.taus:
                    pair = [found.get(f"{panel}, C {c}, tau {t}") for t in (tau, 1)]
                    if tau == 1 or not all(pair):
                        continue
                    for i, n in enumerate(self.samples):
                        two = ([100 * np.array(f["accuracies"][i]) for f in runs.values()] for runs in pair if runs)
                        words = f"{PANELS[panel]}, C {c}, n {n}: {line_of(tau)} above D-SGD"
                        checks.append(above_by_units(words, *two, units="new clients", unit=" points"))
        reached = {
            f"{line_of(int(part.split()[-1]))} (C {c})": [
                float(np.mean(f["accuracies"], axis=1).max()) for f in runs.values()
            ]
            for part, runs in found.items()
            for c in self.classes
            if part.startswith(f"new data, C {c},")
        }
        reason = untrained(reached, classes=10)
        reason += " even after fine-tuning on CIFAR-10" if reason else ""
        return [Claim("FedAvg is above D-SGD at every n and every C", tuple(checks), reason)]

    def figure(self, found: Measured) -> Any:
        charts = []
        for panel, title in PANELS.items():
            rows = [
                row(f"{line_of(int(part.split()[-1]))}, C = {part.split(', ')[1][2:]}", seed, n, 100 * float(np.mean(accuracies)))
                for part, runs in found.items()
                if part.startswith(panel)
                for seed, facts in runs.items()
                for n, accuracies in zip(facts["samples"], facts["accuracies"], strict=True)
            ]  # fmt: skip
            x = "samples of the new client"
            charts.append(banded(rows, "accuracy % after fine-tuning", x, points=True, title=f"new clients: {title}"))
        return alt.hconcat(*charts)
