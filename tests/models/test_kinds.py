"""Every kind of module is trained as a plain loop trains it, or refused: in every engine, with workers, after a resume."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import reference
import torch
from kinds import KINDS, VECTORS, Kind, body_and_head
from torch.nn import functional

from manyheads import DSGD, SGD, Engine, FedAvg, Federation, FedRep, Model, PerFedAvg, Scaffold, UserError, simulate
from manyheads.core.contract import Algorithm
from manyheads.core.randomness import Purpose, torch_seeded
from manyheads.engines.workbench import tried_on
from manyheads.run.training import Training

OPT = SGD(lr=0.05, momentum=0.5, weight_decay=1e-3)
METHODS = [
    FedAvg(epochs=2, batch=5, sgd=OPT),
    FedRep(head_epochs=2, body_epochs=1, batch=5, sgd=OPT),
    DSGD(batch=5, lr=0.1),
]
RIGHT = [name for name, kind in KINDS.items() if not kind.refused]
REFUSED = [name for name, kind in KINDS.items() if kind.refused]


def model_of(kind: Kind) -> Model:
    with torch_seeded(0, Purpose.MODEL):
        return Model(kind.make(), kind.head, **kind.how)


def test_there_are_many_kinds():
    assert len(RIGHT) >= 60
    assert len(REFUSED) >= 25


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_run_rightly_is_refused_in_one_line_and_nothing_is_written(name, tmp_path):
    kind = KINDS[name]
    with pytest.raises(UserError, match=kind.refused) as refused:
        simulate(METHODS[0], model_of(kind), kind.data, rounds=1, out=tmp_path / "run")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("mode", ["auto", "loop", "stacked"])
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
@pytest.mark.parametrize("name", RIGHT)
def test_equals_the_plain_loop(name, method, mode):
    kind, model = KINDS[name], model_of(KINDS[name])
    untouched = kind.data.train.x.copy(), kind.data.test.x.copy()
    try:
        run = simulate(method, model, kind.data, rounds=2, engine=Engine(mode=mode))
    except UserError as refused:
        stacked = mode == "stacked" and "cannot be stacked" in str(refused)
        alone = method.name == "dsgd" and model.statistics and "gradients alone" in str(refused)
        assert stacked or alone, refused  # noqa: PT017 (a refusal is as right as a result)
        return
    assert np.array_equal(untouched[0], kind.data.train.x)
    assert np.array_equal(untouched[1], kind.data.test.x)
    if method.name == "dsgd" and tried_on(model, kind.data).random:
        return  # a pooled batch draws its noise at once
    plain = by_the_plain_loop(name, method)
    (shared,) = run.server.values()
    (wanted,) = plain.server.values()
    assert shared.keys() == wanted.keys()
    for leaf in shared:
        torch.testing.assert_close(shared[leaf], wanted[leaf], atol=2e-5, rtol=1e-4)
    for client, own in plain.clients.items():
        for leaf, value in own["head"].items():
            torch.testing.assert_close(run.client_model(client)[leaf], value, atol=2e-5, rtol=1e-4)
    if kind.data.task == "classification":
        assert run.history[-1]["evaluation"]["loss"] == pytest.approx(loss_of(plain, wanted), rel=1e-3)


@cache
def by_the_plain_loop(name: str, method: Algorithm) -> reference.Plain:
    kind, model = KINDS[name], model_of(KINDS[name])
    with torch_seeded(0, Purpose.MODEL):
        module = kind.make()
    head, buffers = list(model.params.head), sorted(model.statistics)
    return reference.run(method, module, head, kind.data, Training(rounds=2), buffers)


def loss_of(plain: reference.Plain, shared: dict) -> float:
    """The mean over clients of the loss on their test samples, one client after another."""
    found = []
    for client in range(len(plain.federation)):
        x, y = (torch.from_numpy(v.copy()) for v in plain.federation.test.client(client))
        net = plain.net(shared | plain.clients.get(client, {}).get("head", {})).eval()
        with torch.no_grad():
            found.append(float(functional.cross_entropy(net(plain.fitting(x)), y)))
    return float(np.mean(found))


@pytest.mark.usefixtures("divided")
@pytest.mark.parametrize("name", RIGHT)
def test_neither_workers_nor_a_resume_change_a_bit(name, tmp_path):
    kind, method = KINDS[name], METHODS[1]
    once = simulate(method, model_of(kind), kind.data, rounds=2, out=tmp_path / "once")
    two = simulate(method, model_of(kind), kind.data, rounds=2, engine=Engine(workers=2))
    assert two.checksum == once.checksum
    simulate(method, model_of(kind), kind.data, rounds=1, out=tmp_path / "twice")
    resumed = simulate(method, model_of(kind), kind.data, rounds=2, out=tmp_path / "twice", resume=True)
    assert resumed.checksum == once.checksum


@pytest.mark.parametrize("name", ["attention", "attention without weights", "transformer", "lstm"])
def test_attention_and_recurrence_can_be_differentiated_twice(name):
    kind, method = KINDS[name], PerFedAvg(variant="exact", alpha=0.1, beta=0.1, steps=2, batch=4)
    run = simulate(method, model_of(kind), kind.data, rounds=1)
    by_differences = simulate(
        PerFedAvg(variant="hf", alpha=0.1, beta=0.1, steps=2, batch=4, delta=1e-2), model_of(kind), kind.data, rounds=1
    )
    for leaf, value in run.server.model.items():
        torch.testing.assert_close(value, by_differences.server.model[leaf], atol=1e-4, rtol=1e-2)


def test_a_model_without_second_derivatives_is_refused_by_a_method_that_needs_them():
    net = body_and_head(lambda s, x: s.head(torch.cdist(s.body(x), torch.eye(8, dtype=x.dtype), p=3)))
    with pytest.raises(UserError, match=r"differentiated twice.*fo or hf"):
        simulate(PerFedAvg(variant="exact", steps=1, batch=4), net, VECTORS, rounds=1)


def test_the_number_of_steps_knows_which_batches_batch_norm_leaves_out():
    """11 samples, batches of 10: the last sample joins the batch before it, so that two passes are two steps."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(11, 6)).astype(np.float32), rng.integers(0, 3, 11)
    data = Federation.from_clients([(x, y)] * 2, test_fraction=0, outputs=3)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
    method = Scaffold(epochs=2, batch=10, lr=0.1, option="II")
    run = simulate(method, Model(net, norm="average"), data, rounds=1, seed=3)
    start, moved = Model(net, norm="average").params.all, run.server.model
    for leaf, control in run.server.control.items():
        if leaf not in run.model.statistics:  # c = (x - y) / (K lr), and the server moves by server_lr (y - x)
            torch.testing.assert_close(
                control, (start[leaf] - moved[leaf]) / (method.server_lr * 2 * method.lr), atol=1e-5, rtol=1e-3
            )


@pytest.mark.parametrize("name", ["parametrized", "residual"])
def test_a_model_that_cannot_travel_to_spawned_workers_is_refused_before_anything_is_written(name, tmp_path):
    engine = Engine(workers=2, start_method="spawn")
    with pytest.raises(UserError, match="cannot be sent to worker processes"):
        simulate(METHODS[0], model_of(KINDS[name]), VECTORS, rounds=1, engine=engine, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
