"""The forms of a linear layer on its way down give the same steps, and the cheapest is taken."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from manyheads import SGD
from manyheads.core.tasks import Classification
from manyheads.engines.chain import descend
from manyheads.engines.descent import Descent
from manyheads.engines.layers import Direct, Dual, Start, Steps, layer_for
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


def by_torch(module, steps, client, opt):
    """The same steps of one client by torch's own optimizer."""
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=opt.lr, momentum=opt.momentum)
    for time, own in enumerate(steps.plans[client]):
        rows = steps.rows_TCB[time, client, : len(own)]
        optimizer.zero_grad()
        out = module(steps.x[rows])
        torch.nn.functional.cross_entropy(out, steps.labels_TCB[time, client, : len(own)]).backward()
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


@pytest.mark.parametrize("opt", [PLAIN, MOMENTUM])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("form", ["direct", "dual"])
@pytest.mark.parametrize("own", [False, True])
def test_every_form_makes_the_steps_of_torch(monkeypatch, opt, bias, form, own):
    """Clients of several sizes and lengths, from one model or each from its own."""
    made: list[type] = []

    def forced(start, steps, opt, prox, correction, first, lowest):
        kinds = {
            "direct": lambda: Direct(start, Descent(opt, start.into)),
            "dual": lambda: Dual(start, opt, steps) if first else Direct(start, Descent(opt, start.into)),
        }
        made.append(type(layer := kinds[form]()))
        return layer

    monkeypatch.setattr("manyheads.engines.chain.layer_for", forced)
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
    chain = Chain.of(start)
    assert chain is not None
    descend(chain, steps, params, into, opt)
    assert {"direct": Direct, "dual": Dual}[form] in made
    for client, module in enumerate(own_nets):
        by_torch(module, steps, client, opt)
        for name, expected in module.named_parameters():
            torch.testing.assert_close(into[name][client], expected.detach(), rtol=1e-12, atol=1e-14)


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
    start = Start(weight, bias, into)
    assert type(layer_for(start, steps, opt, None, None, first, lowest)) is form
    decayed = SGD(lr=opt.lr, momentum=opt.momentum, weight_decay=0.1)
    for more in ((decayed, None, None), (opt, (0.1, into), None), (opt, None, into)):
        assert type(layer_for(start, steps, *more, first, lowest)) is Direct  # the step is not the gradient alone
