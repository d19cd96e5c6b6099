"""Every engine gives the numbers of the plain loop."""

from __future__ import annotations

import pytest
import reference
import torch
from problems import ConvNet, images, ragged, small_net

from manyheads import DSGD, SGD, Engine, FedAvg, FedRep, Local, Model, simulate
from manyheads.core.randomness import Purpose, torch_seeded
from manyheads.run.training import Training

OPT = SGD(lr=0.05, momentum=0.5, weight_decay=1e-3)
ALGORITHMS = [
    FedAvg(epochs=2, batch=5, sgd=OPT),
    FedAvg(steps=3, batch=4, sgd=SGD(lr=0.1, momentum=0.0)),
    FedAvg(steps=2, batch=0, sgd=OPT),
    DSGD(batch=5, lr=0.2),
    DSGD(batch=0, lr=0.2),
    FedRep(head_epochs=3, body_epochs=2, batch=5, sgd=OPT),
    FedRep(head_epochs=1, body_steps=2, batch=8, sgd=OPT),
    Local(epochs=1, batch=5, sgd=OPT),
]


def networks():
    with torch_seeded(1, Purpose.MODEL):
        conv = ConvNet()
    return [pytest.param(small_net(), "4", ragged(), id="mlp"), pytest.param(conv, "out", images(), id="conv")]


@pytest.mark.parametrize("mode", ["loop", "stacked", "auto"])
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=str)
@pytest.mark.parametrize(("module", "head", "federation"), networks())
def test_equals_the_plain_loop(algorithm, module, head, federation, mode):
    training = Training(rounds=3, participation=0.6, seed=5)
    model = Model(module, head=head)
    names = list(model.params.head)
    server, clients = reference.run(algorithm, module, names, federation, training)
    run = simulate(algorithm, model, federation, rounds=3, participation=0.6, seed=5, engine=Engine(mode=mode))
    got = next(iter(run.server.values()), {})
    for name, value in got.items():
        torch.testing.assert_close(value, server[name], atol=1e-5, rtol=1e-5)
    for client, own in clients.items():
        model_of_client = run.client_model(client)
        for name, value in own.items():
            torch.testing.assert_close(model_of_client[name], value, atol=1e-5, rtol=1e-5)
    assert isinstance(algorithm, Local) or got.keys() == server.keys()


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=str)
def test_workers_change_no_bit(algorithm):
    federation = ragged(sizes=(3, 20, 11, 8, 30, 5, 14, 9, 26, 17, 2, 12))
    sums = {
        simulate(algorithm, small_net(), federation, rounds=2, engine=engine).checksum
        for engine in (Engine(), Engine(workers=2), Engine(workers=3))
    }
    assert len(sums) == 1


def test_spawned_workers_change_no_bit():
    engines = (Engine(), Engine(workers=2, start_method="spawn"))
    runs = [simulate(FedRep(head_epochs=2), "mlp", ragged(), rounds=2, engine=e) for e in engines]
    assert runs[0].checksum == runs[1].checksum
    assert runs[0].accuracy == runs[1].accuracy


def test_dropout_is_addressed_too():
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
    first, again, two = (
        simulate(FedAvg(), module, ragged(), rounds=2, engine=Engine(workers=w)).checksum for w in (1, 1, 2)
    )
    assert first == again == two
    assert simulate(FedAvg(), module, ragged(), rounds=2, seed=1).checksum != first


def test_global_random_state_is_left_alone():
    import numpy as np

    torch.manual_seed(3)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    simulate(FedRep(head_epochs=1), "mlp", ragged(), rounds=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert (np.random.get_state()[1] == numpy_before).all()  # noqa: NPY002
