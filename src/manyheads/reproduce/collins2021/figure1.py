"""Figure 1: errors of local training, of one global model and of FedRep against the number of samples of a client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from manyheads.core.settings import changed, settings
from manyheads.reproduce.claims import Check, Claim, above, holds
from manyheads.reproduce.collins2021.linear import ALONE, FEDREP, FixedSamples, large, line_of, small
from manyheads.reproduce.drawing import banded, row
from manyheads.reproduce.experiment import Cell, Facts, Measured, Place, Scale, register
from manyheads.theory.collins2021.tasks import fitted

__all__ = ["Figure1"]

OWN_HEADS = ", own heads"
FEW = 5
"""samples with which local steps may go astray"""


@register
@settings
class Figure1(FixedSamples):
    """Error of the clients' models against the number of samples that each has."""

    name: ClassVar[str] = "collins2021.figure1"
    title: ClassVar[str] = "Local training needs many samples, one global model fits nobody, FedRep needs few"
    about: ClassVar[
        str
    ] = """Multi-task linear regression, d 20, k 2, 100 clients with m fixed samples each, all of them in every round,
        500 rounds. Squared distance of a client's linear model from the truth, the median client (with m = d samples the mean
        of local training has no finite expectation); the band goes from the least to the greatest trial. Local only: the
        shortest least-squares solution. FedRep: Algorithm 2 on fixed samples with the largest step that Theorem 1 allows. FedAvg:
        w_0 = 0, B_0 the Q of a Gaussian matrix, step 0.2 with one or two local steps and 0.1 with ten (of 0.05, 0.1, 0.2,
        0.3, 0.4, the smallest whose training loss is within a thousandth of the least); the authors' FedAvg makes one step a round. Dashed: after FedAvg, each client fits a
        head of its own. The heads have length sqrt(k) (Assumption 3). N(., 1e-3) is read as a variance, which the authors'
        notebook has as standard deviation: the table shows what that changes, and what FedAvg gains by FedRep's first
        representation. The paper gives neither the values of m nor the number of trials."""
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {"quick": {"seeds": 3, "rounds": 200}, "paper": {}}
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 1, "paper": 5}

    samples: tuple[int, ...] = (5, 10, 20, 40)
    """numbers m of samples of a client"""

    def switches(self) -> dict[str, dict[str, Any]]:
        """The choices that the paper leaves open, made the other way."""
        noise = "std" if self.noise_is == "variance" else "variance"
        start = "moments" if self.start == "random" else "random"
        return {f"noise {noise}": {"noise_is": noise}, f"start {start}": {"start": start}}

    def parts(self) -> list[str]:
        other_noise, other_start = self.switches()
        fedavg = [line_of(tau) for tau in self.taus]
        return [
            *self.lines(),
            *(f"{other_noise}: {line}" for line in self.lines()),
            *(f"{other_start}: {line}" for line in fedavg),
        ]

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        switch, _, line = part.rpartition(": ")
        this = changed(self, self.switches()[switch]) if switch else self
        facts: Facts = {"error": [], "mean_error": []}
        for m in self.samples:
            place.say(f"{m} samples")
            tasks = this.tasks(m, seed)
            if line == ALONE:
                weights = fitted(*tasks.drawn)
            else:
                learned = this.learned(line, tasks, place.engine)
                weights = learned.weights
                facts.setdefault("distance", []).append(learned.distance(tasks))
                if line != FEDREP:
                    own = np.square(learned.own_heads(tasks) - tasks.weights).sum(axis=1)
                    facts.setdefault("own_heads", []).append(float(np.median(own)))
                    facts.setdefault("train_loss", []).append(learned.train_loss)
            errors = np.square(weights - tasks.weights).sum(axis=1)
            facts["error"].append(float(np.median(errors)))
            facts["mean_error"].append(float(np.mean(errors)))
        return facts

    def claims(self, found: Measured) -> list[Claim]:
        fedavg = [line_of(tau) for tau in self.taus if line_of(tau) in found]
        return [
            Claim("Local training suffers when clients have few samples", self._alone(found)),
            Claim(
                "A single global model (FedAvg) cannot overcome heterogeneity, however many samples there are",
                tuple(self._large(found, line, m) for line in fedavg for m in self.samples),
            ),
            Claim("FedRep has a small error in all cases", tuple(self._small(found, FEDREP, m) for m in self.samples)),
            *self._found_here(found),
        ]

    def _alone(self, found: Measured) -> tuple[Check, ...]:
        few = [m for m in self.samples if m < self.dim]
        large = [self._large(found, ALONE, m) for m in few]
        worse = [self._apart(found, m, (FEDREP, "error"), (ALONE, "error"), by=1) for m in few]
        small = [self._small(found, ALONE, m) for m in self.samples if m >= 2 * self.dim]
        return (*large, *worse, *small)

    def _found_here(self, found: Measured) -> list[Claim]:
        """FedAvg with several local steps learns the representation, as Collins et al. 2022 prove."""
        one, several = line_of(1), [line_of(tau) for tau in self.taus if tau > 1]
        cases = [(line, m) for line in several for m in self.samples if m > FEW]
        learns = [self._apart(found, m, (line, "distance"), (one, "distance"), by=0.5) for line, m in cases]
        useful = [
            self._apart(found, m, (line, "own_heads"), (ALONE, "error"), by=0.5) for line, m in cases if m < self.dim
        ]
        start = list(self.switches())[1]
        astray = [
            c
            for line in several
            if FEW in self.samples and self.start == "random"
            for c in self._astray(found, line, f"{start}: {line}")
        ]
        return [
            Claim("FedAvg with local steps learns the representation even where m < d", tuple(learns), found_here=True),
            Claim(
                "a head of its own on FedAvg's representation serves a client better than local training where m < d",
                tuple(useful),
                found_here=True,
            ),
            Claim(
                f"with {FEW} samples, local steps from a random start may fit these by a wrong representation, with a lower "
                "training loss than that of the true one; from a start by moments they do not",
                tuple(astray),
                found_here=True,
            ),
        ]

    def _astray(self, found: Measured, random: str, moments: str) -> list[Check]:
        """Whether some distances from the random start are large, none from the other, and the training loss is lower."""
        far, near = (self._of(found, part, FEW, "distance") for part in (random, moments))
        if not len(far) or len(far) != len(near):
            return []
        words = [f"{v.min():.2f} to {v.max():.2f}" for v in (far, near)]
        wrong = far > 0.5
        less = np.subtract(*(self._of(found, part, FEW, "train_loss") for part in (random, moments)))[wrong]
        return [
            holds(
                f"m {FEW}: {random}: distances above 0.5",
                bool(wrong.any()),
                f"{words[0]}, {wrong.sum()} of {len(far)} above",
            ),
            holds(f"m {FEW}: {moments}: none above 0.5", near.max() < 0.5, words[1]),
            holds(
                f"m {FEW}: {random}: the training loss is then lower",
                bool((less < 0).all()),
                f"by {-less.max():.3f} or more" if len(less) else "none",
            ),
        ]

    def _apart(self, found: Measured, m: int, low: tuple[str, str], high: tuple[str, str], by: float) -> Check:
        """Whether one quantity of a part is below another's by some decades."""
        names = [part + (OWN_HEADS if what == "own_heads" else "") for part, what in (low, high)]
        kind = "distance of " if low[1] == "distance" else ""
        upper, lower = (np.log10(self._of(found, part, m, what)) for part, what in (high, low))
        return above(f"m {m}: {kind}{names[0]} below {names[1]}", upper, lower, by=by, unit=" decades")

    def _of(self, found: Measured, part: str, samples: int, what: str = "error") -> np.ndarray:
        """A value for each seed; none if the part was not run."""
        at = self.samples.index(samples)
        return np.array([facts[what][at] for facts in found.get(part, {}).values()])

    def _large(self, found: Measured, line: str, samples: int) -> Check:
        return large(f"m {samples}: {line}", self._of(found, line, samples), self.rank)

    def _small(self, found: Measured, line: str, samples: int) -> Check:
        return small(f"m {samples}: {line}", self._of(found, line, samples), self.rank)

    def table(self, found: Measured) -> list[Cell]:
        """What the switches are worth, at the largest m below d."""
        few = max((m for m in self.samples if m < self.dim), default=self.samples[0])
        cells = []
        for part in found:
            switch, _, line = part.rpartition(": ")
            column = f"m {few}, {switch or f'noise {self.noise_is}, start {self.start}'}"
            for what, words in (("error", "error"), ("own_heads", "error, own heads"), ("distance", "distance")):
                if all(what in facts for facts in found[part].values()):
                    cells.append(Cell(f"{line}: {words}", column, self._of(found, part, few, what).tolist(), None))
        return cells

    def figure(self, found: Measured) -> Any:
        rows = [
            row(line + (OWN_HEADS if what == "own_heads" else ""), seed, m, y)
            for what in ("error", "own_heads")
            for line in self.lines()
            for seed, facts in found.get(line, {}).items()
            for m, y in zip(self.samples, facts.get(what, ()), strict=False)
        ]
        like = {f"{line}{OWN_HEADS}": line for line in self.lines()}
        axes = ("squared distance from the truth (median client)", "samples of a client, m")
        return banded(rows, *axes, log=True, log_x=True, points=True, like=like, width=460, height=300)
