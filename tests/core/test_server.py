"""Server optimizers: their formulas against torch's own, their limits, and the settings that reach them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from problems import net_for, ragged, small_net
from torch import nn

import manyheads as mh
from manyheads import SGD, Engine, Evaluate, Federation, Model, ServerOptimizer, simulate
from manyheads.core.contract import ALGORITHMS
from manyheads.core.server import MOMENTS, without_moments
from manyheads.data import Samples

AVERAGING = sorted(name for name, cls in ALGORITHMS.items() if cls.averaged)
ADAM = ServerOptimizer(kind="adam", lr=0.05, tau=0.01)


def steps(optimizer: ServerOptimizer, changes: list[torch.Tensor]) -> list[torch.Tensor]:
    """The parameters after each of these mean changes, from zero."""
    w, found = mh.Tree({"w": torch.zeros_like(changes[0])}), []
    moments = optimizer.init(w)
    for change in changes:
        step, moments = optimizer.step(mh.Tree({"w": change}), moments)
        w = w + step
        found.append(w["w"])
    return found


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (
            ServerOptimizer(kind="sgd", lr=0.3, momentum=0.9),
            lambda p: torch.optim.SGD([p], lr=0.3, momentum=0.9),
        ),
        (
            ServerOptimizer(kind="adagrad", lr=0.3, momentum=0.0, tau=0.05),
            lambda p: torch.optim.Adagrad([p], lr=0.3, initial_accumulator_value=0.05**2, eps=0.05),
        ),
    ],
)
def test_equals_the_optimizer_of_torch_on_the_pseudo_gradient(ours, theirs):
    torch.manual_seed(0)
    changes = [torch.randn(5, dtype=torch.float64) for _ in range(6)]
    parameter = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    optimizer = theirs(parameter)
    for found, change in zip(steps(ours, changes), changes, strict=True):
        parameter.grad = -change
        optimizer.step()
        torch.testing.assert_close(found, parameter.detach(), atol=1e-12, rtol=1e-12)


def test_adam_without_decay_of_its_start_is_torchs_adam_without_bias_correction():
    """After many rounds the corrections 1 - beta^t are one, and the start tau^2 is forgotten."""
    torch.manual_seed(0)
    ours = ServerOptimizer(kind="adam", lr=0.1, momentum=0.5, beta2=0.6, tau=1e-3)
    changes = [torch.randn(4, dtype=torch.float64) for _ in range(200)]
    parameter = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([parameter], lr=0.1, betas=(0.5, 0.6), eps=1e-3)
    found, before = steps(ours, changes), []
    for change in changes:
        parameter.grad = -change
        optimizer.step()
        before.append(parameter.detach().clone())
    mine, theirs = (torch.stack(path[150:]).diff(dim=0) for path in (found, before))
    torch.testing.assert_close(mine, theirs, atol=1e-12, rtol=1e-9)


def test_yogi_lowers_its_second_moment_only_by_the_square_of_the_change():
    """Where v is far above D^2, adam forgets at the rate beta2, yogi by (1 - beta2) D^2: the paper's reason for it."""
    start = mh.State(second_moment=mh.Tree({"w": torch.tensor([4.0])}))
    change = mh.Tree({"w": torch.tensor([0.1])})
    kept = {
        kind: ServerOptimizer(kind=kind, momentum=0.0, beta2=0.9).step(change, start)[1].second_moment["w"].item()
        for kind in ("adam", "yogi", "adagrad")
    }
    assert kept == pytest.approx({"adam": 0.9 * 4 + 0.1 * 0.01, "yogi": 4 - 0.1 * 0.01, "adagrad": 4.01})


# -- reductions --------------------------------------------------------------------------------------------------------

PLAIN = {"epochs": 2, "batch": 5, "sgd": SGD(lr=0.05)}


def models_of(*servers, rounds=3, algorithm=mh.FedAvg, **more):
    made = [algorithm(**PLAIN, server=server) for server in servers]
    return [simulate(a, small_net(), ragged(), rounds=rounds, participation=0.5, **more).server.model for a in made]


def close(first, second, **tolerance):
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], **tolerance)


