"""Batch norm: its statistics are averaged or stay with the client, as was said, and never by accident."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from problems import ragged
from torch import nn

from manyheads import APFL, SGD, Engine, FedAvg, FedPer, FedRep, Local, Model, UserError, simulate

SIZES = (12, 20, 16, 24)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def federation():
    return ragged(sizes=SIZES)


def test_what_becomes_of_the_statistics_must_be_said():
    with pytest.raises(UserError, match=r"batch norm.*norm='average'.*norm='local'.*GroupNorm"):
        Model(net())
    assert Model(nn.Linear(6, 3), norm="local").statistics == frozenset()


def test_averaged_statistics_equal_a_plain_loop():
    """One full-batch step at every client in training mode, then the mean of parameters and statistics alike."""
    data, lr = federation(), 0.1
    run = simulate(FedAvg(steps=1, batch=0, sgd=SGD(lr=lr, momentum=0.0)), Model(net(), norm="average"), data, rounds=1)
    states, sizes = [], data.train.sizes
    for client in range(len(data)):
        own, (x, y) = copy.deepcopy(net()), map(torch.from_numpy, data.train.client(client))
        optimizer = torch.optim.SGD(own.parameters(), lr=lr)
        nn.functional.cross_entropy(own(x), y).backward()
        optimizer.step()
        states.append(own.state_dict())
    for name, value in run.server.model.items():
        wanted = sum(s[name] * float(n) for s, n in zip(states, sizes, strict=True)) / float(sizes.sum())
        torch.testing.assert_close(value, wanted, atol=1e-6, rtol=1e-5)
    assert "1.running_var" in run.server.model
    assert not torch.equal(run.server.model["1.running_mean"], torch.zeros(8))


def test_local_statistics_never_travel_and_are_the_clients_own():
    run = simulate(FedPer(epochs=2, batch=4), Model(net(), head="3", norm="local"), federation(), rounds=3)
    assert set(run.server.body) == {"0.weight", "0.bias"}
    means = [run.client_model(i)["1.running_mean"] for i in range(len(SIZES))]
    assert all(not torch.equal(means[0], m) for m in means[1:])
    for client in range(len(SIZES)):
        assert run.client_model(client).keys() == run.model.params.all.keys()


def test_statistics_are_used_in_evaluation_and_not_changed_by_it():
    data = federation()
    run = simulate(FedAvg(epochs=2, batch=4), Model(net(), norm="average"), data, rounds=3)
    own = net()
    own.load_state_dict(dict(run.server.model), strict=False)
    own.eval()
    accuracy = []
    for client in range(len(data)):
        x, y = data.test.client(client)
        accuracy.append((own(torch.from_numpy(x)).argmax(1).numpy() == y).mean())
    assert run.accuracy == pytest.approx(np.mean(accuracy))


def test_a_method_without_personal_parameters_cannot_keep_them_local():
    with pytest.raises(UserError, match=r"fedavg keeps no parameters at the client.*fedper"):
        simulate(FedAvg(), Model(net(), norm="local"), federation(), rounds=1)


def test_a_method_of_gradients_alone_is_refused():
    with pytest.raises(UserError, match="would leave running statistics"):
        simulate(APFL(), Model(net(), norm="average"), federation(), rounds=1)


def test_a_batch_of_one_is_an_error_that_names_the_client():
    with pytest.raises(UserError, match="single sample, as client 0"):
        simulate(FedAvg(batch=5), Model(net(), norm="average"), ragged(sizes=(-2, 12)), rounds=1)


def test_a_rest_of_one_joins_the_batch_before():
    data = ragged(sizes=(11,))
    assert data.train.sizes[0] % 5 == 1 or data.train.sizes[0] % 9 == 1
    run = simulate(FedAvg(batch=5 if data.train.sizes[0] % 5 == 1 else 9), Model(net(), norm="average"), data, rounds=2)
    assert run.rounds == 2


@pytest.mark.parametrize(
    "algorithm",
    [FedAvg(batch=4), FedRep(head_epochs=2, batch=4), FedPer(batch=4), Local(batch=4)],
    ids=lambda a: a.name,
)
def test_workers_and_resume_change_no_bit(algorithm, tmp_path):
    model = Model(net(), head="3", norm="average")
    whole, two = (simulate(algorithm, model, federation(), rounds=4, engine=Engine(workers=w)) for w in (1, 2))
    assert whole.checksum == two.checksum
    simulate(algorithm, model, federation(), rounds=2, out=tmp_path / "run")
    assert (
        simulate(algorithm, model, federation(), rounds=4, out=tmp_path / "run", resume=True).checksum == whole.checksum
    )
