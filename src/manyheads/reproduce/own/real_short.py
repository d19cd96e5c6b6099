"""FedAvg and FedRep on the real data sets, in short runs: readers, partitions, models and methods work together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import altair as alt
import numpy as np

from manyheads.core.optim import FineTune
from manyheads.core.settings import settings
from manyheads.data import Federation
from manyheads.reproduce.claims import Check, Claim, holds
from manyheads.reproduce.drawing import PALETTE
from manyheads.reproduce.experiment import Cell, Experiment, Facts, Measured, Place, Scale, register
from manyheads.reproduce.training import recipe_of, trained
from manyheads.run import Evaluate
from manyheads.run.config import Config

__all__ = ["SETS", "ShortRuns", "majority"]

METHODS = ("fedavg", "fedrep")
TUNE = FineTune(scope="head", epochs=5)
COLUMNS = {"accuracy %": "accuracy", "fine-tuned %": "finetuned", "majority %": "majority"}
"""columns of the table, and the facts in them"""
FASTER = {"sgd": {"lr": 0.05}}


@dataclass(frozen=True)
class Set:
    """Data divided into clients, and how they are trained."""

    what: str
    config: Config
    fedrep: Mapping[str, Any] = field(default_factory=dict)
    """what FedRep does in another way than FedAvg"""

    def run(self, method: str, seed: int) -> Config:
        config = replace(self.config, **(self.fedrep if method == "fedrep" else {}))
        algorithm = {**config.algorithm, "name": method}
        return replace(config, algorithm=algorithm, finetune=TUNE, evaluate=Evaluate(every=config.rounds), seed=seed)


SETS = {
    "MNIST by writer": Set(
        "the 836 writers of MNIST as clients (QMNIST's labels)",
        Config(data={"name": "mnist"}, partition="writer", cohort=80, rounds=30, algorithm=FASTER),
    ),
    "MNIST, FEMNIST recipe": Set(
        "stand-in: the FEMNIST recipe (three classes, log-normal sizes) on MNIST's digits",
        Config(
            data={"name": "mnist"}, partition="femnist-recipe", clients=150, participation=0.1, rounds=50,
            model={"name": "femnist-mlp"}, algorithm={},
        ),
    ),
    "Chars74K by writer": Set(
        "stand-in for FEMNIST: 55 writers, each of 62 characters drawn once, so that what a writer is tested on it never trained on",
        Config(
            data={"name": "chars74k"}, partition="writer", rounds=60, model={"name": "femnist-mlp"}, algorithm=FASTER
        ),
    ),
    "Chars74K a-j, three letters a client": Set(
        "stand-in for FEMNIST (150, 3): fewer letters and clients",
        Config(
            data={"name": "chars74k", "characters": "a-j"}, partition="classes:3", clients=15, rounds=60,
            model={"name": "femnist-mlp"}, algorithm=FASTER,
        ),
    ),
    "CIFAR-10 (100, 2)": Set(
        "Collins et al. 2021's set and model, a fraction of their rounds",
        Config(
            data={"name": "cifar10"}, partition="shards:2", clients=100, participation=0.1, rounds=30, algorithm={}
        ),
    ),
    "CIFAR-100 (100, 5)": Set(
        "Collins et al. 2021's set, their model without dropout, a fraction of their rounds",
        Config(
            data={"name": "cifar100"}, partition="shards:5", clients=100, participation=0.1, rounds=40,
            model={"dropout": 0.0}, algorithm={},
        ),
        fedrep={"rounds": 15},
    ),
    "tweets, label-skewed": Set(
        "stand-in: a 2.7 % sample of Sentiment140, labels skewed over 20 made-up clients; trained embedding",
        Config(
            data={"name": "sent140"}, partition="dirichlet:1", clients=20, rounds=25,
            algorithm={"batch": 32, "sgd": {"lr": 0.3}},
        ),
        fedrep={"rounds": 12, "algorithm": {"batch": 10, "body_epochs": 5, "sgd": {"lr": 0.1}}},
    ),
}  # fmt: skip


def majority(federation: Federation) -> float:
    """Mean over clients of the accuracy of always answering with the client's most frequent training label."""
    scores = []
    for client in range(len(federation)):
        own, test = federation.train.client(client)[1], federation.test.client(client)[1]
        if len(test):
            scores.append(float((test == np.bincount(own).argmax()).mean()))
    return float(np.mean(scores))


