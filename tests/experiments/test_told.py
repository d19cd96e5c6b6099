"""What sites tell: of their own samples alone, enough for the whole answer, also after it has travelled as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from manyheads import Federation, UserError, compare
from manyheads.core.plain import to_json
from manyheads.experiments import conduct
from manyheads.experiments.alone import AloneTask, alone_outputs
from manyheads.experiments.outcomes import out_of_fold, predictions_of
from manyheads.experiments.scoring import judged
from manyheads.experiments.simulated import Simulated
from manyheads.experiments.told import MethodTold, Told, ValidationTold, tell, tell_validation

sys.path.insert(0, str(Path(__file__).parent.parent))
from survivors import sites as survivors

FEW = {"methods": ["fedavg", "fedavg+ft"], "rates": [0.003, 0.01], "rounds": 4, "local_rounds": 4}
FEW |= {"baselines": ["majority", "linear"]}


def classes():
    """Of three classes; a site has but one of them, another has too few samples for every fold."""
    rng, clients = np.random.default_rng(1), []
    for samples, known in ((40, 3), (25, 2), (30, 1), (5, 3)):
        x = rng.normal(size=(samples, 4)).astype(np.float32)
        clients.append((x, np.where(rng.random(samples) < 0.7, x[:, :known].argmax(axis=1), 0)))
    return Federation.from_clients(clients, name="classes", outputs=3)


def numbers():
    rng, clients = np.random.default_rng(0), []
    for samples in (15, 30, 9):
        x = rng.normal(size=(samples, 3)).astype(np.float32)
        clients.append((x, (3 + 10 * (x @ [1, 2, 0] + rng.normal(size=samples))).astype(np.float32)))
    return Federation.from_clients(clients, name="numbers")


CASES = {
    "auc": lambda out, **more: compare(classes(), out=out, metric="auc", folds=3, seeds=2, **FEW, **more),
    "accuracy": lambda out, **more: compare(classes(), out=out, metric="accuracy", folds=3, seeds=1, **FEW, **more),
    "one run": lambda out, **more: compare(numbers(), out=out, folds=1, seeds=1, pooled=False, **FEW, **more),
    "regression": lambda out, **more: compare(numbers(), out=out, folds=2, seeds=2, **FEW, **more),
    "survival": lambda out, **more: compare(survivors((40, 30, 30)), out=out, folds=2, seeds=2, **FEW, **more),
}


@pytest.fixture(scope="module", params=list(CASES))
def compared(request, tmp_path_factory):
    """The folder of a comparison, how to run it, and what the simulation had when it was judged."""
    made, out = [], tmp_path_factory.mktemp("told") / "out"

    class Kept(Simulated):
        def told(self):
            made.append(self)
            return super().told()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("manyheads.experiments.simulated.Simulated", Kept)
        CASES[request.param](out)
    return out, CASES[request.param], made[0]


def travelled(told):
    return type(told).from_json(json.loads(json.dumps(told.to_json(), allow_nan=False)), "site")


def test_the_same_answer_from_what_has_travelled(compared, monkeypatch):
    out, run, _ = compared
    before = (out / "compare.json").read_bytes()
    (out / "compare.json").unlink()
    heard = []

    def from_json(found, told):
        heard.extend(told)
        found = replace(found, validated=tuple(travelled(each) for each in found.validated))
        return judged(found, [travelled(each) for each in told])

    monkeypatch.setattr(conduct, "judged", from_json)
    run(out, resume=True)
    assert list(heard[0].methods)[:6] == ["alone", "majority", "linear", "local", "fedavg", "fedavg+ft"]
    assert (out / "compare.json").read_bytes() == before


def test_what_is_told_survives_json(compared):
    simulated = compared[2]
    for told in (*simulated.told(), *simulated.found.validated):
        assert repr(travelled(told)) == repr(told)  # NaN is not equal to itself


def alone_with(fold, site):
    """The fold at one site, which has the samples of no other."""
    own = np.array([site])
    return replace(fold, tuning=fold.tuning._subset(own), final=fold.final._subset(own))


def test_what_a_site_tells_depends_on_it_alone(compared):
    simulated = compared[2]
    study, found = simulated.study, simulated.found
    outputs = {name: simulated.outputs(name) for name in found.predicting}
    for site, told in enumerate(simulated.told()):
        folds = [alone_with(fold, site) for fold in study.folds]
        rows = [slice(*fold.final.test.offsets[site : site + 2]) for fold in study.folds]
        own = {
            name: out_of_fold(folds, [[out[part] for out, part in zip(seed, rows, strict=True)] for seed in seeds])
            for name, seeds in outputs.items()
        }
        again = tell(found.metric, found.metrics, own, found.alone_of(site), found.chosen)
        assert repr(again) == repr(told)
        assert told.samples == sum(len(fold.final.test.y) for fold in folds)


def test_what_a_site_tells_of_validation_samples_depends_on_it_alone(compared):
    simulated = compared[2]
    study, found = simulated.study, simulated.found
    for site, told in enumerate(found.validated):
        own = {name: [] for name in found.baselines}
        for number, fold in enumerate(study.folds):
            rows, tuning = slice(*fold.validation.offsets[site : site + 2]), alone_with(fold, site).tuning
            for name, parts in own.items():
                outputs = alone_outputs(study, AloneTask(name, number)).validation[rows]
                parts.append(predictions_of(tuning, tuning.validation, outputs))
        samples = [int(fold.validation.sizes[site]) for fold in study.folds]
        assert repr(tell_validation(found.metric, samples, own)) == repr(told)


def test_a_site_with_more_samples_tells_no_more(compared):
    """The first site has samples of all classes, in every fold; of the regressions, the second has twice as many."""
    first, *others = (to_json(each.to_json()).count(",") for each in compared[2].told())
    assert all(count <= first for count in others)


def test_what_tells_of_something_else_is_refused(compared):
    found, told = compared[2].found, compared[2].told()
    lacking = {name: each for name, each in told[1].methods.items() if name != "fedavg"}
    fewer = {name: MethodTold(metrics=dict.fromkeys(each.metrics, ())) for name, each in told[1].methods.items()}
    for wrong in (
        replace(told[1], methods=lacking),
        replace(told[1], methods=fewer),
        replace(told[1], chosen=None),
        replace(told[1], methods={name: MethodTold(metrics={}) for name in told[1].methods}),
    ):
        with pytest.raises(UserError, match=f"{found.sites[1]} does not tell of the methods, metrics, seeds and folds"):
            judged(found, [told[0], wrong, *told[2:]])


def test_what_is_no_told_is_refused():
    with pytest.raises(UserError, match="north does not hold what it should: samples"):
        Told.from_json({"methods": {}}, "north")
    with pytest.raises(UserError, match="north does not hold what it should: scores"):
        ValidationTold.from_json({"samples": [1], "scores": {"linear": [0.5]}}, "north")
