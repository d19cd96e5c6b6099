"""What the papers say of the later methods, what they reduce to, and problems that are made for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from cohorts import assert_gradient, losses_at, smooth_cohort
from problems import grouped, normed_first, ragged, shifted, small_net
from quadratic import Quadratic, model, problem

import manyheads as mh
from manyheads import SGD, Evaluate, Federation, FineTune, Model, ServerOptimizer, simulate
from manyheads.core.contract import Round
from manyheads.data import Samples
from manyheads.models import MLP

WORK = {"epochs": 2, "batch": 5, "sgd": SGD(lr=0.05)}


def same(first, second, **tolerance):
    assert first.keys() == second.keys()
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], **(tolerance or {"atol": 0, "rtol": 0}))


# -- FedBABU -----------------------------------------------------------------------------------------------------------


def test_fedbabu_then_fine_tuning_is_fedavg_with_a_frozen_head_then_fine_tuning():
    frozen = small_net()
    frozen[4].requires_grad_(False)
    federation = ragged()
    babu = simulate(mh.FedBABU(**WORK, tune_epochs=3), small_net(), federation, rounds=3)
    plain = simulate(mh.FedAvg(**WORK), Model(frozen, head=()), federation, rounds=3)
    same(babu.server.body, plain.server.model)
    start = small_net()
    start.load_state_dict(frozen.state_dict() | dict(plain.server.model))
    tune = FineTune(scope="all", epochs=3, batch=5, lr=0.05)
    nothing = mh.FedAvg(steps=1, batch=5, sgd=SGD(lr=1e-30, momentum=0.0))
    tuned = simulate(nothing, start, federation, rounds=3, finetune=tune)  # the same round, so the same draws
    assert babu.accuracy == tuned.final[0]["accuracy"]
    assert babu.loss == pytest.approx(tuned.final[0]["loss"], rel=1e-5)


def test_the_head_of_fedbabu_is_the_initial_one_everywhere():
    run = simulate(mh.FedBABU(**WORK), small_net(), ragged(), rounds=2)
    initial = run.model.params.head
    for client in range(len(ragged())):
        same(run._store.read([client]).head.map(lambda v: v[0]), initial)
    assert "after fine-tuning the whole model for 5 epochs" in run.protocol


# -- MR-MTL ------------------------------------------------------------------------------------------------------------


def test_mr_mtl_with_lambda_zero_is_local_training():
    pulled, alone = (
        simulate(a, small_net(), ragged(), rounds=3) for a in (mh.MRMTL(**WORK, lam=0.0), mh.Local(**WORK))
    )
    for client in range(len(ragged())):
        same(pulled.client_model(client), alone.client_model(client), atol=1e-7, rtol=1e-6)


def test_mr_mtl_draws_the_models_together_as_lambda_grows():
    federation = problem()
    spread = []
    for lam in (0.0, 0.3, 3.0):
        method = mh.MRMTL(batch=0, steps=5, sgd=SGD(lr=0.1, momentum=0.0), lam=lam)
        run = simulate(method, model(), federation, rounds=600, evaluate=Evaluate(every=600))
        models = np.array([run.client_model(i)["weight"].numpy()[0] for i in range(len(federation))])
        spread.append(np.linalg.norm(models - models.mean(axis=0)))
        np.testing.assert_allclose(
            models, Quadratic(federation).l2gd(lam) if lam else Quadratic(federation).own, atol=1e-6
        )
    assert spread[0] > 1.2 * spread[1] > 1.2 * spread[2]


# -- Reptile -----------------------------------------------------------------------------------------------------------


def test_reptile_with_a_whole_step_and_none_at_test_time_is_fedavg():
    whole = ServerOptimizer(kind="sgd", lr=1.0, momentum=0.0)
    reptile = simulate(mh.Reptile(**WORK, server=whole, test_steps=0), small_net(), ragged(), rounds=3)
    plain = simulate(mh.FedAvg(**WORK), small_net(), ragged(), rounds=3, weighting="equal")
    same(reptile.server.model, plain.server.model, atol=1e-6, rtol=1e-5)
    assert reptile.accuracy == plain.accuracy


def test_reptile_moves_by_epsilon_of_the_way_that_fedavg_goes():
    start = Model(small_net()).params.all
    reptile = simulate(mh.Reptile(**WORK), small_net(), ragged(), rounds=1).server.model
    plain = simulate(mh.FedAvg(**WORK), small_net(), ragged(), rounds=1, weighting="equal").server.model
    same(reptile, start + 0.5 * (plain - start), atol=1e-6, rtol=1e-5)


# -- pFedMe ------------------------------------------------------------------------------------------------------------


def test_pfedme_with_many_inner_steps_solves_the_proximal_problem():
    """theta = prox_i(w), and the round is a gradient step on the Moreau envelope, lam (w - theta)."""
    federation = problem()
    q, lam, eta = Quadratic(federation), 0.8, 0.5
    method = mh.PFedMe(lam=lam, steps=1, inner_steps=400, lr=0.3, eta=eta, batch=0)
    run = simulate(method, model(), federation, rounds=1)
    start = np.array([0.5, -1.0, 2.0])
    theta = np.array([run.client_model(i)["weight"].numpy()[0] for i in range(len(federation))])
    np.testing.assert_allclose(theta, q.near(lam, start), atol=1e-9)
    np.testing.assert_allclose(
        run.server.model["weight"].numpy()[0], start - eta * lam * (start - theta.mean(axis=0)), atol=1e-9
    )


def test_the_papers_beta_is_a_step_of_the_server():
    start, beta = Model(small_net()).params.all, 0.3
    method = mh.PFedMe(steps=3, lr=0.05, eta=0.05)
    whole = simulate(method, small_net(), ragged(), rounds=1).server.model
    part = replace(method, server=ServerOptimizer(kind="sgd", lr=beta, momentum=0.0))
    found = simulate(part, small_net(), ragged(), rounds=1).server.model
    same(found, start + beta * (whole - start), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("lam", [0.1, 15.0, 200.0])
def test_step_sizes_that_tuning_tries_are_stable_under_the_pull(lam):
    method = mh.PFedMe(lam=lam)
    for rate in (0.01, 0.3, 10.0):
        sizes = method.step_sizes(rate, 5)
        assert sizes["lr"] * lam < 1
        assert sizes["eta"] * lam < 1


# -- ANIL --------------------------------------------------------------------------------------------------------------


def test_anil_with_an_empty_head_is_the_outer_loop_of_maml():
    shared = Model(small_net(), head=())
    anil = mh.ANIL(alpha=0.3, beta=0.1, steps=3, batch=4, outer_batch=5)
    outer = mh.PerFedAvg(alpha=0.0, beta=0.1, steps=3, batch=4, outer_batch=5)
    first, second = (simulate(a, shared, ragged(), rounds=3) for a in (anil, outer))
    same(first.server.body, second.server.model)


def test_anil_of_a_model_that_is_all_head_is_per_fedavg_on_full_batches():
    net = torch.nn.Linear(6, 3)
    how = {"alpha": 0.3, "beta": 0.1, "steps": 2, "batch": 0, "outer_batch": 0, "inner_steps": 2}
    anil, maml = mh.ANIL(**how), mh.PerFedAvg(**how, hessian_batch=0)
    first, second = (simulate(a, Model(net), ragged(), rounds=2) for a in (anil, maml))
    same(first.server.head, second.server.model, atol=1e-6, rtol=1e-5)
    assert first.loss == pytest.approx(second.loss, rel=1e-5)


@pytest.mark.parametrize("inner_steps", [1, 2])
def test_the_direction_of_anil_is_the_numerical_gradient_of_the_loss_after_the_heads_steps(inner_steps):
    cohort, w = smooth_cohort()
    head, full = w.select({"2.weight", "2.bias"}), cohort.draw(0)
    method = mh.ANIL(alpha=0.3, inner_steps=inner_steps)

    def after(point):
        for _ in range(inner_steps):
            slope = cohort.gradient(point, on=full).select(head)
            point = point | (point.select(head) - 0.3 * slope)
        return losses_at(cohort, point)

    assert_gradient(method.direction(cohort, w, head, full, full), after, w)


# -- FedBN -------------------------------------------------------------------------------------------------------------


def test_fedbn_helps_on_planted_feature_shift():
    """20 samples a client, each client with its own units: one norm for all fails, training alone lacks samples."""
    federation, losses = shifted(dim=8, train=20, noise=1.0), {}
    for method in (mh.FedBN, mh.FedAvg, mh.Local):
        work = method(batch=0, steps=5, sgd=SGD(lr=0.1, momentum=0.0))
        run = simulate(work, normed_first(8), federation, rounds=40, weighting="equal", evaluate=Evaluate(every=40))
        losses[method.name] = run.loss  # the noise alone has 1
    assert losses["fedbn"] < 0.85 * losses["local"] < losses["fedavg"]


def test_fedbn_is_fedper_with_the_norm_layers_as_its_head():
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    federation = ragged(sizes=(20, 9, 15))
    own = simulate(mh.FedBN(**WORK), Model(net, norm="average"), federation, rounds=3)
    per = simulate(mh.FedPer(**WORK), Model(net, head=(), norm="local"), federation, rounds=3, weighting="equal")
    same(own.server.shared, per.server.body)
    same(own.client_model(1), per.client_model(1))


def test_fedbn_refuses_a_model_without_norm_layers():
    with pytest.raises(mh.UserError, match="this model has none"):
        simulate(mh.FedBN(), small_net(), ragged(), rounds=1)


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_an_mlp_may_have_norm_layers(norm):
    run = simulate(mh.FedBN(**WORK), MLP(hidden=(8,), norm=norm), ragged(sizes=(20, 9, 15)), rounds=2)
    assert {name.partition(".")[0] for name in run.model.params.norms} == {"1"}
    assert len(run.model.params.norms) == (4 if norm == "batch" else 2)


# -- IFCA --------------------------------------------------------------------------------------------------------------


def test_ifca_with_one_cluster_is_fedavg():
    clustered = simulate(mh.IFCA(clusters=1, **WORK), small_net(), ragged(), rounds=3, participation=0.5)
    plain = simulate(mh.FedAvg(**WORK), small_net(), ragged(), rounds=3, participation=0.5, weighting="equal")
    same(clustered.server.models.map(lambda v: v[0]), plain.server.model, atol=1e-6, rtol=1e-5)


def test_ifca_finds_planted_clusters_and_so_do_clients_that_took_no_part():
    """Odd clients have the opposite answer; a third of all is kept out of training."""
    federation = grouped(clients=12)
    kept_out = federation.with_new_clients(4, seed=0)
    work = {"batch": 0, "steps": 5, "sgd": SGD(lr=0.2, momentum=0.0)}
    run = simulate(mh.IFCA(clusters=2, **work), model(), kept_out, rounds=60, cohort=4, evaluate=Evaluate(every=60))
    assert run.loss < 1e-6
    assert run.final[0]["who"] == "new"
    assert run.final[0]["loss"] < 1e-6
    one = simulate(mh.FedAvg(**work), model(), kept_out, rounds=60, evaluate=Evaluate(every=60))
    assert one.loss > 1
    whole = simulate(mh.IFCA(clusters=2, **work), model(), federation, rounds=60, evaluate=Evaluate(every=60))
    found = whole._store.read(range(12)).cluster.tolist()
    assert found in ([i % 2 for i in range(12)], [1 - i % 2 for i in range(12)])


def test_a_cluster_that_nobody_chooses_stays_and_one_that_does_not_exist_is_ignored():
    method = mh.IFCA(clusters=3, **WORK)
    net = Model(small_net())
    server = method.init_server(net.params, 2)
    new = server.models.map(lambda v: torch.stack([v[0] + 1, v[0] + 3]))
    uploads = mh.Uploads([0, 1], torch.ones(2), mh.Each(mh.State(model=new, cluster=torch.tensor([1, 7]))))
    merged = method.merge(server, uploads, Round(1, 0, 2, 2))
    for name, value in merged.models.items():
        assert torch.equal(value[0], server.models[name][0])
        assert torch.equal(value[2], server.models[name][2])
        torch.testing.assert_close(value[1], server.models[name][0] + 1)


# -- FedRoD ------------------------------------------------------------------------------------------------------------


def skewed(balanced: bool, seed: int) -> Federation:
    """Planted label shift: the same classes everywhere, 80 % of the samples of one, which is the first at seven of ten.

    Test samples have the client's own frequencies, or all classes equally often.
    """
    rng = np.random.default_rng(seed)
    centres, train, test = 1.2 * rng.normal(size=(3, 6)), [], []

    def drawn(n, shares):
        y = rng.choice(3, n, p=shares / shares.sum())
        return (centres[y] + 1.3 * rng.normal(size=(n, 6))).astype(np.float32), y

    for i in range(10):
        shares = np.full(3, 0.1)
        shares[0 if i < 7 else 1 + i % 2] = 0.8
        train.append(drawn(80, shares))
        own, alike = drawn(300, shares), drawn(300, np.ones(3))
        test.append(alike if balanced else own)
    return Federation("skewed", Samples.of(train), Samples.of(test), "classification", 3)


def test_both_heads_of_fedrod_do_their_job_on_planted_label_shift():
    """The generic one is better than FedAvg on all classes alike, the personal one than both and than training alone."""

    def accuracy(method, kind, balanced):
        once = Evaluate(every=20, model=kind)
        seeds = [(skewed(balanced, seed), seed) for seed in range(3)]
        return np.mean([simulate(method, small_net(), f, rounds=20, seed=s, evaluate=once).accuracy for f, s in seeds])

    work = {"epochs": 2, "batch": 10, "sgd": SGD(lr=0.1)}
    rod = mh.FedRoD(**work)
    assert accuracy(rod, "global", True) > accuracy(mh.FedAvg(**work), "global", True) + 0.01
    personal = accuracy(rod, "personal", False)
    assert personal > accuracy(rod, "global", False) + 0.04
    assert personal > accuracy(mh.Local(**work), "personal", False) + 0.02


def test_fedrod_of_one_client_with_balanced_classes_has_fedavgs_generic_model():
    """log n is the same for all classes, and a softmax does not see it."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 10)
    part = (rng.normal(size=(30, 6)).astype(np.float32), y)
    federation = Federation("even", Samples.of([part]), Samples.of([part]), "classification", 3)
    order = {"steps": 4, "batch": 0, "sgd": SGD(lr=0.1)}
    rod, plain = (simulate(a, small_net(), federation, rounds=3) for a in (mh.FedRoD(**order), mh.FedAvg(**order)))
    same(rod.server.body | rod.server.head, plain.server.model, atol=1e-6, rtol=1e-5)


def test_a_class_that_a_client_lacks_keeps_its_bias_exactly():
    federation = ragged(sizes=(30, 20))
    train = [(x[y != 2], y[y != 2]) for x, y in (federation.train.client(i) for i in range(2))]
    lacking = Federation("lacking", Samples.of(train), federation.test, "classification", 3)
    run = simulate(mh.FedRoD(**WORK), small_net(), lacking, rounds=3)
    initial = run.model.params.head
    assert torch.equal(run.server.head["4.bias"][2], initial["4.bias"][2])
    assert not torch.equal(run.server.head["4.bias"][0], initial["4.bias"][0])


def test_fedrod_refuses_heads_that_it_cannot_add():
    deep = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Linear(4, 3)))
    with pytest.raises(mh.UserError, match="must be a linear layer"):
        simulate(mh.FedRoD(), Model(deep, head="1"), ragged(), rounds=1)
    plain = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 3, bias=False))
    with pytest.raises(mh.UserError, match="this head has none"):
        simulate(mh.FedRoD(), plain, ragged(), rounds=1)
