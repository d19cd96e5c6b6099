"""kNN-Per against a plain program in numpy, what it reduces to, and a problem that is made for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from problems import ragged, relabelled, small_net
from quadratic import model, problem
from survivors import sites

import manyheads as mh
from manyheads import SGD, Engine, Evaluate, FineTune, Model, simulate
from manyheads.core.errors import UserError
from manyheads.engines.workbench import model_of
from manyheads.run.protocol import Evaluate as Protocol

WORK = {"epochs": 2, "batch": 5, "sgd": SGD(lr=0.05)}
FEDERATION = ragged()
CLASSES = FEDERATION.outputs


# -- the plain program ---------------------------------------------------------------------------------------------------


def neighbours(z, known, answers, k, scale):
    """One sample: its k nearest, one after another, each with the weight exp(-distance / scale)."""
    distance = np.array([np.sqrt(((z - other) ** 2).sum()) for other in known])
    order = np.argsort(distance, kind="stable")[:k]
    share = np.exp(-distance[order] / scale)
    return sum(s * answers[j] for s, j in zip(share, order, strict=True)) / share.sum()


def softmax(out):
    exp = np.exp(out - out.max())
    return exp / exp.sum()


def cross_entropy(shares, labels):
    return -np.mean([np.log(p[y]) for p, y in zip(shares, labels, strict=True)])


class Oracle:
    """The predictions of one client with a given network, by numpy."""

    def __init__(self, net, federation, client, tune):
        (x, y), (new, self.labels) = federation.train.client(client), federation.test.client(client)
        self.y, self.tune = y, tune
        with torch.no_grad():
            self.known, self.z = (net[:-1](torch.from_numpy(v)).double().numpy() for v in (x, new))
            self.trained, self.out = (net(torch.from_numpy(v)).double().numpy() for v in (x, new))
        self.answers = np.eye(CLASSES)[y]

    def probabilities(self, weight):
        near = [neighbours(z, self.known, self.answers, *self.tune.knn) for z in self.z]
        return np.array([weight * n + (1 - weight) * softmax(o) for n, o in zip(near, self.out, strict=True)])

    def weight(self):
        """Each training sample predicted by the others, with every weight."""
        if len(self.y) == 1:
            return 0.0
        near = []
        for j in range(len(self.y)):
            others = [i for i in range(len(self.y)) if i != j]
            near.append(neighbours(self.known[j], self.known[others], self.answers[others], *self.tune.knn))
        losses = []
        for weight in np.arange(10) / 10:
            mix = [weight * n + (1 - weight) * softmax(o) for n, o in zip(near, self.trained, strict=True)]
            losses.append(cross_entropy(mix, self.y))
        return float(np.argmin(losses)) / 10


TUNES = [
    FineTune(scope="knn", neighbours=3, weight=0.4),
    FineTune(scope="knn", neighbours=10, scale=0.3),
    FineTune(scope="knn", neighbours=4, scale=5.0),
]
BASES = [mh.FedAvg(**WORK), mh.FedRep(batch=5, sgd=SGD(lr=0.05)), mh.Ditto(**WORK), mh.LGFedAvg(**WORK)]
"""one model for all, own heads, own models, own bodies"""


@pytest.mark.parametrize("mode", ["loop", "stacked"])
@pytest.mark.parametrize("tune", TUNES, ids=["given", "near", "far"])
@pytest.mark.parametrize("method", BASES, ids=lambda a: a.name)
def test_the_neighbours_of_any_method_are_those_of_the_plain_program(method, tune, mode):
    run = simulate(method, small_net(), FEDERATION, rounds=3, finetune=tune, engine=Engine(mode=mode))
    found = run.predictions(FEDERATION, finetuned=True)
    weights = []
    for client in range(len(FEDERATION)):
        oracle = Oracle(run.client_module(client), FEDERATION, client, tune)
        weights.append(oracle.weight() if tune.weight is None else tune.weight)
        memory = run.final_model(client, FEDERATION).memory
        assert memory.weight == pytest.approx(weights[-1])
        shares = torch.from_numpy(found.client(client).outputs).double().softmax(1).numpy()
        np.testing.assert_allclose(shares, oracle.probabilities(weights[-1]), atol=2e-6)
    assert tune.weight is not None or len(set(weights)) > 1  # they differ


def test_the_method_is_fedavg_with_neighbours():
    method = mh.KNNPer(**WORK, neighbours=3, scale=0.5, weight=0.6)
    mine = simulate(method, small_net(), FEDERATION, rounds=3)
    plain = simulate(mh.FedAvg(**WORK), small_net(), FEDERATION, rounds=3, finetune=method.adaptation())
    assert mine.checksum == plain.checksum
    assert mine.history[-1]["evaluation"]["per_client"] == plain.final[0]["per_client"]
    assert "personal model with its 3 nearest training samples (weight 0.6)" in mine.protocol


# -- reductions ----------------------------------------------------------------------------------------------------------


def test_with_weight_zero_it_is_fedavg_to_the_last_bit():
    mine, plain = (
        simulate(a, small_net(), FEDERATION, rounds=3) for a in (mh.KNNPer(**WORK, weight=0.0), mh.FedAvg(**WORK))
    )
    assert mine.checksum == plain.checksum
    for found, other in zip(mine.history, plain.history, strict=True):
        assert found["evaluation"]["per_client"] == other["evaluation"]["per_client"]


def test_with_weight_one_and_one_neighbour_it_is_the_nearest_neighbour():
    run = simulate(mh.KNNPer(**WORK, weight=1.0, neighbours=1), small_net(), FEDERATION, rounds=3)
    found = run.predictions(FEDERATION)
    for client in range(len(FEDERATION)):
        oracle = Oracle(run.client_module(client), FEDERATION, client, FineTune())
        nearest = ((oracle.z[:, None] - oracle.known[None]) ** 2).sum(2).argmin(1)
        assert (found.client(client).predicted == oracle.y[nearest]).all()
    assert run.loss > 0


def test_a_regression_has_the_mean_of_its_neighbours():
    federation = problem()  # the model is all head: its features are the inputs
    run = simulate(mh.KNNPer(batch=0, steps=5, weight=0.7, neighbours=4), model(), federation, rounds=2)
    found = run.predictions(federation)
    for client in range(len(federation)):
        (x, y), (new, _) = federation.train.client(client), federation.test.client(client)
        near = np.array([neighbours(z, x, y.reshape(-1), 4, 1.0) for z in new])
        plain = new @ run.server.model["weight"].numpy()[0]
        np.testing.assert_allclose(found.client(client).outputs.reshape(-1), 0.7 * near + 0.3 * plain, atol=1e-12)


# -- a problem that is made for it ---------------------------------------------------------------------------------------


def scores(method, net, others=8):
    """Mean accuracy over three seeds, of the clients with other names for the classes, and of the rest."""
    found = []
    for seed in range(3):
        run = simulate(method, net, relabelled(seed, others), rounds=20, seed=seed, evaluate=Evaluate(every=20))
        each = 100 * np.array(run.history[-1]["evaluation"]["per_client"]["accuracy"])
        found.append((each[:others].mean(), each[others:].mean()))
    return np.mean(found, axis=0)


def test_it_helps_where_a_few_clients_have_labels_that_the_shared_model_cannot_express():
    """Its features tell the classes apart wherever these have other names; the inputs do not, nor do few samples alone."""
    work, net = {"epochs": 2, "sgd": SGD(lr=0.1)}, small_net(dim=60, hidden=32, classes=4)
    mine, shared, alone = (scores(method(**work), net) for method in (mh.KNNPer, mh.FedAvg, mh.Local))
    inputs = scores(mh.KNNPer(**work, weight=1.0), torch.nn.Linear(60, 4))  # all head: neighbours among the inputs
    assert mine[0] > shared[0] + 60
    assert mine[1] > shared[1] - 2
    for other in (alone, inputs):
        assert (mine > other + 5).all()


# -- new clients, and what is refused ------------------------------------------------------------------------------------


def test_a_new_client_remembers_its_own_samples():
    federation = relabelled(0).with_new_clients(0.3, seed=0)
    work, net = {"epochs": 2, "sgd": SGD(lr=0.1)}, small_net(dim=60, hidden=32, classes=4)
    mine, plain = (
        simulate(method(**work), net, federation, rounds=20, evaluate=Evaluate(every=20)).final
        for method in (mh.KNNPer, mh.FedAvg)
    )
    assert mine[0]["who"] == plain[0]["who"] == "new"
    assert mine[0]["protocol"].startswith("personal model with its 10 nearest training samples")
    assert mine[0]["accuracy"] > plain[0]["accuracy"] + 0.05


def test_what_neighbours_cannot_answer_is_one_line():
    knn = FineTune(scope="knn")
    for method, tune in ((mh.KNNPer(), None), (mh.FedAvg(), knn)):
        with pytest.raises(UserError, match="neighbours cannot answer for survival"):
            simulate(method, "mlp", sites((30, 30)), rounds=1, finetune=tune)
        with pytest.raises(UserError, match="no features to find neighbours by.*name its last layer"):
            simulate(method, Model(small_net(), head=()), FEDERATION, rounds=1, finetune=tune)


def test_the_other_models_of_the_method_are_without_neighbours():
    method = mh.KNNPer(**WORK, weight=1.0)
    run = simulate(method, small_net(), FEDERATION, rounds=2, evaluate=Evaluate(model="global"))
    plain = simulate(mh.FedAvg(**WORK), small_net(), FEDERATION, rounds=2)
    assert run.loss == plain.loss
    what = replace(Protocol(), model="local").evaluation(method, FineTune())
    assert what.tune.scope == "none"
    assert model_of(method, "personal", run.server, mh.State()) is run.server.model


def test_settings_in_short():
    assert FineTune.parse("knn:7") == {"scope": "knn", "neighbours": "7"}
    assert FineTune.parse("knn") == {"scope": "knn"}
    for wrong in ("knn:3steps", "knn:x", "kn:3"):
        with pytest.raises(UserError, match="knn:NEIGHBOURS"):
            FineTune.parse(wrong)
    with pytest.raises(UserError, match="less than or equal to 1"):
        FineTune(scope="knn", weight=1.5)