ABOUT = """One seed, few rounds, few settings: these runs show that the readers, partitions, models and methods work together
    and learn, not how good a method is. Accuracy is the mean over all clients of the accuracy on the client's own test samples
    after the last round: of the one shared model for FedAvg, of the shared body with the client's own head for FedRep.
    "Fine-tuned": after five more epochs on the head. "Majority": always answering with the client's most frequent training
    label. No augmentation. The settings of the tweets were chosen on validation samples; the others are defaults or round
    numbers, not tuned. On the tweets, a client's majority label is a strong baseline. With one body epoch a round and batches
    of 32, as FedAvg has, FedRep got no further than that in 60 rounds: personal heads fit the client's label frequencies, and
    the body, seen through them, hardly moves. With five body epochs, as in its paper, and batches of 10 it learns from the
    third round on. Also tried on validation samples, without success: step sizes 0.3 and 1, one and two head epochs, a milder
    skew, frozen 50-dimensional GloVe vectors with one body epoch. The sets: """


@register
@settings
class ShortRuns(Experiment):
    """Accuracy of FedAvg and FedRep on each set, beside the clients' most frequent labels."""

    name: ClassVar[str] = "real.short"
    title: ClassVar[str] = "FedAvg and FedRep in short runs on real data"
    about: ClassVar[str] = ABOUT + "; ".join(f"{name}: {each.what}" for name, each in SETS.items()) + "."
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {"reduced": {}}
    minutes: ClassVar[Mapping[Scale, float]] = {"reduced": 40}

    def parts(self) -> list[str]:
        return [f"{name}: {method}" for name in SETS for method in METHODS]

    def needs(self) -> Iterable[Mapping[str, Any]]:
        return [each.config.data for each in SETS.values()]

    def _config(self, part: str, seed: int) -> Config:
        name, _, method = part.rpartition(": ")
        return SETS[name].run(method, seed)

    def recipe(self, part: str, seed: int) -> Facts:
        return recipe_of(self._config(part, seed))

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        run, federation = trained(self._config(part, seed), place)
        return {
            "accuracy": run.accuracy,
            "finetuned": run.final[0]["accuracy"],
            "majority": majority(federation),
            "rounds": run.rounds,
            "protocol": run.protocol,
        }

    def table(self, found: Measured) -> list[Cell]:
        return [
            Cell(f"{part}, {facts['rounds']} rounds", column, [100 * facts[fact]], None)
            for part, runs in found.items()
            for facts in runs.values()
            for column, fact in COLUMNS.items()
        ]

    def claims(self, found: Measured) -> list[Claim]:
        runs = [(part, facts) for part, seeds in found.items() for facts in seeds.values()]
        return [
            Claim(
                "each method learns more than a client's most frequent label, if need be by five more epochs on the head",
                tuple(_learns(part, facts) for part, facts in runs),
                "a writer of Chars74K drew every character once, so its test characters are never among those it trained on, "
                "and a head of its own cannot know them; the shared model can",
            )
        ]

    def figure(self, found: Measured) -> Any:
        names = {
            "accuracy": "after the last round",
            "finetuned": "after fine-tuning the head",
            "majority": "majority label",
        }
        rows = [
            {"part": part, "who": name, "value": 100 * facts[fact]}
            for part, runs in found.items()
            for facts in runs.values()
            for fact, name in names.items()
        ]
        order = list(names.values())
        colours = alt.Scale(domain=order, range=[*PALETTE[:2], "#bbbbbb"])
        return (
            alt.Chart(alt.Data(values=rows))  # type: ignore[no-untyped-call]
            .mark_point(filled=True, size=60)
            .encode(
                x=alt.X("value:Q", title="accuracy on own test samples %", scale=alt.Scale(domain=[0, 100])),
                y=alt.Y("part:N", title=None, sort=list(found), axis=alt.Axis(labelLimit=320)),
                color=alt.Color("who:N", title=None, scale=colours, legend=alt.Legend(orient="bottom")),
            )
            .properties(width=420, height=300)
        )


def _learns(part: str, facts: Facts) -> Check:
    shown = {name: 100 * facts[fact] for name, fact in (("accuracy", "accuracy"), ("fine-tuned", "finetuned"))}
    words = ", ".join(f"{name} {value:.1f} %" for name, value in shown.items())
    most = 100 * facts["majority"]
    return holds(part, max(shown.values()) > most, f"{words}; majority {most:.1f} %")
