"""A loss on features, in every way in which models are trained; and what a cohort tells of features."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cohorts import assert_gradient, losses_at, smooth_cohort
from problems import ConvNet, images, ragged, small_net
from torch import nn

from manyheads import SGD, Model, Tree, UserError
from manyheads.core.contract import Round
from manyheads.core.features import Align
from manyheads.core.optim import TorchOptimizer
from manyheads.engines import cohort as cohorts
from manyheads.engines.client_data import ClientData
from manyheads.engines.cohort import LocalCohort

ONE_STEP = {"opt": SGD(lr=1.0, momentum=0.0), "batch": 0, "steps": 1}


def cohort_of(module, federation, mode, head=None):
    model = Model(module, head=head)
    data = ClientData.of(federation.train, federation.task, next(iter(model.params.all.values())))
    tried = model.tried(data.x[:2], federation.task, federation.outputs)
    count = len(data.sizes)
    return LocalCohort(tried, data, range(count), Round(1, 0, count, count), mode), model.params


def pull_of(classes, features, dtype=torch.float32):
    rng = torch.Generator().manual_seed(3)
    weight = torch.tensor([2.0, 0.0, 0.5], dtype=dtype)[:classes]
    return Align(weight, torch.randn(classes, features, generator=rng, dtype=dtype))


@pytest.mark.parametrize("mode", ["loop", "stacked"])
def test_the_gradient_by_hand_is_that_of_finite_differences(mode):
    cohort, w = smooth_cohort()
    cohort.mode = mode
    align = pull_of(3, 5, torch.float64)
    full = cohort.draw(0)

    def losses(point: Tree) -> torch.Tensor:
        z = torch.tanh(full.x @ point["0.weight"].mT + point["0.bias"].unsqueeze(1))
        away = (z - align.centroids[full.y]).square().mean(dim=2)
        return losses_at(cohort, point) + (align.weight[full.y] * away * full.weight).sum(dim=1)

    assert_gradient(w - cohort.sgd(w, align=align, **ONE_STEP), losses, w)
    body, head = w.select({"0.weight", "0.bias"}), w.select({"2.weight", "2.bias"})
    stepped = cohort.sgd(body, given=head, align=align, **ONE_STEP)
    assert_gradient(body - stepped, lambda b: losses(b | head), body)
    loss = losses(w).numpy()
    again, _ = smooth_cohort()
    again.sgd(w, align=align, **ONE_STEP)
    np.testing.assert_allclose(again.train_loss, loss)


class Hidden(nn.Module):
    """A chain that cannot be seen to be one, so that autograd computes its gradients."""

    def __init__(self, chain):
        super().__init__()
        self.body, self.out = chain[:-1], chain[-1]

    def forward(self, x):
        return self.out(1 * self.body(x))


@pytest.mark.parametrize(
    "opt", [SGD(lr=0.1, momentum=0.5, weight_decay=0.01), TorchOptimizer("adam", lr=0.01)], ids=str
)
def test_by_hand_and_by_autograd_agree(opt):
    federation, align = ragged(), pull_of(3, 5)
    found = []
    for module, head, mode in (
        (small_net(), "4", "stacked"),
        (small_net(), "4", "loop"),
        (Hidden(small_net()), "out", "loop"),
        (Hidden(small_net()), "out", "stacked"),
    ):
        cohort, params = cohort_of(module, federation, mode, head)
        trained = cohort.sgd(params.body, given=params.head, opt=opt, batch=5, epochs=2, align=align)
        found.append((list(trained.values()), cohort.train_loss))
    for values, loss in found[1:]:
        np.testing.assert_allclose(loss, found[0][1], rtol=1e-5)
        for got, want in zip(values, found[0][0], strict=True):
            torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


def test_a_head_that_begins_with_an_activation_has_its_input_as_features():
    """By hand, the activation would belong to the layer below."""
    with_it = nn.Sequential(nn.Linear(6, 5), nn.Sequential(nn.ReLU(), nn.Linear(5, 3)))
    align, steps = pull_of(3, 5), {"opt": SGD(lr=0.1), "batch": 5, "epochs": 1}
    cohort, params = cohort_of(with_it, ragged(), "auto", "1")
    assert cohort.model.net.chain is not None
    got = cohort.sgd(params.body, given=params.head, align=align, **steps)
    other, _ = cohort_of(Hidden(with_it), ragged(), "loop", "out")
    renamed = {"body.0." + k.partition(".")[2]: v for k, v in params.body.items()}
    head = {"out." + k.partition(".")[2]: v for k, v in params.head.items()}
    want = other.sgd(Tree(renamed), given=Tree(head), align=align, **steps)
    for mine, its in zip(got.values(), want.values(), strict=True):
        torch.testing.assert_close(mine, its, atol=1e-6, rtol=1e-5)
    z = cohort.class_features(params.body, 3).means
    assert (z < 0).any()  # before the ReLU


def test_no_weight_is_no_loss(monkeypatch):
    federation = ragged()
    align = Align(torch.zeros(3), torch.ones(3, 5))
    for mode in ("loop", "stacked"):
        plain, params = cohort_of(small_net(), federation, mode)
        other, _ = cohort_of(small_net(), federation, mode)
        how = {"given": params.head, "opt": SGD(lr=0.1), "batch": 5, "epochs": 2}
        first, second = plain.sgd(params.body, **how), other.sgd(params.body, align=align, **how)
        assert all(torch.equal(v, second[k]) for k, v in first.items())
    monkeypatch.setattr(cohorts, "stacked", lambda update: pytest.fail("stacked by autograd"))
    cohort, params = cohort_of(ConvNet(), images(), "stacked", "out")
    cohort.sgd(
        params.body, given=params.head, opt=SGD(), batch=5, epochs=1, align=Align(torch.zeros(3), torch.ones(3, 8))
    )


@pytest.mark.parametrize(("module", "federation", "head"), [(small_net(), ragged(), "4"), (ConvNet(), images(), "out")])
def test_features_of_classes_are_those_of_a_plain_computation(module, federation, head):
    cohort, params = cohort_of(module, federation, "auto", head)
    clients = len(federation.train.sizes)
    shift = torch.arange(clients) / 10
    own = params.body.map(lambda v: v + shift.view(-1, *[1] * v.ndim))
    for body in (params.body, own):
        found = cohort.class_features(body, 3)
        for i in range(clients):
            x, y = federation.train.client(i)
            mine = body if body is params.body else own.map(lambda v: v[i])  # noqa: B023
            z = cohort.model.features(mine, torch.from_numpy(np.array(x))).numpy()
            assert found.counts[i].tolist() == [int((y == k).sum()) for k in range(3)]
            for k in range(3):
                rows = z[y == k] if (y == k).any() else np.zeros((1, z.shape[1]))
                np.testing.assert_allclose(found.means[i, k], rows.mean(axis=0), atol=1e-6)
                np.testing.assert_allclose(found.squares[i, k], (rows**2).sum(axis=1).mean(), rtol=1e-5)


def test_features_are_those_of_an_evaluation():
    module = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    cohort, params = cohort_of(module, ragged(), "auto")
    first, again = (cohort.class_features(params.body, 3) for _ in range(2))
    assert torch.equal(first.means, again.means)
    assert cohort.model.module.training


def test_what_has_no_features_is_refused():
    cohort, params = cohort_of(small_net(), ragged(), "auto")
    align = pull_of(3, 5)
    with pytest.raises(UserError, match="needs features of the model"):
        cohort.sgd(params.head, given=params.body, opt=SGD(), batch=5, epochs=1, align=align)
    alone, params = cohort_of(nn.Linear(6, 3), ragged(), "auto")
    with pytest.raises(UserError, match="needs features of the model"):
        alone.class_features(params.all, 3)