def test_a_server_step_of_one_without_momentum_is_the_mean():
    close(*models_of(ServerOptimizer(kind="sgd", lr=1.0, momentum=0.0), None), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", ["adam", "yogi", "adagrad"])
def test_an_adaptive_optimizer_with_beta_zero_and_a_large_tau_is_fedavg_with_a_server_step(kind):
    """lr m / (sqrt(v) + tau) -> lr / tau D, if v does not keep its start, tau^2 (adagrad and yogi do: lr / (2 tau))."""
    tau = 1e4
    half = 1 if kind == "adam" else 2
    adaptive = ServerOptimizer(kind=kind, lr=half * 0.6 * tau, momentum=0.0, beta2=0.0, tau=tau)
    close(*models_of(adaptive, ServerOptimizer(kind="sgd", lr=0.6, momentum=0.0)), atol=1e-5, rtol=1e-4)


def test_scaffolds_server_step_is_this_setting():
    runs = [
        simulate(mh.Scaffold(batch=5, **step), small_net(), ragged(), rounds=3)
        for step in ({"server_lr": 0.4}, {"server": ServerOptimizer(kind="sgd", lr=0.4, momentum=0.0)})
    ]
    assert runs[0].checksum == runs[1].checksum
    assert not set(MOMENTS) & set(runs[0].server)  # a plain step keeps no moments: folders of earlier versions load


# -- every method that averages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", AVERAGING)
def test_every_averaging_method_takes_one_and_resumes_with_it(name, tmp_path):
    algorithm = ALGORITHMS[name](server=ADAM)
    arguments = (algorithm, net_for(name), ragged())
    whole = simulate(*arguments, rounds=4, participation=0.5)
    assert set(MOMENTS) <= set(whole.server)
    assert {leaf.partition("/")[0] for leaf in whole.server.first_moment} == set(algorithm.averaged)
    simulate(*arguments, rounds=2, participation=0.5, out=tmp_path / "run")
    again = simulate(
        *arguments, rounds=4, participation=0.5, out=tmp_path / "run", resume=True, engine=Engine(workers=2)
    )
    assert again.checksum == whole.checksum == mh.load(tmp_path / "run", net_for(name)).checksum
    again.save(tmp_path / "copy")
    assert mh.load(tmp_path / "copy", net_for(name)).checksum == whole.checksum


@pytest.mark.parametrize("name", AVERAGING)
def test_moments_never_travel(name):
    federation, net = ragged(), net_for(name)
    plain, adaptive = (simulate(ALGORITHMS[name](server=s), net, federation, rounds=1) for s in (None, ADAM))
    for entry in ("bytes_up", "bytes_down"):
        assert plain.history[0][entry] == adaptive.history[0][entry]
    seen = adaptive.algorithm.for_models(adaptive.server)
    assert not set(MOMENTS) & set(seen)


def test_only_the_body_of_fedrep_is_stepped_and_heads_stay():
    plain, adaptive = (
        simulate(mh.FedRep(head_epochs=2, server=server), small_net(), ragged(), rounds=1) for server in (None, ADAM)
    )
    for client in (1, 3):  # the first round's heads are trained before the server steps
        close(plain._store.read([client]).head, adaptive._store.read([client]).head)
    before = Model(small_net()).params.body
    change = plain.server.body - before
    wanted = before + ADAM.step(change, ADAM.init(before))[0]
    close(without_moments(adaptive.server).body, wanted, atol=1e-7, rtol=1e-5)


def test_running_statistics_take_the_mean_whatever_the_optimizer():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    model = Model(net, norm="average")
    sizes = ragged(sizes=(20, 9, 15))
    plain, adam, far = (
        simulate(mh.FedAvg(server=server), model, sizes, rounds=1).server.model
        for server in (None, ADAM, ServerOptimizer(kind="sgd", lr=5.0, momentum=0.0))
    )
    for name in ("1.running_mean", "1.running_var"):
        torch.testing.assert_close(adam[name], plain[name])
        torch.testing.assert_close(far[name], plain[name])
    assert not torch.allclose(adam["0.weight"], plain["0.weight"])
    assert (far["1.running_var"] > 0).all()


# -- a problem made for it ---------------------------------------------------------------------------------------------


def scaled(seed: int = 0) -> Federation:
    """Least squares whose inputs have scales from 1 to 1/1000: so have the gradients, squared. The answer is ones / scale."""
    rng = np.random.default_rng(seed)
    scale = np.logspace(0, -1.5, 4)
    clients = []
    for _ in range(6):
        x = rng.normal(size=(40, 4)) * scale
        clients.append((x, x @ (1 / scale)))
    samples = Samples.of(clients)
    return Federation("scaled", samples, samples, "regression", 1)


def test_adaptive_servers_help_where_gradients_have_very_different_scales():
    """FedAvg and FedAvgM with the best of five server steps do not get along the flat directions; adam and yogi do.

    Adagrad, whose steps only shrink, passes the plain server step.
    """
    net = nn.Linear(4, 1, bias=False).double()
    nn.init.zeros_(net.weight)
    federation, rounds = scaled(), 150

    def best(kind: str, **more) -> float:
        found = []
        for lr in (0.03, 0.1, 0.3, 1.0, 2.0):
            method = mh.FedAvg(
                steps=2, batch=0, sgd=SGD(lr=0.3, momentum=0.0), server=ServerOptimizer(kind=kind, lr=lr, **more)
            )
            try:
                found.append(
                    simulate(method, Model(net), federation, rounds=rounds, evaluate=Evaluate(every=rounds)).loss
                )
            except mh.UserError:  # diverged
                continue
        return min(found)

    plain, heavy = best("sgd", momentum=0.0), best("sgd", momentum=0.9)
    adaptive = {kind: best(kind, tau=1e-3) for kind in ("adam", "yogi", "adagrad")}
    assert max(adaptive["adam"], adaptive["yogi"]) < 0.01 * min(plain, heavy)
    assert adaptive["adagrad"] < 0.1 * plain


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - set(AVERAGING)))
def test_a_method_that_does_not_average_refuses_it_in_one_line(name):
    from manyheads.core.settings import build

    with pytest.raises(mh.UserError, match="unknown setting; given 'server'") as caught:
        build(ALGORITHMS[name], {"server": {"kind": "adam"}}, where="algorithm")
    assert "\n" not in str(caught.value)


