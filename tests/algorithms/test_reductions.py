"""Identities between algorithms that must hold exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from problems import ragged, small_net
from torch.nn import functional

from manyheads import DSGD, SGD, FedAvg, FedRep, Local, Model, simulate

SETTINGS = {"epochs": 2, "batch": 5, "sgd": SGD(lr=0.05)}


def assert_same(a, b, **tolerance):
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name], b[name], **tolerance)


def test_fedrep_with_everything_shared_and_no_head_phase_is_fedavg():
    shared = Model(small_net(), head=())
    fedrep = FedRep(head_epochs=0, body_epochs=2, batch=5, sgd=SGD(lr=0.05))
    first = simulate(fedrep, shared, ragged(), rounds=3, participation=0.5, weighting="equal")
    second = simulate(FedAvg(**SETTINGS), shared, ragged(), rounds=3, participation=0.5, weighting="equal")
    assert_same(first.server.body, second.server.model, atol=0, rtol=0)


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_dsgd_is_fedavg_with_one_step(decay):
    one_step = FedAvg(steps=1, batch=5, sgd=SGD(lr=0.1, momentum=0.0, weight_decay=decay))
    first = simulate(DSGD(batch=5, lr=0.1, weight_decay=decay), small_net(), ragged(), rounds=4, participation=0.7)
    second = simulate(one_step, small_net(), ragged(), rounds=4, participation=0.7)
    assert_same(first.server.model, second.server.model, atol=1e-6, rtol=1e-5)


def test_fedavg_with_one_full_batch_step_of_all_clients_is_gradient_descent_on_the_global_loss():
    federation, lr = ragged(), 0.1
    run = simulate(FedAvg(steps=1, batch=0, sgd=SGD(lr=lr, momentum=0.0)), small_net(), federation, rounds=5)
    net = small_net()
    x, y = torch.from_numpy(federation.train.x), torch.from_numpy(federation.train.y)
    for _ in range(5):
        net.zero_grad()
        functional.cross_entropy(net(x), y).backward()  # sizes as weights: the mean over all samples
        with torch.no_grad():
            for p in net.parameters():
                p -= lr * p.grad
    assert_same(dict(run.server.model), dict(net.named_parameters()), atol=1e-6, rtol=1e-5)


def test_fedrep_gives_the_method_of_local_training_when_nothing_is_shared():
    """With all parameters in the head, each client trains alone."""
    net = torch.nn.Linear(6, 3)
    fedrep = FedRep(head_epochs=2, batch=5, sgd=SGD(lr=0.05))
    first = simulate(fedrep, Model(net), ragged(), rounds=3)
    second = simulate(Local(**SETTINGS), Model(net), ragged(), rounds=3)
    for client in range(len(ragged())):
        assert_same(first.client_model(client), second.client_model(client), atol=1e-6, rtol=1e-5)


def test_one_client_federation_is_ordinary_sgd():
    federation = ragged(sizes=(30,))
    run = simulate(FedAvg(epochs=1, batch=5, sgd=SGD(lr=0.05, momentum=0.0)), small_net(), federation, rounds=3)
    alone = simulate(Local(epochs=1, batch=5, sgd=SGD(lr=0.05, momentum=0.0)), small_net(), federation, rounds=3)
    assert_same(run.server.model, alone.client_model(0), atol=1e-7, rtol=1e-6)


def test_fedrep_learns_the_shared_subspace_and_dsgd_does_not_beat_it():
    """On y = w_i^T B^T x, FedRep's representation turns into the column space of B."""
    from manyheads.data import LinearTasks
    from manyheads.models import LinearRepresentation, build_model

    tasks = LinearTasks(clients=40, dim=10, rank=2, samples=40, dtype="float64")
    model = build_model(LinearRepresentation(rank=2), (10,), 1, seed=0, dtype="float64")
    fedrep = FedRep(head_epochs=10, body_epochs=1, batch=0, sgd=SGD(lr=0.2, momentum=0.0))
    run = simulate(fedrep, model, tasks.federation(seed=0), rounds=300)
    learned, _ = np.linalg.qr(run.server.body["0.weight"].numpy().T)
    outside = learned - tasks.truth(seed=0).body @ (tasks.truth(seed=0).body.T @ learned)
    assert np.linalg.norm(outside, 2) < 1e-3
    assert run.loss < 1e-5
