"""Gradients and Hessian-vector products by hand, against autograd."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call

from manyheads.core.products import Product, formed
from manyheads.core.tasks import Classification, task_named
from manyheads.engines.derivatives import Losses, gradient, hvp
from manyheads.models.chain import Chain

CLIENTS, BATCH = 3, 7


def double(*layers: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    for layer in layers:
        if isinstance(layer, nn.Linear):
            layer.reset_parameters()
    return nn.Sequential(*layers).double()


NETS = {
    "relu": lambda: double(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 6, bias=False), nn.ReLU(), nn.Linear(6, 3)),
    "elu": lambda: double(nn.Linear(5, 4), nn.ELU(), nn.Linear(4, 6), nn.ELU(), nn.Linear(6, 3)),
    "tanh": lambda: double(nn.Linear(5, 4, bias=False), nn.Tanh(), nn.Linear(4, 3), nn.Tanh()),
    "sigmoid": lambda: double(nn.Linear(5, 4), nn.Sigmoid(), nn.Linear(4, 4), nn.Linear(4, 3)),
    "linear": lambda: double(nn.Linear(5, 3)),
    "wide": lambda: double(nn.Linear(5, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 3)),
}


def batch(task):
    torch.manual_seed(1)
    x = torch.randn(CLIENTS, BATCH, 5, dtype=torch.float64)
    y = torch.randint(0, 3, (CLIENTS, BATCH)) if task == "classification" else torch.randn(CLIENTS, BATCH, 3).double()
    weight = torch.rand(CLIENTS, BATCH, dtype=torch.float64)
    weight[1, 4:] = 0  # a client with fewer samples
    return x, y, weight


def loss_of(module, params, x, y, weight, task):
    out = functional_call(module, params, (x,))
    if task == "classification":
        each = nn.functional.cross_entropy(out, y, reduction="none")
    else:
        each = 0.5 * (out - y).square().sum(dim=1)
    return (each * weight).sum()


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("trained", ["all", "some"])
@pytest.mark.parametrize("shared", [False, True])
def test_by_hand_as_by_autograd(task, name, trained, shared):
    module, (x, y, weight) = NETS[name](), batch(task)
    chain = Chain.of(module)
    assert chain is not None
    names = [k for k, _ in module.named_parameters()]
    names = names if trained == "all" else names[:1] + names[2:]
    start = {k: v.detach() for k, v in module.named_parameters() if k in names}
    each = {k: torch.stack([v * (1 + 0.3 * (not shared) * c) for c in range(CLIENTS)]) for k, v in start.items()}
    vector = {k: torch.randn_like(v) for k, v in each.items()}
    params = start if shared else each
    task_losses = Losses(task_named(task), y, weight)
    loss, slope = gradient(chain, params, x, task_losses)
    again, product = hvp(chain, params, x, task_losses, vector)
    torch.testing.assert_close(loss, again)
    assert list(slope) == list(product) == names
    assert {k for k in names if isinstance(slope[k], Product)} == ({"2.weight"} if name == "wide" else set())
    slope, product = ({k: formed(v) for k, v in of.items()} for of in (slope, product))
    for c in range(CLIENTS):
        own = {k: v[c].requires_grad_() for k, v in each.items()}
        value = loss_of(module, own, x[c], y[c], weight[c], task)
        expected = torch.autograd.grad(value, list(own.values()), create_graph=True)
        along = [vector[k][c] for k in names]
        curved = torch.autograd.grad(expected, list(own.values()), along, materialize_grads=True)
        torch.testing.assert_close(loss[c], value.detach())
        for k, g, h in zip(names, expected, curved, strict=True):
            torch.testing.assert_close(slope[k][c], g.detach())
            torch.testing.assert_close(product[k][c], h)


def test_frozen_layers_at_the_bottom():
    module, (x, y, weight) = NETS["elu"](), batch("classification")
    chain, losses = Chain.of(module), Losses(Classification(), y, weight)
    assert chain is not None
    head = {k: v.detach() for k, v in module.named_parameters() if k.startswith("4")}
    vector = {k: torch.randn(CLIENTS, *v.shape, dtype=v.dtype) for k, v in head.items()}
    _, product = hvp(chain, head, x, losses, vector)
    step = 1e-5
    ahead, behind = (
        gradient(chain, {k: v + s * step * vector[k] for k, v in head.items()}, x, losses)[1] for s in (1, -1)
    )
    ahead, behind, product = ({k: formed(v) for k, v in of.items()} for of in (ahead, behind, product))
    for k, h in product.items():
        torch.testing.assert_close(h, (ahead[k] - behind[k]) / (2 * step), rtol=1e-6, atol=1e-9)


def test_a_vector_of_products_is_the_vector_they_form():
    module, (x, y, weight) = NETS["wide"](), batch("classification")
    chain, losses = Chain.of(module), Losses(Classification(), y, weight)
    assert chain is not None
    params = {k: v.detach() for k, v in module.named_parameters()}
    _, vector = gradient(chain, params, x, losses)
    assert isinstance(vector["2.weight"], Product)
    found, wanted = (
        hvp(chain, params, x, losses, along)[1] for along in (vector, {k: formed(v) for k, v in vector.items()})
    )
    for k in params:
        torch.testing.assert_close(formed(found[k]), formed(wanted[k]))
