"""Figure 2: the early layers that FedAvg learns hardly change when they are fine-tuned on other data; D-SGD's do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from manyheads.core.settings import as_dict, settings
from manyheads.engines.client_data import ClientData
from manyheads.metrics import layer_cka
from manyheads.reproduce.claims import Claim, above_by_units
from manyheads.reproduce.collins2022.linear import tau_of
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
from manyheads.run.config import Config

__all__ = ["Figure2"]

EARLY = 3
"""layers, of nine, that the claim is about"""
PROBES = 500
"""test images of the new client on which the layers are compared"""


@register
@settings
class Figure2(Experiment):
    """CKA of every layer before and after fine-tuning."""

    name: ClassVar[str] = "collins2022.figure2"
    title: ClassVar[str] = "How much each layer is left alone by fine-tuning on another data set"
    about: ClassVar[str] = (
        """The six-layer network trained on CIFAR-100 (100 clients with 5 classes and 500 images each), then fine-tuned
        for ten epochs on new clients with 500 images of all classes of CIFAR-10. Linear CKA of each layer's outputs before and after
        fine-tuning, on 500 test images of the new client, mean over five new clients."""
        + OURS
    )
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {
        "quick": QUICK,
        "reduced": REDUCED,
        "paper": {},
    }
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 3, "reduced": 45, "paper": 500}

    steps: Annotated[int, Field(ge=1)] = STEPS
    """local steps of a model, T tau"""
    precision: Precision = "float32"
    """of the products in training"""
    taus: tuple[int, ...] = (50, 1)
    new_clients: Annotated[int, Field(ge=1)] = 5

    def parts(self) -> list[str]:
        return [f"tau {tau}" for tau in self.taus]

    def needs(self) -> Iterable[Mapping[str, Any]]:
        return [{"name": "cifar100"}, {"name": "cifar10"}]

    def config(self, part: str, seed: int) -> Config:
        """The run of a part; Figure 5's right panel goes on from the same ones."""
        split = {"name": "class-split", "per_client": 5, "train_classes": 100, "new_clients": self.new_clients}
        return network_config(
            "cifar100", split, 100, tau_of(part), self.steps, seed, self.precision, new_data="cifar10"
        )

    def recipe(self, part: str, seed: int) -> Facts:
        return recipe_of(self.config(part, seed)) | {"tune": as_dict(TUNE)}

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        run, federation = trained(self.config(part, seed), place)
        assert federation.new is not None
        shared = run.model.module_with(run.client_model(0, "global"))
        like = next(iter(run.model.params.all.values()))
        found = []
        for client in range(len(federation.new)):
            place.say(f"fine-tuning new client {client + 1}")
            tuned = run.model.module_with(run.new_model(federation, client, TUNE))
            probes = ClientData.of(federation.new.test.select([client]), federation.task, like, federation.scaling).x
            found.append(list(layer_cka(shared, tuned, probes[:PROBES]).values()))
        return {"cka": found, "accuracy": run.accuracy}

    def claims(self, found: Measured) -> list[Claim]:
        one = found.get("tau 1")
        reached = {
            line_of(tau_of(part)): [facts["accuracy"] for facts in runs.values()] for part, runs in found.items()
        }
        reason = untrained(reached, classes=100)
        checks = []
        for part in found:
            if one is None or part == "tau 1":
                continue
            for layer in range(EARLY):
                two = ([np.array(facts["cka"])[:, layer] for facts in runs.values()] for runs in (found[part], one))
                words = f"layer {layer + 1}: {line_of(tau_of(part))} above D-SGD"
                check = above_by_units(words, *two, units="new clients")
                checks.append(replace(check, holds=None) if reason else check)
        reason += "; what has learned nothing, fine-tuning cannot spoil" if reason else ""
        return [Claim("the early layers of FedAvg's network change less than those of D-SGD's", tuple(checks), reason)]

    def figure(self, found: Measured) -> Any:
        rows = [
            row(line_of(tau_of(part)), seed, layer, value)
            for part, runs in found.items()
            for seed, facts in runs.items()
            for layer, value in enumerate(np.mean(facts["cka"], axis=0).tolist(), start=1)
        ]
        y = "CKA before and after fine-tuning"
        return banded(rows, y, "layer (6 convolutions, 3 linear)", points=True, width=420, height=240)
