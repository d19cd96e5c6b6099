"""Figure 4: error of a new client that fits a head on the learned representation, against the number of its samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from manyheads.core.randomness import Purpose, generator
from manyheads.core.settings import settings
from manyheads.reproduce.claims import Check, Claim, above
from manyheads.reproduce.collins2021.linear import ALONE, FEDREP, FixedSamples, large, line_of, small
from manyheads.reproduce.drawing import banded, row
from manyheads.reproduce.experiment import Facts, Measured, Place, Scale, register
from manyheads.theory.collins2021.tasks import Tasks, fitted

__all__ = ["Figure4"]


@register
@settings
class Figure4(FixedSamples):
    """Squared error of new clients against the number of their samples."""

    name: ClassVar[str] = "collins2021.figure4"
    title: ClassVar[str] = "On FedRep's representation, a new client needs few samples"
    about: ClassVar[
        str
    ] = """Training as in Figure 1, with 10 samples a client (the paper does not say how many). A new client with m_new
        samples fits the best head on the learned representation, or (local only) the shortest linear model. Expected squared
        error on its test data, noise included: the median of 200 new clients (with m_new = k samples the mean has no finite
        expectation); the band goes from the least to the greatest trial. The authors' FedAvg makes one step a round; steps,
        starts and noise as in Figure 1."""
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {"quick": {"seeds": 3, "rounds": 200}, "paper": {}}
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 0.2, "paper": 0.5}

    samples: int = 10
    """of a client in training, m"""
    new_samples: tuple[int, ...] = (1, 2, 3, 5, 10, 15, 20, 25, 30, 40)
    """of a new client, m_new"""
    new_clients: Annotated[int, Field(ge=1)] = 200

    def parts(self) -> list[str]:
        return self.lines()

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        tasks = self.tasks(self.samples, seed)
        if part == ALONE:
            return {"error": self._errors(tasks, np.eye(self.dim))}
        learned = self.learned(part, tasks, place.engine)
        return {"error": self._errors(tasks, learned.body), "distance": learned.distance(tasks)}

    def _errors(self, tasks: Tasks, body: np.ndarray) -> list[float]:
        """For each number of samples: the median error of new clients that fit a head on ``body``, [d, any]."""
        rng = generator(tasks.seed, Purpose.NEW_CLIENTS)
        heads = rng.normal(size=(self.new_clients, self.rank))
        heads *= np.sqrt(self.rank) / np.linalg.norm(heads, axis=1, keepdims=True)
        x = rng.normal(size=(self.new_clients, max(self.new_samples), self.dim))
        truth = heads @ tasks.truth.body.T
        y = np.einsum("cmd,cd->cm", x, truth) + tasks.noise * rng.normal(size=x.shape[:2])
        found = [fitted(x[:, :m] @ body, y[:, :m]) @ body.T for m in self.new_samples]
        return [float(np.median(np.square(w - truth).sum(axis=1))) + tasks.noise**2 for w in found]

    def claims(self, found: Measured) -> list[Claim]:
        fedavg, most = [line_of(tau) for tau in self.taus if line_of(tau) in found], max(self.new_samples)
        few = [m for m in self.new_samples if self.rank <= m <= self.dim // 2]
        return [
            Claim(
                "FedRep's representation gives an accurate model from m_new = k on",
                tuple(self._small(found, FEDREP, m) for m in self.new_samples if m >= self.rank),
            ),
            Claim(
                "local training needs about d samples",
                (*(self._large(found, ALONE, m) for m in few), self._small(found, ALONE, most)),
            ),
            Claim(
                "FedAvg does not learn the representation: its error is large, even with many samples",
                tuple(self._large(found, line, most) for line in fedavg),
                "with one step a round, which is what the authors' notebook runs, it does not; with two or more local steps "
                "FedAvg learns the representation, as Collins et al. 2022 prove for population gradients",
            ),
            Claim(
                "on the representation of FedAvg with local steps, a new client does better than alone where m_new < d",
                tuple(self._below(found, line, ALONE, m) for line in fedavg if line != line_of(1) for m in few if m > self.rank),
                found_here=True,
            ),
        ]  # fmt: skip

    def _of(self, found: Measured, line: str, samples: int) -> np.ndarray:
        at = self.new_samples.index(samples)
        return np.array([facts["error"][at] for facts in found.get(line, {}).values()])

    def _large(self, found: Measured, line: str, samples: int) -> Check:
        return large(f"m_new {samples}: {line}", self._of(found, line, samples), self.rank)

    def _small(self, found: Measured, line: str, samples: int) -> Check:
        return small(f"m_new {samples}: {line}", self._of(found, line, samples), self.rank)

    def _below(self, found: Measured, low: str, high: str, samples: int) -> Check:
        upper, lower = (np.log10(self._of(found, line, samples)) for line in (high, low))
        return above(f"m_new {samples}: {low} below {high}", upper, lower, unit=" decades")

    def figure(self, found: Measured) -> Any:
        rows = [
            row(line, seed, m, y)
            for line in self.lines()
            for seed, facts in found.get(line, {}).items()
            for m, y in zip(self.new_samples, facts["error"], strict=True)
        ]
        axes = ("mean squared error (median new client)", "samples of the new client, m_new")
        return banded(rows, *axes, log=True, points=True, width=460, height=300)
