"""How a new client is fine-tuned: chosen by cross-validation on its training samples, and by nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from new_client import X, Y

import manyheads as mh
from manyheads.baselines import inner_folds
from manyheads.data.sites.new_site import new_site
from manyheads.onboarding import adaptation
from manyheads.onboarding.adaptation import adapted, validated
from manyheads.onboarding.newcomer import Newcomer

pytestmark = pytest.mark.usefixtures("few_baselines")

TRAIN = np.arange(30)
FOLDS = list(inner_folds(Y[TRAIN], "classification", 5, seed=0))


@pytest.fixture
def newcomer(fedrep):
    return Newcomer(fedrep, fedrep.encoding, new_site(X, Y, fedrep.encoding), Y, seed=0)


def planted(monkeypatch, losses):
    """Cross-validated losses of (scope, steps) in place of real ones; others are 9."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=30)

    def of(newcomer, tuning, train, folds):
        tune = tuning.on(len(train))
        mean, spread = losses.get((tune.scope, tune.steps), (9.0, 0.0))
        return mean + spread * (noise - noise.mean()) / noise.std()

    monkeypatch.setattr(adaptation, "validated", of)


@pytest.mark.parametrize(("losses", "expected"), [
    ({("head", 300): (1.0, 0.0), ("all", 30): (0.5, 1.0)}, ("validation", "all", 30)),  # 0.5 better, by 2.7 errors
    ({("head", 300): (1.0, 0.0), ("all", 30): (0.9, 1.0)}, ("default", "head", 300)),  # 0.1 better, by half an error
    ({("head", 300): (1.0, 0.0), ("head", 30): (0.9, 0.1)}, ("validation", "head", 30)),
    ({("head", 300): (np.inf, 0.0), ("all", 300): (3.0, 0.0)}, ("validation", "all", 300)),  # the default diverged
    ({("head", 300): (0.1, 0.0)}, ("default", "head", 300)),
])  # fmt: skip
def test_another_than_the_default_must_be_better_by_a_standard_error(newcomer, monkeypatch, losses, expected):
    planted(monkeypatch, losses)
    tuning, found = adapted(newcomer, newcomer.tuning(None, None), TRAIN, FOLDS)
    tune = tuning.on(len(TRAIN))
    assert (tuning.chosen_by, tune.scope, tune.steps) == expected
    assert found.mean() == pytest.approx(losses[expected[1:]][0])


def test_what_somebody_chose_stays_and_so_does_the_default_without_folds(newcomer, monkeypatch):
    planted(monkeypatch, {("all", 30): (0.0, 0.0)})
    asked, _ = adapted(newcomer, newcomer.tuning("head:3", None), TRAIN, FOLDS)
    assert (asked.chosen_by, asked.setting.epochs) == ("you", 3)
    monkeypatch.undo()
    usual, losses = adapted(newcomer, newcomer.tuning(None, None), TRAIN, [])
    assert (usual.chosen_by, len(losses)) == ("default", 0)


def test_losses_are_those_of_models_that_have_not_seen_the_sample(newcomer):
    tuning = newcomer.tuning("head:2", None)
    found = validated(newcomer, tuning, TRAIN, FOLDS)
    fitted, rest = FOLDS[2]
    params, own = newcomer.tuned(tuning, [TRAIN[fitted]], first=adaptation.FOLDS_FROM + 2)
    place = sum(len(rows) for _, rows in FOLDS[:2])
    np.testing.assert_allclose(
        found[place : place + len(rest)], newcomer.predictions(params, own, TRAIN[rest]).losses, rtol=1e-4, atol=1e-5
    )


def test_on_digits_the_whole_model_is_tuned_and_that_is_better_than_the_head(fedrep):
    chosen, head = (
        mh.personalize(fedrep, (X, Y), curve=[], seed=1, test_fraction=0.8, finetune=tune).facts
        for tune in (None, "head:300steps")
    )
    assert (chosen["finetune"]["scope"], chosen["finetune_chosen_by"]) == ("all", "validation")
    assert chosen["after"]["loss"] < head["after"]["loss"]
    assert chosen["after"]["validation"] < head["after"]["validation"]
