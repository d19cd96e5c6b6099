"""The forms of a linear layer on its way down give the same steps, and the cheapest is taken."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from manyheads import SGD
from manyheads.core.tasks import Classification
from manyheads.engines.chain import descend
from manyheads.engines.cheapest import layer_for
from manyheads.engines.descent import Descent
from manyheads.engines.dual import Dual
from manyheads.engines.layers import Direct, Start, Steps
from manyheads.models.chain import Chain

MOMENTUM = SGD(lr=0.05, momentum=0.6)
PLAIN = SGD(lr=0.05, momentum=0.0)


def steps_of(sizes, passes, batch, inputs, seed=0):
    """Clients with these numbers of samples and passes over them, those with most steps first."""
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    plans = [
        [rows for _ in range(p) for rows in np.split(rng.permutation(n), range(batch, n, batch))]
        for n, p in zip(sizes, passes, strict=True)
    ]
    rows = np.zeros((len(plans[0]), len(sizes), batch), np.int64)
    weight = np.zeros(rows.shape)
    for client, plan in enumerate(plans):
        for time, own in enumerate(plan):
            rows[time, client, : len(own)] = own + starts[client]
            weight[time, client, : len(own)] = 1 / len(own)
    x = torch.from_numpy(rng.normal(size=(sum(sizes), inputs)))
    labels = torch.from_numpy(rng.integers(0, 3, sum(sizes)))
    rows_TCB = torch.from_numpy(rows)
    return Steps(
        x, rows_TCB, torch.from_numpy(weight), labels[rows_TCB], Classification(), plans, starts, np.array(sizes)
    )


def by_torch(module, steps, client, opt, extra=lambda name, p: 0):
    """The same steps of one client by torch's own optimizer; ``extra`` is added to each gradient."""
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    groups = [
        {"params": [p], "weight_decay": opt.weight_decay if "bias" not in name else 0.0} for name, p in trained.items()
    ]
    optimizer = torch.optim.SGD(groups, lr=opt.lr, momentum=opt.momentum)
    for time, own in enumerate(steps.plans[client]):
        rows = steps.rows_TCB[time, client, : len(own)]
        optimizer.zero_grad()
        out = module(steps.x[rows])
        torch.nn.functional.cross_entropy(out, steps.labels_TCB[time, client, : len(own)]).backward()
        for name, p in trained.items():
            p.grad += extra(name, p.detach())
        optimizer.step()


def net(bias=True, frozen=()):
    torch.manual_seed(0)
    made = torch.nn.Sequential(
        torch.nn.Linear(6, 5, bias=bias), torch.nn.Tanh(), torch.nn.Linear(5, 4, bias=bias), torch.nn.ReLU(),
        torch.nn.Linear(4, 3, bias=bias),
    ).double()  # fmt: skip
    for name, p in made.named_parameters():
        p.requires_grad_(name not in frozen)
    return made


def tree_like(module, clients=0, seed=5):
    """Random values with the names and shapes of a module's parameters, for each of some clients or for all alike."""
    made = torch.Generator().manual_seed(seed)
    shapes = {k: (clients, *v.shape) if clients else v.shape for k, v in module.named_parameters()}
    return {k: torch.randn(shape, generator=made, dtype=torch.float64) for k, shape in shapes.items()}


TERMS = {
    "the gradient alone": (None, False, None),
    "a pull": (0.3, False, None),
    "a pull of each client's own": (torch.tensor([0.1, 0.4, 0.9], dtype=torch.float64), True, None),
    "pulls of each client's own to one place": (torch.tensor([0.1, 0.4, 0.9], dtype=torch.float64), False, None),
    "a correction": (None, False, True),
    "one correction for all": (None, False, False),
    "a pull and a correction": (0.3, True, True),
}
"""strength of the pull, whether each client has its own anchor, and whether it has its own correction"""


def forced(monkeypatch, form):
    """Let the first layer have this form; returns the list of forms that are made."""
    made: list[type] = []

    def layer(start, steps, opt, prox, correction, first, lowest):
        dual = form == "dual" and first
        own = Dual(start, opt, steps, prox, correction) if dual else None
        made.append(type(own := own or Direct(start, Descent(opt, start.into, prox, correction))))
        return own

    monkeypatch.setattr("manyheads.engines.chain.layer_for", layer)
    return made


