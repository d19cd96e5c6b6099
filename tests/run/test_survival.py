"""Survival from data to result: the engines agree, a run resumes, and known hazard ratios are found."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from survivors import TRUE, sites
from torch import nn

from manyheads import (
    DSGD,
    SGD,
    Engine,
    Evaluate,
    FedAvg,
    Federation,
    FedRep,
    FineTune,
    Local,
    Model,
    PerFedAvg,
    UserError,
    load,
    simulate,
)
from manyheads.baselines.cox import fit_cox
from manyheads.core.tasks import task_named
from manyheads.metrics import CIndex
from manyheads.theory.landscape import Landscape


def linear(bias: bool = False) -> Model:
    torch.manual_seed(0)
    return Model(nn.Linear(3, 1, bias=bias).double(), head=())


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()


METHODS = {
    "full batches": FedAvg(batch=0, epochs=3),
    "small batches": FedAvg(batch=7, epochs=2),
    "local": Local(batch=5),
    "head and body": FedRep(batch=6),
    "one gradient": DSGD(batch=9),
    "second derivatives": PerFedAvg(steps=3, batch=8, outer_batch=8, hessian_batch=8),
}


@pytest.mark.parametrize("method", METHODS)
def test_the_engines_agree(method, divided):
    """One client at a time in a loop, stacked with padding, in worker processes."""
    federation = sites((14, 30, 9))
    runs = [
        simulate(METHODS[method], Model(network()), federation, rounds=3, engine=engine, finetune=FineTune(scope="all"))
        for engine in (Engine(mode="loop"), Engine(mode="stacked"), Engine(workers=2))
    ]
    for other in runs[1:]:
        for client in range(3):
            for name, leaf in runs[0].client_model(client).items():
                torch.testing.assert_close(other.client_model(client)[name], leaf)
        for a, b in zip(runs[0].history, other.history, strict=True):
            assert a["train_loss"] == pytest.approx(b["train_loss"])
            assert a["evaluation"]["per_client"]["loss"] == pytest.approx(b["evaluation"]["per_client"]["loss"])
        assert runs[0].final[0]["loss"] == pytest.approx(other.final[0]["loss"])


@pytest.mark.parametrize("mode", ["loop", "stacked"])
def test_full_batches_descend_on_the_stratified_partial_likelihood(mode):
    """One step a round is gradient descent on the sum over clients of their partial likelihoods, over all samples."""
    federation, rate = sites((20, 35, 8), test_fraction=0.0), 0.2
    run = simulate(FedAvg(batch=0, sgd=SGD(lr=rate)), linear(), federation, rounds=4, engine=Engine(mode=mode))
    w = linear().params.all["weight"].clone().requires_grad_()
    for _ in range(4):
        parts = [map(torch.from_numpy, federation.train.client(i)) for i in range(3)]
        total = sum(task_named("survival").losses(x @ w.T, y).sum() for x, y in parts)
        (slope,) = torch.autograd.grad(total / federation.train.sizes.sum(), w)
        w = (w - rate * slope).detach().requires_grad_()
    torch.testing.assert_close(run.server.flat["model/weight"], w.detach())


def test_known_hazard_ratios_are_found():
    """Federated, with baseline hazards that differ tenfold between sites; pooled rows would be far off."""
    federation = sites((900, 600, 300, 200))
    run = simulate(
        FedAvg(batch=0, sgd=SGD(lr=1.0, momentum=0.0)), linear(), federation, rounds=60, evaluate=Evaluate(every=60)
    )
    found = run.server.flat["model/weight"][0].numpy()
    events = federation.train.y[:, 1].sum()
    assert found == pytest.approx(TRUE, abs=4 / events**0.5)
    pooled = fit_cox(federation.train.x, federation.train.y)
    assert np.abs(pooled - TRUE).max() > 4 / events**0.5
    assert run.history[-1]["evaluation"]["metrics"] == ["c_index", "loss"]
    mine = run.predictions(federation)
    values = [CIndex().of_client(mine.client(i)) for i in range(4)]
    assert run.metrics["c_index"] == pytest.approx(np.mean(values))
    assert run.metrics["c_index"] > 0.7


def test_folds_have_their_share_of_events():
    federation = sites((20, 45))
    events = np.concatenate([federation.train.y, federation.test.y])[:, 1].sum()
    parts = [fold.test.y[:, 1].sum() for fold in federation.folds(5, seed=0)]
    assert max(parts) - min(parts) <= 2  # at most one more at each of the two sites
    assert sum(parts) == events
    assert federation.with_validation(0.5, seed=0, by_label=True).validation.y[:, 1].sum() == pytest.approx(
        federation.train.y[:, 1].sum() / 2, abs=2
    )


def test_it_resumes(tmp_path):
    federation, method = sites((20, 12)), FedAvg(batch=4)
    whole = simulate(method, Model(network()), federation, rounds=4)
    simulate(method, Model(network()), federation, rounds=2, out=tmp_path / "run")
    resumed = simulate(method, Model(network()), federation, rounds=4, out=tmp_path / "run", resume=True)
    assert resumed.checksum == whole.checksum
    assert load(tmp_path / "run", model=Model(network())).metrics == whole.metrics


def test_losses_of_all_samples():
    federation = sites((10, 16), test_fraction=0.0)
    land = Landscape(linear(), federation)
    w = torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64)
    own = [map(torch.from_numpy, federation.train.client(i)) for i in range(2)]
    expected = [task_named("survival").losses(x @ w, y).mean() for x, y in own]
    torch.testing.assert_close(land.losses(w), torch.stack(expected))
    slope = land.gradients(w)
    step = 1e-6 * torch.eye(3, dtype=torch.float64)
    for j in range(3):
        rise = (land.losses(w + step[j]) - land.losses(w - step[j])) / 2e-6
        torch.testing.assert_close(slope[:, j], rise, atol=1e-6, rtol=1e-5)


def test_a_site_without_events_or_comparable_pairs():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(10, 3))
    clients = [(x, np.stack([rng.exponential(size=10) + 0.1, np.zeros(10)], axis=1)), (x[:1], np.array([[1.0, 1.0]]))]
    federation = Federation.from_clients(clients, task="survival")
    run = simulate(FedAvg(batch=3), linear(), federation, rounds=2)
    start = linear().params.all["weight"]
    assert run.server.flat["model/weight"].equal(start)  # nothing to learn from
    assert run.metrics == {"c_index": None, "loss": 0.0}


@pytest.mark.parametrize(
    ("y", "why"),
    [
        (np.ones(4), r"is not a pair \(time, event\)"),
        (np.ones((4, 3)), r"is not a pair \(time, event\)"),
        (np.array([[1, 1], [2, 0], [-1, 1], [3, 1]]), r"client 0 \(its sample 2\) has a time that is not a number from 0 on; given \[-1, 1\]"),
        (np.array([[1, 1], [2, 0], [4, 2], [3, 1]]), r"has an event that is neither 0 nor 1; given \[4, 2\]"),
        (np.array([[1, 1], [2, 0], [np.nan, 1], [3, 1]]), "has a time that is not a number from 0 on"),
        (np.array([["long", "yes"]] * 4), "text"),
    ],
)  # fmt: skip
def test_labels_that_are_refused(y, why):
    with pytest.raises(UserError, match=why):
        Federation.from_clients([(np.zeros((4, 3)), y)], task="survival", test_fraction=0)


def test_a_model_with_several_outputs_is_refused():
    with pytest.raises(UserError, match=r"outputs of shape \(2,\)'; allowed: \(1,\) for survival"):
        simulate(FedAvg(), nn.Linear(3, 2).double(), sites((10, 10)), rounds=1)
