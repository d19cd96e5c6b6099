"""Every engine gives the numbers of the plain loop, for every method."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
import reference
import torch
from problems import ConvNet, images, normed_net, ragged, small_net

from manyheads import (
    ANIL,
    APFL,
    DSGD,
    IFCA,
    L2GD,
    MRMTL,
    SGD,
    Ditto,
    Engine,
    FedAvg,
    FedBABU,
    FedBN,
    FedMTL,
    FedPAC,
    FedPer,
    FedProx,
    FedRep,
    FedRepLinear,
    FedRoD,
    KNNPer,
    LGFedAvg,
    Local,
    LocalSGD,
    Model,
    PerFedAvg,
    PFedMe,
    Reptile,
    Scaffold,
    ServerOptimizer,
    Tree,
    simulate,
)
from manyheads.core.contract import ALGORITHMS
from manyheads.core.randomness import Purpose, torch_seeded
from manyheads.core.server import without_moments
from manyheads.data import LinearTasks
from manyheads.models import LinearRepresentation, ReluNet
from manyheads.run.training import Training

OPT = SGD(lr=0.05, momentum=0.5, weight_decay=1e-3)
METHODS = [
    FedAvg(epochs=2, batch=5, sgd=OPT),
    FedAvg(steps=3, batch=4, sgd=SGD(lr=0.1, momentum=0.0)),
    FedAvg(steps=2, batch=0, sgd=OPT),
    FedProx(epochs=2, batch=5, sgd=OPT, mu=0.7),
    DSGD(batch=5, lr=0.2),
    DSGD(batch=0, lr=0.2),
    LocalSGD(gradient="full", steps=3, lr=0.1),
    LocalSGD(gradient="single", steps=3, lr=0.01),
    FedRep(head_epochs=3, body_epochs=2, batch=5, sgd=OPT),
    FedRep(head_epochs=1, body_steps=2, batch=8, sgd=OPT),
    FedPer(epochs=2, batch=5, sgd=OPT),
    LGFedAvg(epochs=1, batch=5, sgd=OPT),
    Local(epochs=1, batch=5, sgd=OPT),
    Scaffold(epochs=2, batch=5, lr=0.05, server_lr=0.5, option="I"),
    Scaffold(epochs=2, batch=5, lr=0.05, server_lr=0.5, option="II"),
    PerFedAvg(variant="exact", alpha=0.1, beta=0.1, steps=3, batch=4, outer_batch=5, hessian_batch=6),
    PerFedAvg(variant="exact", alpha=0.1, beta=0.1, steps=2, batch=4, outer_batch=5, hessian_batch=6, inner_steps=3),
    PerFedAvg(variant="fo", alpha=0.1, beta=0.1, steps=3, batch=4, outer_batch=5, hessian_batch=6),
    PerFedAvg(variant="hf", alpha=0.1, beta=0.1, steps=3, batch=4, outer_batch=5, hessian_batch=6, delta=0.05),
    APFL(epochs=2, batch=5, lr=0.1, alpha=0.6),
    APFL(epochs=2, batch=5, lr=0.1, alpha=0.6, adaptive=True),
    Ditto(epochs=2, batch=5, sgd=OPT, lam=0.3),
    L2GD(eta=2.0, lam=0.5, p=0.5, batch=5),
    L2GD(eta=1.0, lam=0.5, p=0.5, batch=5, epochs=2, momentum=0.5),
    FedMTL(epochs=2, batch=5, sgd=OPT, lam=0.02),
    FedMTL(epochs=2, batch=5, sgd=OPT, lam=0.1, relations="mean"),
    FedBABU(epochs=2, batch=5, sgd=OPT),
    MRMTL(epochs=2, batch=5, sgd=OPT, lam=0.4),
    Reptile(epochs=2, batch=5, sgd=OPT, server=ServerOptimizer(kind="sgd", lr=0.3, momentum=0.0)),
    PFedMe(lam=2.0, steps=3, inner_steps=4, lr=0.1, eta=0.2, batch=5),
    ANIL(variant="exact", alpha=0.3, beta=0.1, steps=3, batch=4, outer_batch=5),
    ANIL(variant="exact", alpha=0.3, beta=0.1, steps=2, batch=4, outer_batch=5, inner_steps=3),
    ANIL(variant="fo", alpha=0.3, beta=0.1, steps=3, batch=4, outer_batch=5),
    FedRoD(epochs=2, batch=5, sgd=SGD(lr=0.05, momentum=0.5)),
    FedRoD(steps=3, batch=0, sgd=SGD(lr=0.2, momentum=0.0)),
    IFCA(clusters=3, epochs=2, batch=5, sgd=OPT),
    FedPAC(head_epochs=2, body_epochs=2, batch=5, sgd=OPT, lam=2.0),
    FedPAC(body_epochs=3, batch=0, sgd=SGD(lr=0.2, momentum=0.0), fewest=4),
    FedPAC(body_epochs=1, batch=5, sgd=OPT, heads="own", server=ServerOptimizer(kind="adam", lr=0.05, tau=0.01)),
    KNNPer(epochs=2, batch=5, sgd=OPT, neighbours=3),
    FedAvg(epochs=2, batch=5, sgd=OPT, server=ServerOptimizer(kind="sgd", lr=0.7, momentum=0.6)),
    FedRep(head_epochs=1, batch=5, sgd=OPT, server=ServerOptimizer(kind="adam", lr=0.05, tau=0.01)),
    FedProx(epochs=1, batch=5, sgd=OPT, server=ServerOptimizer(kind="yogi", lr=0.05, tau=0.01)),
    Ditto(epochs=1, batch=5, sgd=OPT, server=ServerOptimizer(kind="adagrad", lr=0.05, momentum=0.0)),
    Scaffold(epochs=1, batch=5, lr=0.05, server=ServerOptimizer(kind="adam", lr=0.05, tau=0.01)),
    DSGD(batch=5, lr=0.2, server=ServerOptimizer(kind="adam", lr=0.05, tau=0.01)),
]
LINEAR = [
    FedRepLinear(eta=0.3),
    FedRepLinear(eta=0.3, batch=8, head_steps=10, head_lr=0.2),
    FedRepLinear(eta=0.3, start="given", head_steps=1, head_lr=0.2),
]
NORMED = [FedBN(epochs=2, batch=5, sgd=OPT)]
ROUNDS = 4


def test_every_method_is_here():
    assert {a.name for a in (*METHODS, *LINEAR, *NORMED)} == ALGORITHMS.keys()


NET, FEDERATION = small_net(), ragged()


@cache
def by_the_plain_loop(algorithm, module, head, federation, training):
    return reference.run(algorithm, module, list(head), federation, training)


def agrees(algorithm, module, head, federation, mode, participation=0.6, atol=1e-5, class_weights="none"):
    training = Training(rounds=ROUNDS, participation=participation, seed=5, class_weights=class_weights)
    model = Model(module, head=head)
    plain = by_the_plain_loop(algorithm, module, tuple(model.params.head), federation, training)
    run = simulate(
        algorithm, model, federation, rounds=ROUNDS, participation=participation, seed=5, engine=Engine(mode=mode),
        class_weights=class_weights,
    )  # fmt: skip
    compared = 0
    for name, value in without_moments(run.server).items():
        if algorithm.name == "l2gd":
            continue  # holds the last mean that was needed, not the last mean
        wanted = plain.server[name]
        if isinstance(wanted, list):
            wanted = {k: torch.stack([w[k] for w in wanted]) for k in wanted[0]}
        for got, want in _pairs(value, wanted):
            torch.testing.assert_close(got, want.to(got), atol=atol, rtol=1e-5)
            compared += 1
    for client, own in plain.clients.items():
        state = run._store.read([client])
        for name, wanted in own.items():
            for got, want in _pairs(state[name], wanted):
                torch.testing.assert_close(got[0], torch.as_tensor(want).to(got[0]), atol=atol, rtol=1e-5)
                compared += 1
    assert compared


def _pairs(value, wanted):
    if isinstance(value, Tree):
        assert value.keys() == wanted.keys()
        return [(value[k], wanted[k]) for k in value]
    return [(value, wanted)]


@pytest.mark.parametrize("mode", ["loop", "stacked", "auto"])
@pytest.mark.parametrize("algorithm", METHODS, ids=str)
def test_equals_the_plain_loop(algorithm, mode):
    agrees(algorithm, NET, "4", FEDERATION, mode)


@pytest.mark.parametrize("mode", ["loop", "stacked", "auto"])
@pytest.mark.parametrize("algorithm", NORMED, ids=str)
def test_equals_the_plain_loop_on_a_model_with_norm_layers(algorithm, mode):
    agrees(algorithm, normed_net(), "3", FEDERATION, mode)


@pytest.mark.parametrize("mode", ["loop", "stacked"])
@pytest.mark.parametrize(
    "algorithm",
    [
        FedAvg(epochs=2, batch=5, sgd=OPT),
        DSGD(batch=5),
        FedRep(head_epochs=2, batch=5),
        Scaffold(batch=5),
        APFL(batch=5),
        FedPAC(body_epochs=2, batch=5, lam=2.0),
    ],
    ids=str,
)
def test_equals_the_plain_loop_on_a_conv_net(algorithm, mode):
    with torch_seeded(1, Purpose.MODEL):
        module = ConvNet()
    agrees(algorithm, module, "out", images(), mode)


@pytest.mark.parametrize("mode", ["loop", "stacked", "auto"])
@pytest.mark.parametrize("algorithm", METHODS, ids=str)
def test_class_weights_of_every_method(algorithm, mode):
    agrees(algorithm, NET, "4", FEDERATION, mode, class_weights="client")


@pytest.mark.parametrize("mode", ["loop", "stacked"])
@pytest.mark.parametrize("algorithm", [FedAvg(epochs=2, batch=5, sgd=OPT), DSGD(batch=5), PerFedAvg(steps=2)], ids=str)
def test_class_weights_of_a_conv_net(algorithm, mode):
    with torch_seeded(1, Purpose.MODEL):
        module = ConvNet()
    agrees(algorithm, module, "out", images(), mode, class_weights="balanced")


# fewer samples than inputs: the first layer of a plain chain is dual
WIDE = ragged(sizes=(1, 9, 4, 7, 12), dim=40)
MOMENTUM, PLAIN = SGD(lr=0.05, momentum=0.6), SGD(lr=0.05, momentum=0.0)


def chain(*activations, bias=True):
    widths = [40, *[7] * len(activations), 3]
    with torch_seeded(0, Purpose.MODEL):
        linear = [torch.nn.Linear(i, o, bias=bias) for i, o in pairwise(widths)]
    layers = [layer for pair in zip(linear, activations, strict=False) for layer in pair]
    return torch.nn.Sequential(*layers, linear[-1]), str(2 * len(activations))


@pytest.mark.parametrize("mode", ["loop", "stacked"])
@pytest.mark.parametrize(
    "algorithm",
    [
        FedAvg(epochs=3, batch=4, sgd=MOMENTUM),
        FedAvg(epochs=3, batch=4, sgd=PLAIN),
        FedAvg(epochs=3, batch=4, sgd=SGD(lr=0.05, weight_decay=1e-2)),
        FedRep(head_epochs=3, body_epochs=3, batch=4, sgd=MOMENTUM),
        FedPer(epochs=2, batch=4, sgd=MOMENTUM),
        LGFedAvg(epochs=2, batch=4, sgd=MOMENTUM),
        FedProx(epochs=2, batch=4, sgd=MOMENTUM, mu=0.5),
        Ditto(epochs=2, batch=4, sgd=MOMENTUM),
        Scaffold(epochs=2, batch=4),
        FedPAC(body_epochs=3, batch=4, sgd=MOMENTUM, lam=5.0),
        FedPAC(body_epochs=3, batch=4, sgd=PLAIN, lam=5.0),
    ],
    ids=str,
)
def test_more_inputs_than_samples(algorithm, mode):
    module, head = chain(torch.nn.ReLU(), torch.nn.Tanh())
    agrees(algorithm, module, head, WIDE, mode)


@pytest.mark.parametrize("activation", [torch.nn.ReLU, torch.nn.Tanh, torch.nn.Sigmoid, torch.nn.ELU, torch.nn.GELU])
@pytest.mark.parametrize("bias", [True, False])
def test_every_activation_of_a_chain(activation, bias):
    module, head = chain(activation(), activation(), bias=bias)
    agrees(FedRep(head_epochs=2, body_epochs=3, batch=4, sgd=MOMENTUM), module, head, WIDE, "auto")


@pytest.mark.parametrize("mode", ["loop", "stacked"])
@pytest.mark.parametrize(
    "algorithm",
    [
        Ditto(epochs=3, batch=4, sgd=MOMENTUM, lam=0.3),
        Ditto(epochs=3, batch=4, sgd=SGD(lr=0.05, momentum=0.0, weight_decay=1e-2), lam=0.3),
        Scaffold(epochs=3, batch=4, lr=0.05),
        FedMTL(epochs=3, batch=4, sgd=MOMENTUM, lam=0.05),
        APFL(epochs=2, batch=3, lr=0.1, alpha=0.6),
        APFL(epochs=2, batch=3, lr=0.1, alpha=0.6, adaptive=True),
        PerFedAvg(variant="exact", alpha=0.1, beta=0.1, steps=3, batch=3, outer_batch=3, hessian_batch=3),
        PerFedAvg(
            variant="exact", alpha=0.1, beta=0.1, steps=2, batch=3, outer_batch=2, hessian_batch=4, inner_steps=2
        ),
        PerFedAvg(variant="hf", alpha=0.1, beta=0.1, steps=3, batch=3, outer_batch=3, hessian_batch=3, delta=0.05),
        ANIL(variant="exact", alpha=0.3, beta=0.1, steps=3, batch=3, outer_batch=2),
        PFedMe(lam=2.0, steps=3, inner_steps=4, lr=0.1, eta=0.2, batch=3),
    ],
    ids=str,
)
def test_wide_layers_and_small_batches(algorithm, mode):
    """Gradients stay products of narrow matrices; pulls and corrections reach the dual form."""
    with torch_seeded(0, Purpose.MODEL):
        layers = torch.nn.Linear(40, 12), torch.nn.Tanh(), torch.nn.Linear(12, 3)
    agrees(algorithm, torch.nn.Sequential(*layers).double(), "2", WIDE, mode, atol=1e-8)


@pytest.mark.parametrize("class_weights", ["none", "client", "balanced"])
def test_softmax_regression(class_weights):
    module = torch.nn.Linear(40, 3)
    agrees(FedAvg(epochs=4, batch=4, sgd=PLAIN), module, None, WIDE, "auto", class_weights=class_weights)


class Hidden(torch.nn.Module):
    """A chain that cannot be seen to be one, so that autograd computes its gradients."""

    def __init__(self, chain):
        super().__init__()
        self.chain = chain

    def forward(self, x):
        return 1 * self.chain(x)


def test_a_fixed_top_layer():
    with torch_seeded(0, Purpose.MODEL):
        module, _ = ReluNet(width=9, depth=2).build((40,), 3)
    models = (Model(module, head=()), Model(Hidden(module), head=()))
    by_hand, by_autograd = (simulate(FedAvg(epochs=4, batch=4, sgd=MOMENTUM), m, WIDE, rounds=2) for m in models)
    assert len(by_hand.server.model) == 2
    for got, want in zip(by_hand.server.model.values(), by_autograd.server.model.values(), strict=True):
        torch.testing.assert_close(got, want, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("mode", ["loop", "stacked"])
@pytest.mark.parametrize("algorithm", LINEAR, ids=str)
def test_linear_fedrep_equals_the_plain_loop(algorithm, mode):
    tasks = LinearTasks(clients=12, dim=6, rank=2, samples=25, noise=0.1, dtype="float64")
    module, head = LinearRepresentation(rank=2).build((6,), 1)
    with torch_seeded(1, Purpose.MODEL):
        torch.nn.init.normal_(module[0].weight, std=0.3)
    agrees(algorithm, module.double(), head, tasks.federation(seed=3), mode, atol=1e-9)


@pytest.mark.usefixtures("divided")
@pytest.mark.parametrize("algorithm", METHODS, ids=str)
def test_workers_change_no_bit(algorithm):
    federation = ragged(sizes=(3, 20, 11, 8, 30, 5, 14, 9, 26, 17, 2, 12))
    sums = {
        simulate(algorithm, small_net(), federation, rounds=2, engine=engine).checksum
        for engine in (Engine(workers=1), Engine(workers=2), Engine(workers=3))
    }
    assert len(sums) == 1


@pytest.mark.usefixtures("divided")
def test_spawned_workers_change_no_bit():
    engines = (Engine(workers=1), Engine(workers=2, start_method="spawn"))
    runs = [simulate(FedRep(head_epochs=2), "mlp", ragged(), rounds=2, engine=e) for e in engines]
    assert runs[0].checksum == runs[1].checksum
    assert runs[0].accuracy == runs[1].accuracy


@pytest.mark.usefixtures("divided")
def test_dropout_is_addressed_too():
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
    for algorithm in (FedAvg(), PerFedAvg(batch=5, steps=2), APFL()):
        first, again, two = (
            simulate(algorithm, module, ragged(), rounds=2, engine=Engine(workers=w)).checksum for w in (1, 1, 2)
        )
        assert first == again == two
        assert simulate(algorithm, module, ragged(), rounds=2, seed=1).checksum != first


def test_global_random_state_is_left_alone():
    import numpy as np

    torch.manual_seed(3)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    simulate(FedRep(head_epochs=1), "mlp", ragged(), rounds=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert (np.random.get_state()[1] == numpy_before).all()  # noqa: NPY002


@pytest.mark.parametrize(
    "algorithm", [DSGD(batch=5), Scaffold(option="I"), PerFedAvg(batch=5, steps=2), FedRep(head_epochs=1)], ids=str
)
def test_dropout_of_single_gradients_is_addressed_and_leaves_the_global_generator(algorithm):
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
    torch.manual_seed(7)
    before = torch.get_rng_state()
    sums = {simulate(algorithm, module, ragged(), rounds=2).checksum for _ in range(2)}
    assert len(sums) == 1
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.usefixtures("divided")
def test_linear_fedrep_is_the_same_every_time():
    federation = LinearTasks(clients=40, dim=10, rank=3, samples=20).federation(seed=0)
    runs = {
        simulate(FedRepLinear(), "linear", federation, rounds=20, engine=Engine(workers=w)).checksum
        for w in (1, 1, 1, 2)
    }
    assert len(runs) == 1