@pytest.mark.parametrize("opt", [PLAIN, MOMENTUM, SGD(lr=0.05, momentum=0.6, weight_decay=0.2)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("form", ["direct", "dual"])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("terms", TERMS)
def test_every_form_makes_the_steps_of_torch(monkeypatch, opt, bias, form, own, terms):
    """Clients of several sizes and lengths, from one model or each from its own."""
    made = forced(monkeypatch, form)
    steps = steps_of(sizes=[9, 7, 4], passes=[4, 3, 2], batch=3, inputs=6)
    assert [len(plan) for plan in steps.plans] == [12, 9, 4]
    start = net(bias)
    own_nets = [net(bias) for _ in steps.plans]
    if own:
        with torch.no_grad():
            for i, n in enumerate(own_nets):
                for p in n.parameters():
                    p.mul_(1 + i / 10)
    params = {k: torch.stack([dict(n.named_parameters())[k] for n in own_nets]).detach() for k in start.state_dict()}
    if not own:
        params = {k: v.detach() for k, v in start.named_parameters()}
    into = {k: torch.full((3, *v.shape), torch.nan, dtype=v.dtype) for k, v in start.state_dict().items()}
    mu, anchored, corrected = TERMS[terms]
    anchor = tree_like(start, 3 if anchored else 0)
    shift = None if corrected is None else tree_like(start, 3 if corrected else 0, seed=6)
    chain = Chain.of(start)
    assert chain is not None
    descend(chain, steps, params, into, opt, None if mu is None else (mu, anchor), shift)
    assert {"direct": Direct, "dual": Dual}[form] in made
    for client, module in enumerate(own_nets):

        def extra(name, p, client=client):
            pull = 0 if mu is None else (mu[client] if isinstance(mu, torch.Tensor) else mu)
            near = anchor[name][client] if anchored else anchor[name]
            more = 0 if shift is None else shift[name][client] if corrected else shift[name]
            return pull * (p - near) + more

        by_torch(module, steps, client, opt, extra)
        for name, expected in module.named_parameters():
            torch.testing.assert_close(into[name][client], expected.detach(), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("trained", ["0.weight", "2.weight", "4.bias"])
@pytest.mark.parametrize("opt", [PLAIN, MOMENTUM])
def test_what_is_not_trained_stays(trained, opt):
    frozen = {name for name, _ in net().named_parameters()} - {trained}
    steps = steps_of(sizes=[6], passes=[2], batch=3, inputs=6)
    module = net(frozen=frozen)
    chain, params = Chain.of(module), {k: v.detach().clone() for k, v in module.named_parameters()}
    assert chain is not None
    into = {trained: torch.empty(1, *params[trained].shape, dtype=torch.float64)}
    descend(chain, steps, params, into, opt)
    by_torch(module, steps, 0, opt)
    torch.testing.assert_close(into[trained][0], dict(module.named_parameters())[trained].detach())


@pytest.mark.parametrize(
    ("shape", "samples", "visits", "batch", "opt", "first", "lowest", "form"),
    [
        ((512, 784), 148, 150, 10, MOMENTUM, True, True, Dual),  # one pass over a client's few samples
        ((256, 512), 148, 150, 10, MOMENTUM, False, False, Direct),
        ((10, 64), 148, 150, 10, MOMENTUM, False, False, Direct),  # too small
        ((512, 784), 148, 750, 10, MOMENTUM, True, True, Dual),  # five passes
        ((256, 512), 148, 750, 10, MOMENTUM, False, False, Direct),
        ((512, 784), 5000, 5000, 10, MOMENTUM, True, True, Direct),  # more samples than inputs
        ((1000, 784), 500, 500, 50, PLAIN, True, True, Direct),  # large batches, and no velocity to move
    ],
)
def test_the_cheapest_form_is_taken(shape, samples, visits, batch, opt, first, lowest, form):
    steps, start = one_client(shape, samples, visits, batch)
    assert type(layer_for(start, steps, opt, None, None, first, lowest)) is form


def one_client(shape, samples, visits, batch):
    """The steps of a client, and a layer of this shape."""
    plan = [np.arange(batch)] * (visits // batch)
    rows = torch.zeros(len(plan), 1, batch, dtype=torch.int64)
    steps = Steps(
        torch.zeros(samples, shape[1]),
        rows,
        rows,
        rows,
        Classification(),
        [plan],
        np.zeros(1, int),
        np.array([samples]),
    )
    weight, bias = torch.zeros(shape), torch.zeros(shape[0])
    into = {"weight": weight[None].clone(), "bias": bias[None].clone()}
    return steps, Start(weight, bias, into)


@pytest.mark.parametrize(
    ("opt", "prox", "correction", "form"),
    [
        (MOMENTUM, True, False, Dual),
        (PLAIN, False, False, Direct),
        (PLAIN, False, True, Dual),  # the correction would be a second pass over the weights in every step
        (PLAIN, True, False, Dual),
        (SGD(lr=0.05, momentum=0.0, weight_decay=0.1), False, False, Direct),  # decay is part of the product
    ],
)
def test_what_is_added_to_the_gradient_counts_in_the_choice(opt, prox, correction, form):
    steps, start = one_client((512, 784), 148, 150, 10)
    pull, shift = (0.1, start.into) if prox else None, start.into if correction else None
    assert type(layer_for(start, steps, opt, pull, shift, first=True, lowest=True)) is form
