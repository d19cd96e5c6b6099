"""Step sizes of a method race against each other in one fold: those that cannot win any more are not trained further."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from manyheads.experiments.candidates import Candidate
from manyheads.experiments.curves import FIRST, Curve, best, between, is_over, mean_curve, reach, smooth, until_over
from manyheads.experiments.methods import Method
from manyheads.experiments.study import Study
from manyheads.experiments.trials import Trial
from manyheads.experiments.work import Do, Work

__all__ = ["Attempt", "Place", "Racing", "all_to_the_end", "race", "together"]

STEP = 2
"""evaluations from one decision to the next"""
UNKNOWN = (-np.inf, -np.inf)
K = TypeVar("K")


@dataclass(frozen=True)
class Place:
    """Where settings of a method are chosen: in one fold, by trainings of at most ``limit`` rounds."""

    study: Study
    method: Method
    fold: int
    pooled: bool
    limit: int
    seeds: tuple[int, ...]

    @property
    def sign(self) -> int:
        return self.study.score.sign

    def trial(self, candidate: Candidate, seed: int) -> Trial:
        return self.study.trial(self.method, candidate, seed, self.fold, "tuning", self.limit, self.pooled)

    def rung(self, evaluations: int) -> int:
        """The round of that evaluation, or the last."""
        return min(evaluations * between(self.limit), self.limit)


class Attempt:
    """A candidate in a race: how far it was trained with each seed, and how it stands."""

    def __init__(self, place: Place, candidate: Candidate) -> None:
        self.place, self.candidate = place, candidate
        self.until = dict.fromkeys(place.seeds, 0)
        """rounds trained with each seed, as far as was asked for"""
        self.curve: Curve = []
        self.over = False
        """whether it needs no more rounds: its curve is over, or at its last round"""
        self.diverged = False
        self.shift = (0.0, 0.0)
        """what other seeds score more than the first, mean over seeds"""

    def ask(self, seeds: Sequence[int], until: int) -> list[Work]:
        """The trainings with some seeds, up to a round."""
        self.until |= {seed: max(until, self.until[seed]) for seed in seeds}
        return [Work(self.place.trial(self.candidate, seed), self.until[seed]) for seed in seeds]

    def curves(self, seeds: Sequence[int]) -> list[Curve]:
        """What was found with some seeds; one that diverged has no points."""
        place = self.place
        found = [place.study.curve(place.trial(self.candidate, seed), self.until[seed]) for seed in seeds]
        self.diverged = self.diverged or not all(found)
        return found

    def look(self, seeds: Sequence[int], whole: bool = False) -> None:
        """Look at what training with these seeds has found, on average, until it is over unless ``whole``."""
        found, sign = self.curves(seeds), self.place.sign
        if not self.diverged:
            mean = mean_curve(found) if len(seeds) > 1 else found[0]
            self.curve = mean if whole else until_over(mean, sign)
            self.over = mean[-1].round >= self.place.limit or is_over(self.curve, sign)

    @property
    def defined(self) -> bool:
        """Whether it may be chosen."""
        loss = self.curve[-1].loss if self.curve else None
        return not self.diverged and loss is not None and bool(np.isfinite(loss))

    @property
    def standing(self) -> tuple[float, float]:
        """Its best score and the negative loss there (higher is better)."""
        if not self.defined:
            return UNKNOWN
        _, score, loss = best(self.curve, self.place.sign)
        return score + self.shift[0], loss + self.shift[1]

    @property
    def rounds(self) -> int:
        """The number of rounds after which it was best."""
        return self.curve[best(self.curve, self.place.sign)[0]].round

    @property
    def trained(self) -> int:
        """Rounds of all its trainings."""
        return sum(self.until.values())

    def hopeless(self, leader: Attempt) -> bool:
        """Whether neither its score nor its loss can reach what the leader has reached."""
        score, loss = reach(self.curve, self.place.limit, self.place.sign)
        lowest = max(value for _, value in smooth(leader.curve, self.place.sign))
        return score < leader.standing[0] and loss < lowest

    def compare_seeds(self, until: int) -> None:
        """Find out what other seeds score more or less than the first, after the same round."""
        first, *others = self.curves(self.place.seeds)
        if self.diverged:
            return
        here, *there = (
            smooth([p for p in curve if p.round <= until], self.place.sign)[-1] for curve in (first, *others)
        )
        with np.errstate(invalid="ignore"):
            shift = np.array([here, *there]).mean(axis=0) - here
        score, loss = np.where(np.isnan(shift), 0.0, shift)  # undefined with all seeds: no difference
        self.shift = (float(score), float(loss))


Racing = Generator[list[Work], None, list[Attempt]]
"""a choice that yields what has to be trained next, and returns all attempts"""


def race(place: Place, candidates: Sequence[Candidate]) -> Racing:
    """Train candidates with the first seed, and the best of them with all seeds.

    A candidate is not trained further if it is hopeless beside the one that is best so far. The best is then trained with the
    other seeds, up to the first decision (of training alone, by which all else is judged: as long as with the first seed), and
    what it loses by them, it loses. So another may become the best, and is trained likewise, until the best has been seen
    with all seeds.
    """
    first, others = place.seeds[:1], place.seeds[1:]
    attempts = [Attempt(place, candidate) for candidate in candidates]
    going, rung = attempts, place.rung(FIRST)
    seen: set[Candidate] = set()
    while True:
        if going:
            yield [work for each in going for work in each.ask(first, min(each.until[first[0]] + rung, place.limit))]
            rung = place.rung(STEP)
        for each in going:
            each.look(first)
        leader = max(attempts, key=lambda each: each.standing)
        going = [
            each
            for each in attempts
            if not (each.diverged or each.over or each.candidate in seen) and not each.hopeless(leader)
        ]
        if going:
            continue
        if not others or not leader.defined or leader.candidate in seen:
            return attempts
        seen.add(leader.candidate)
        until = leader.rounds if place.method.yardstick else min(leader.rounds, place.rung(FIRST))
        yield leader.ask(others, until)
        leader.compare_seeds(until)


def all_to_the_end(place: Place, candidates: Sequence[Candidate]) -> Racing:
    """Train all candidates with all seeds to the last round."""
    attempts = [Attempt(place, candidate) for candidate in candidates]
    yield [work for each in attempts for work in each.ask(place.seeds, place.limit)]
    for each in attempts:
        each.look(place.seeds, whole=True)
    return attempts


def together(races: Mapping[K, Racing], do: Do, besides: Sequence[Work] = ()) -> dict[K, list[Attempt]]:
    """Let all races go on at once, so that their work, and what is to be done besides, can be divided among all workers."""
    asked = {key: next(each) for key, each in races.items()}
    found: dict[K, list[Attempt]] = {}
    while asked:
        do([*(work for each in asked.values() for work in each), *besides])
        besides = ()
        for key in list(asked):
            try:
                asked[key] = next(races[key])
            except StopIteration as end:
                del asked[key]
                found[key] = end.value
    return {key: found[key] for key in races}
