"""Which step sizes are trained on, which are given up, and which is chosen; and that other seeds have a say."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from manyheads import SGD, Algorithm, FedAvg, State, Update, settings
from manyheads.core.trees import Tree
from manyheads.data import Classes, Digits, federate
from manyheads.experiments import compare
from manyheads.experiments.candidates import Candidate
from manyheads.experiments.curves import Validated
from manyheads.experiments.methods import Method
from manyheads.experiments.race import Place, all_to_the_end, race, together

LIMIT, SEEDS = 100, (0, 1, 2)
ROUNDS = np.arange(1, LIMIT + 1)


class Played:
    """In place of a study: learning curves are given functions of rate and seed, and what is asked for is counted."""

    def __init__(self, scores, losses=lambda rate, seed: 1 / ROUNDS, diverges=None):
        self.scores, self.losses, self.diverges = scores, losses, diverges or {}
        self.score = type("Score", (), {"sign": 1})
        self.asked = {}

    def trial(self, method, candidate, seed, *rest):
        return candidate.rate, seed

    def curve(self, trial, until):
        if self.diverges.get(trial, LIMIT + 1) <= until:
            return []
        score, loss = self.scores(*trial), self.losses(*trial)
        return [Validated(r, 0, float(score[r - 1]), float(loss[r - 1])) for r in range(4, until + 1, 4)]

    def do(self, tasks):
        for trial, until, *_ in tasks:
            self.asked[trial] = max(until, self.asked.get(trial, 0))


def raced(played, rates, how=race, seeds=SEEDS[:1]):
    place = Place(played, Method("own", FedAvg(), finetuned=False), 0, False, LIMIT, seeds)
    (found,) = together({0: how(place, [Candidate(rate) for rate in rates])}, played.do).values()
    best = max(found, key=lambda each: each.standing)
    return {each.candidate.rate: each for each in found}, best.candidate.rate


def saturating(rate, seed):
    """A larger step learns faster, up to the same score less what its noise costs."""
    return (0.9 - 0.3 * rate) * (1 - np.exp(-ROUNDS * rate / 3))


def test_what_cannot_win_is_given_up_and_the_choice_is_that_of_trainings_to_the_end():
    rates = (0.001, 0.01, 0.1, 0.3, 1.0)
    losses = lambda rate, seed: 1 - saturating(rate, seed)  # noqa: E731
    stopped, whole = Played(saturating, losses), Played(saturating, losses)
    some, chosen = raced(stopped, rates)
    full, wanted = raced(whole, rates, all_to_the_end)
    assert chosen == wanted == 0.1
    assert some[0.1].rounds == full[0.1].rounds
    assert some[1.0].until[0] < 50  # it has long reached all that it can
    assert sum(stopped.asked.values()) < 0.75 * sum(whole.asked.values()) == 0.75 * LIMIT * 5


def test_a_slow_learner_is_kept_as_long_as_its_loss_falls():
    """A small step whose score does not move at first: its loss tells that it learns."""

    def scores(rate, seed):
        return np.full(LIMIT, 0.6) if rate == 1 else np.where(ROUNDS < 50, 0.1, 0.1 + 0.017 * (ROUNDS - 49))

    def losses(rate, seed):
        return np.full(LIMIT, 0.5) if rate == 1 else 1.2 - 0.12 * np.log2(ROUNDS)

    found, chosen = raced(Played(scores, losses), (0.1, 1.0))
    assert chosen == 0.1
    assert found[0.1].until[0] == LIMIT
    still = Played(scores, lambda rate, seed: np.full(LIMIT, 0.5 + 0.5 * (rate < 1)))
    found, chosen = raced(still, (0.1, 1.0))
    assert chosen == 1.0
    assert found[0.1].until[0] == 24  # neither moves: nothing tells it from one that does not learn


def test_a_step_size_that_is_good_with_the_first_seed_only_is_not_chosen():
    def scores(rate, seed):
        level = {1.0: 0.9 if seed == 0 else 0.2, 0.1: 0.8, 0.01: 0.7}[rate]
        return level * (1 - np.exp(-ROUNDS / 5))

    played = Played(scores, lambda rate, seed: 1 - scores(rate, seed))
    assert raced(played, (0.01, 0.1, 1.0))[1] == 1.0  # with one seed there is nothing else to know
    found, chosen = raced(played, (0.01, 0.1, 1.0), seeds=SEEDS)
    assert chosen == 0.1
    assert found[1.0].standing[0] == pytest.approx(0.9 - (0.7 + 0.7) / 3, abs=0.05)
    assert set(found[1.0].until.values()) != {0}
    assert found[0.01].until[1] == 0  # it was never the best
    assert raced(played, (0.01, 0.1, 1.0), all_to_the_end, seeds=SEEDS)[1] == 0.1


def test_one_given_up_early_is_taken_up_again_when_the_leader_falls():
    def scores(rate, seed):
        level = 0.95 if (rate, seed) == (1.0, 0) else 0.1 if rate == 1.0 else 0.6
        return level * (1 - np.exp(-ROUNDS * rate))

    played = Played(scores, lambda rate, seed: 1 - scores(rate, seed))
    alone, _ = raced(played, (0.1, 1.0))
    found, chosen = raced(played, (0.1, 1.0), seeds=SEEDS)
    assert chosen == 0.1
    assert alone[0.1].until[0] < found[0.1].until[0]


@pytest.mark.parametrize("how", [race, all_to_the_end])
def test_what_diverges_with_any_seed_is_out_and_known_divergence_changes_nothing(how):
    played = Played(saturating, diverges={(0.1, 1): 10, (1.0, 0): 30})
    found, chosen = raced(played, (0.03, 0.1, 1.0), how, SEEDS)
    assert chosen == 0.03
    assert [found[rate].diverged for rate in (0.03, 0.1, 1.0)] == [False, True, True]
    again, same = raced(Played(saturating, diverges=played.diverges), (0.03, 0.1, 1.0), how, SEEDS)
    assert same == chosen
    assert [each.until for each in again.values()] == [each.until for each in found.values()]


@settings
class FirstSeedOnly(Algorithm):
    """FedAvg, whose larger steps work with the first seed alone: others lose what they learn."""

    name: ClassVar[str] = "first-seed"
    paper: ClassVar[str] = "none"
    travels: ClassVar[str] = "everything"
    stays: ClassVar[str] = "nothing"
    models: ClassVar[tuple[str, ...]] = ("global",)

    sgd: SGD = SGD()

    def init_server(self, params, population):
        return State(model=params.all)

    def local(self, cohort, server, client):
        model = cohort.sgd(server.model, opt=self.sgd, batch=10, epochs=1)
        if cohort.round.seed and self.sgd.lr > 0.2:
            model = Tree({name: value * 0.0 for name, value in model.items()})
        return Update(State(model=model))

    def global_model(self, server):
        return server.model


@pytest.mark.parametrize("stop", [True, False])
def test_a_planted_method_that_works_with_the_first_seed_only(stop):
    federation = federate(Digits().pool(0), Classes(3), clients=4, seed=0)
    few = {"folds": 1, "baselines": ["majority"], "pooled": False, "local_rounds": 2, "rounds": 12, "rates": [0.1, 0.3]}
    one, two = (compare(federation, methods=[FirstSeedOnly()], seeds=seeds, stop=stop, **few) for seeds in (1, 2))
    assert one["first-seed"].rate == 0.3
    assert two["first-seed"].rate == 0.1
    assert two["first-seed"].score > 0.5