def test_a_class_that_declares_half_of_it_is_refused():
    with pytest.raises(mh.UserError, match="has only one of averaged"):

        @mh.register
        @mh.settings
        class Half(mh.Algorithm):
            """Half."""

            name = "half"
            paper, travels, stays, models = "none", "all", "nothing", ("local",)
            averaged = ("model",)

            def init_server(self, params, population):
                return mh.State(model=params.all)

            def local(self, cohort, server, client):
                return mh.Update(mh.State(model=cohort.each(server.model)))


def test_a_method_of_ones_own_takes_it_by_two_lines():
    @mh.settings
    class Mine(mh.Algorithm):
        """FedAvg."""

        name = "mine-stepped"
        paper, travels, stays, models = "none", "all", "nothing", ("global",)
        averaged = ("model",)
        server: mh.Server = None

        def init_server(self, params, population):
            return mh.State(model=params.all)

        def local(self, cohort, server, client):
            return mh.Update(mh.State(model=cohort.sgd(server.model, opt=SGD(lr=0.05), batch=5, epochs=2)))

        def global_model(self, server):
            return server.model

    mine, ours = (
        simulate(a, small_net(), ragged(), rounds=3) for a in (Mine(server=ADAM), mh.FedAvg(**PLAIN, server=ADAM))
    )
    assert mine.checksum == ours.checksum


def test_methods_with_and_without_it_stand_side_by_side_in_a_comparison():
    from manyheads.experiments.methods import methods_of

    labels = list(methods_of(["fedavg", mh.FedAvg(server=ServerOptimizer(kind="adam")), mh.FedAvg(server=ADAM)]))
    assert labels[1:] == [
        "fedavg",
        "fedavg(server.kind=adam)",
        "fedavg(server.kind=adam, server.lr=0.05, server.tau=0.01)",
    ]
    made = methods_of(["fedrep"], options={"fedrep": {"server": {"kind": "yogi"}}})["fedrep"].algorithm
    assert made.server == ServerOptimizer(kind="yogi")
