"""A task of the user's own: its loss is trained by autograd, and its labels are checked like any others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from manyheads import SGD, TASKS, Engine, FedAvg, Federation, Model, PerFedAvg, Task, UserError, simulate
from manyheads.core.tasks import task_named


class Poisson(Task):
    """Counts, whose expectation is the exponential of the output."""

    name = "poisson"
    loss_words = "Poisson deviance"

    def losses(self, outputs, labels):
        outputs = outputs.reshape(labels.shape)
        return outputs.exp() - labels * outputs


@pytest.fixture
def counts():
    """A federation of counts, and its clients' samples."""
    TASKS.register(Poisson)
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(n, 3)) for n in (12, 20, 7)]
    y = [rng.poisson(np.exp(rows @ [0.5, -0.3, 0.2])) for rows in x]
    return Federation.from_clients(list(zip(x, y, strict=True)), task="poisson")


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 1).double()


def test_rounds_are_those_of_a_plain_loop(counts):
    """Full batches, one step: each round is a step of gradient descent on the mean over samples."""
    net, rate, rounds = linear(), 0.1, 5
    for mode in ("loop", "stacked", "auto"):
        run = simulate(
            FedAvg(epochs=1, batch=0, sgd=SGD(lr=rate)), Model(linear(), head=()), counts, rounds=rounds,
            engine=Engine(mode=mode),
        )  # fmt: skip
        net = linear()
        x, y = torch.from_numpy(counts.train.x), torch.from_numpy(counts.train.y).double()
        for _ in range(rounds):
            out = net(x)[:, 0]
            loss = (out.exp() - y * out).mean()
            grads = torch.autograd.grad(loss, list(net.parameters()))
            with torch.no_grad():
                for p, g in zip(net.parameters(), grads, strict=True):
                    p -= rate * g
        for name, leaf in net.named_parameters():
            torch.testing.assert_close(run.server.flat[f"model/{name}"], leaf.detach())


def test_what_is_reported(counts):
    run = simulate(FedAvg(), Model(linear(), head=()), counts, rounds=2)
    assert run.protocol.endswith("loss: Poisson deviance")
    assert run.accuracy is None
    own = run.client_model(0)
    x, y = (v[counts.test.offsets[0] : counts.test.offsets[1]] for v in (counts.test.x, counts.test.y))
    out = x @ own["weight"][0].numpy() + own["bias"].numpy()
    first = run.history[-1]["evaluation"]["per_client"]["loss"][0]
    assert first == pytest.approx(float((np.exp(out) - y * out).mean()))


def test_second_derivatives_of_it(counts):
    """A method that works with Hessian-vector products, in both ways of working."""
    runs = [
        simulate(PerFedAvg(), Model(linear(), head=()), counts, rounds=2, engine=Engine(mode=mode))
        for mode in ("loop", "stacked")
    ]
    one, other = (run.server.flat for run in runs)
    for name, leaf in one.items():
        torch.testing.assert_close(leaf, other[name])


def test_labels_are_numbers_as_for_a_regression(counts):
    assert counts.outputs == 1
    assert counts.encoding.labels == ()
    with pytest.raises(UserError, match=r"outputs of shape \(2,\)'; allowed: \(1,\) for poisson with 1 targets"):
        simulate(FedAvg(), nn.Linear(3, 2).double(), counts, rounds=1)
    assert task_named("poisson").label_type(torch.zeros(1)) == torch.float32


def test_workers_that_know_nothing_of_it(counts):
    """Spawned ones get the task with the model."""
    one, other = (
        simulate(FedAvg(), Model(linear(), head=()), counts, rounds=1, engine=engine)
        for engine in (Engine(workers=1), Engine(workers=2, start_method="spawn"))
    )
    assert one.checksum == other.checksum


def test_what_is_no_task():
    with pytest.raises(UserError, match=r"task: unknown task; given 'poissom'"):
        Federation.from_clients([(np.zeros((2, 3)), np.zeros(2))], task="poissom")
    with pytest.raises(UserError, match="is no Task"):
        TASKS.register(type("Loose", (), {"name": "loose"}))
    with pytest.raises(UserError, match="does not say what its loss is"):
        TASKS.register(type("Lossless", (Task,), {"name": "lossless"}))
