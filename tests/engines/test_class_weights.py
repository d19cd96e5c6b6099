"""Class weights count a rare label as often as a frequent one (the plain loop with them: test_agreement)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from problems import ragged, small_net
from sklearn.utils.class_weight import compute_sample_weight
from torch import nn
from torch.nn import functional

from manyheads import SGD, Engine, Evaluate, FedAvg, Federation, FineTune, Local, UserError, personalize, simulate
from manyheads.data import LinearTasks, Samples
from manyheads.engines.class_weights import sample_weights

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 8, 3)).astype("float32")
FULL = FedAvg(steps=3, batch=0, sgd=SGD(lr=0.3, momentum=0.5))
"""three steps on all samples of a client"""


def federation(*clients):
    return Federation.from_clients([*clients], test_fraction=0, outputs=2)


def linear():
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def trained(data, class_weights, **how):
    done = simulate(FULL, linear(), data, rounds=2, class_weights=class_weights, **how)
    return torch.cat([v.flatten() for v in done.server.model.values()])


@pytest.mark.parametrize("mode", ["loop", "stacked"])
def test_at_the_client_they_are_as_repeating_its_rare_samples(mode):
    """Six of one class and two of the other, at one client; three and five at the other."""
    y = [np.array([0, 0, 0, 0, 0, 0, 1, 1]), np.array([1, 1, 1, 0, 0, 0, 0, 0])]
    repeats = [np.where(y[0] == 1, 3, 1), np.where(y[1] == 1, 5, 3)]
    repeated = federation(*((np.repeat(x, r, axis=0), np.repeat(t, r)) for x, t, r in zip(X, y, repeats, strict=True)))
    engine = {"engine": Engine(mode=mode), "weighting": "equal"}
    found = trained(federation(*zip(X, y, strict=True)), "client", **engine)
    torch.testing.assert_close(found, trained(repeated, "none", **engine))


def test_in_the_federation_they_are_by_all_labels():
    """12 samples of one class and 4 of the other: weights 2/3 and 2, wherever the samples are."""
    y = [np.array([0] * 8), np.array([0] * 4 + [1] * 4)]
    samples = Samples.of(list(zip(X, y, strict=True)))
    assert sample_weights(samples, 2, samples.y).tolist() == pytest.approx([2 / 3] * 12 + [2] * 4)
    assert sample_weights(samples, 2).tolist() == [1] * 16
    found = trained(federation(*zip(X, y, strict=True)), "balanced")
    model, w = linear(), torch.tensor([2 / 3, 2])
    for _ in range(2):
        ends = []
        for x, t in zip(X, y, strict=True):
            own = linear()
            own.load_state_dict(model.state_dict())
            opt = torch.optim.SGD(own.parameters(), lr=0.3, momentum=0.5)
            for _ in range(3):
                opt.zero_grad()
                each = functional.cross_entropy(own(torch.from_numpy(x)), torch.from_numpy(t), reduction="none")
                (w[torch.from_numpy(t)] * each).mean().backward()
                opt.step()
            ends.append(own.state_dict())
        model.load_state_dict({k: (ends[0][k] + ends[1][k]) / 2 for k in ends[0]})
    torch.testing.assert_close(found, torch.cat([v.flatten() for v in model.state_dict().values()]))


def test_the_weights_are_scikit_learns():
    data = ragged().train
    own = [compute_sample_weight("balanced", data.client(i)[1]) for i in range(len(data))]
    np.testing.assert_allclose(sample_weights(data, 3), np.concatenate(own))
    np.testing.assert_allclose(sample_weights(data, 3, data.y), compute_sample_weight("balanced", data.y))
    assert sample_weights(data, 4, data.y).mean() == pytest.approx(1)
    assert sample_weights(data, 3, np.array([0, 0, 1])).max() == 1.5  # a label that is not there weighs 1


def test_one_step_of_logistic_regression():
    """The gradient of the weighted loss is X^T w (p - y) / n."""
    x, y = X[0].astype(float), np.array([0, 0, 0, 0, 0, 0, 0, 1])
    start = nn.Linear(3, 2).double()
    done = simulate(
        FedAvg(steps=1, batch=0, sgd=SGD(lr=1.0, momentum=0)), start, federation((x, y)), rounds=1,
        class_weights="balanced",
    )  # fmt: skip
    out = x @ start.weight.detach().numpy().T + start.bias.detach().numpy()
    p = np.exp(out) / np.exp(out).sum(axis=1, keepdims=True)
    slope = (np.where(y == 1, 4, 4 / 7)[:, None] * (p - np.eye(2)[y])).T @ x / 8
    np.testing.assert_allclose(start.weight.detach().numpy() - done.server.model["weight"].numpy(), slope)


def test_fine_tuning_is_weighed_and_evaluation_is_not():
    data = ragged()
    how = {"rounds": 1, "finetune": FineTune(scope="all", steps=1, batch=0, lr=0.5), "evaluate": Evaluate(every=1)}
    plain, weighed = (
        simulate(Local(batch=0, epochs=1), small_net(), data, class_weights=w, **how) for w in ("none", "client")
    )
    found = weighed.predictions(data, finetuned=True)
    losses = functional.cross_entropy(torch.from_numpy(found.outputs), torch.from_numpy(found.labels), reduction="none")
    np.testing.assert_allclose(found.losses, losses, rtol=1e-5)
    client, (x, y) = 3, (torch.from_numpy(v) for v in data.train.client(3))
    net = small_net()
    net.load_state_dict(weighed.client_model(client))
    weight = torch.from_numpy(compute_sample_weight("balanced", y.numpy())).float()
    (weight * functional.cross_entropy(net(x), y, reduction="none")).mean().backward()
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.5 * p.grad
        rows = slice(*np.cumsum([0, *found.sizes])[[client, client + 1]])
        own = torch.from_numpy(data.test.client(client)[0])
        np.testing.assert_allclose(net(own).numpy(), found.outputs[rows], atol=1e-5)
    assert plain.checksum != weighed.checksum


def test_the_same_with_workers():
    data = ragged()
    sums = {
        simulate(FedAvg(), small_net(), data, rounds=2, class_weights="balanced", engine=engine).checksum
        for engine in (Engine(workers=1), Engine(workers=2), Engine(workers=2, start_method="spawn"))
    }
    assert len(sums) == 1


def test_a_new_client_weighs_its_own_labels():
    data, new = ragged(), (RNG.normal(size=(30, 6)).astype("float32"), np.array([0, 1, 2] + [2] * 27))
    runs = [simulate(FedAvg(), small_net(), data, rounds=1, class_weights=w) for w in ("none", "balanced", "client")]
    tune = FineTune(scope="all", steps=20, batch=0, lr=0.1)
    outputs = [personalize(run, new, finetune=tune, curve=[]).params for run in runs]
    assert not torch.equal(outputs[0]["4.bias"], outputs[1]["4.bias"])
    assert outputs[1]["4.bias"][2] < outputs[0]["4.bias"][2]  # the frequent label is predicted less


def test_a_task_without_classes_is_refused():
    with pytest.raises(UserError, match=r"class_weights: regression has no classes to weigh; given 'client'"):
        simulate(FedAvg(), "linear", LinearTasks(clients=3).federation(seed=0), rounds=1, class_weights="client")
