"""What the papers say of single methods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from cohorts import assert_gradient, losses_at, smooth_cohort
from problems import ragged, small_net
from quadratic import DIM, Quadratic, model, problem

import manyheads as mh
from manyheads import SGD, Evaluate, Federation, Model, State, Tree, simulate
from manyheads.algorithms.fedrep_linear import least_squares
from manyheads.core.contract import Round
from manyheads.core.optim import FineTune
from manyheads.data import LinearTasks, Samples
from manyheads.engines.client_data import ClientData
from manyheads.engines.cohort import LocalCohort
from manyheads.models import LinearRepresentation, build_model

# -- Per-FedAvg --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner_steps", [1, 2])
def test_exact_direction_is_the_numerical_gradient_of_the_loss_after_the_step(inner_steps):
    cohort, w = smooth_cohort()
    alpha, full = 0.3, cohort.draw(0)
    method = mh.PerFedAvg(variant="exact", alpha=alpha, inner_steps=inner_steps)

    def after(point: Tree) -> torch.Tensor:
        for _ in range(inner_steps):
            point = point - alpha * cohort.gradient(point, on=full)
        return losses_at(cohort, point)

    assert_gradient(method.direction(cohort, w, full, full, full), after, w)


def test_hf_tends_to_exact_with_the_square_of_delta():
    """A central difference: the error falls by 100 when delta falls by 10 (order 2; the paper's bound is of order 1)."""
    cohort, w = smooth_cohort()
    full = cohort.draw(0)
    exact = mh.PerFedAvg(variant="exact", alpha=0.3).direction(cohort, w, full, full, full)
    deltas, errors = (0.3, 0.1, 0.03, 0.01), []
    for delta in deltas:
        close = mh.PerFedAvg(variant="hf", alpha=0.3, delta=delta).direction(cohort, w, full, full, full)
        errors.append(float((close - exact).dot(close - exact).sum().sqrt()))
    slope = np.polyfit(np.log(deltas), np.log(errors), 1)[0]
    assert slope == pytest.approx(2, abs=0.1)


def test_fo_differs_from_exact_by_the_hessian_term():
    cohort, w = smooth_cohort()
    full, alpha = cohort.draw(0), 0.3
    exact, first = (
        mh.PerFedAvg(variant=v, alpha=alpha).direction(cohort, w, full, full, full) for v in ("exact", "fo")
    )
    term = alpha * cohort.hvp(w, first, on=full)
    for name in w:
        torch.testing.assert_close(first[name] - exact[name], term[name], atol=1e-12, rtol=1e-9)


def test_hessian_vector_product_is_the_hessian_times_the_vector():
    cohort, w = smooth_cohort()
    full = cohort.draw(0)
    torch.manual_seed(1)
    v = w.map(torch.randn_like)
    product, h = cohort.hvp(w, v, on=full), 1e-5
    numerical = (0.5 / h) * (cohort.gradient(w + h * v, on=full) - cohort.gradient(w - h * v, on=full))
    for name in w:
        torch.testing.assert_close(product[name], numerical[name], atol=1e-7, rtol=1e-5)


def test_per_fedavg_with_alpha_zero_is_fedavg():
    """On full batches, where there is nothing to draw."""
    meta = mh.PerFedAvg(alpha=0.0, beta=0.1, steps=3, batch=0, outer_batch=0, hessian_batch=0)
    plain = mh.FedAvg(steps=3, batch=0, sgd=SGD(lr=0.1, momentum=0.0))
    first, second = (
        simulate(a, small_net(), ragged(), rounds=3, weighting="equal", evaluate=Evaluate(model="global"))
        for a in (meta, plain)
    )
    for name, value in first.server.model.items():
        torch.testing.assert_close(value, second.server.model[name], atol=1e-6, rtol=1e-5)
    assert first.accuracy == second.accuracy


def test_personal_model_of_per_fedavg_is_one_gradient_step_from_the_shared_one():
    federation = ragged()
    run = simulate(mh.PerFedAvg(alpha=0.5, beta=0.05), small_net(), federation, rounds=2)
    assert "after fine-tuning the whole model for 1 steps" in run.protocol
    correct = []
    for client in range(len(federation)):
        net, (x, y) = small_net(), federation.train.client(client)
        net.load_state_dict(dict(run.server.model))
        torch.nn.functional.cross_entropy(net(torch.from_numpy(x)), torch.from_numpy(y)).backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.5 * p.grad
        x, y = federation.test.client(client)
        correct.append(float((net(torch.from_numpy(x)).argmax(1).numpy() == y).mean()))
    assert run.accuracy == pytest.approx(np.mean(correct))


def test_random_iterate_is_the_mean_of_the_clients_models_at_a_random_step():
    """Remark 4.6: with tau steps, the iterate of step t_k, which is the model sent if t_k = 0."""
    method = mh.PerFedAvg(alpha=0.1, beta=0.2, steps=3, batch=0, outer_batch=0, hessian_batch=0, random_iterate=True)
    federation = ragged()
    seen = set()
    for seed in range(12):
        run = simulate(method, small_net(), federation, rounds=1, seed=seed)
        chosen = int(Round(1, seed, 0, 0).uniform() * 3)
        seen.add(chosen)
        stopped = replace(method, steps=chosen, random_iterate=False) if chosen else None
        wanted = (
            simulate(stopped, small_net(), federation, rounds=1, seed=seed).server.model
            if stopped
            else Model(small_net()).params.all
        )
        for name, value in run.server.iterate.items():
            torch.testing.assert_close(value, wanted[name], atol=1e-6, rtol=1e-5)
    assert seen == {0, 1, 2}


# -- SCAFFOLD ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["I", "II"])
def test_scaffold_reaches_the_global_optimum_where_fedavg_with_the_same_step_does_not(option):
    federation = problem()
    q, lr, tau = Quadratic(federation), 0.1, 10
    everywhere = {"rounds": 400, "weighting": "equal", "evaluate": Evaluate(every=400)}
    scaffold = simulate(
        mh.Scaffold(batch=0, steps=tau, lr=lr, server_lr=1.0, option=option), model(), federation, **everywhere
    )
    fedavg = simulate(mh.FedAvg(batch=0, steps=tau, sgd=SGD(lr=lr, momentum=0.0)), model(), federation, **everywhere)
    best, stuck = q.optimum("equal"), q.fedavg(lr, tau, "equal")
    np.testing.assert_allclose(scaffold.server.model["weight"].numpy()[0], best, atol=1e-8)
    np.testing.assert_allclose(fedavg.server.model["weight"].numpy()[0], stuck, atol=1e-8)
    assert np.linalg.norm(stuck - best) > 0.01


def test_controls_of_scaffold_become_the_clients_gradients_at_the_optimum():
    federation = problem()
    q = Quadratic(federation)
    run = simulate(mh.Scaffold(batch=0, steps=5, lr=0.1, server_lr=1.0), model(), federation, rounds=400)
    for client, (A, b) in enumerate(zip(q.A, q.b, strict=True)):
        control = run._store.read([client]).control["weight"][0, 0].numpy()
        np.testing.assert_allclose(control, A @ q.optimum("equal") - b, atol=1e-7)
    np.testing.assert_allclose(run.server.control["weight"].numpy(), 0, atol=1e-7)


def test_scaffold_moves_its_control_by_the_share_of_clients_that_took_part():
    federation = problem()
    method = mh.Scaffold(batch=0, steps=2, lr=0.1, server_lr=1.0)
    run = simulate(method, model(), federation, rounds=1, cohort=1)
    (client,) = run.history[0]["cohort"]
    own = run._store.read([client]).control["weight"][0]
    torch.testing.assert_close(run.server.control["weight"], own / len(federation))


def test_first_round_of_scaffold_is_fedavg():
    first, second = (
        simulate(a, small_net(), ragged(), rounds=1, participation=0.5, weighting="equal")
        for a in (
            mh.Scaffold(epochs=2, batch=5, lr=0.05, server_lr=1.0),
            mh.FedAvg(epochs=2, batch=5, sgd=SGD(lr=0.05, momentum=0.0)),
        )
    )
    for name, value in first.server.model.items():
        torch.testing.assert_close(value, second.server.model[name], atol=1e-7, rtol=1e-6)


# -- L2GD --------------------------------------------------------------------------------------------------------------


def test_expected_step_of_l2gd_is_zero_at_the_optimum_of_its_objective_and_nowhere_else():
    """(1 - p) times the local step plus p times the move is -eta times the gradient of the objective."""
    federation, net = problem(), model()
    q, method = Quadratic(federation), mh.L2GD(eta=0.3, lam=0.5, p=0.4, batch=0)
    data = ClientData.of(federation.train, "regression", net.params.all["weight"])
    tried = net.tried(data.x[:2], "regression", 1)
    n = len(federation)
    rounds = {Round(i, 0, n, n).coin(method.p): Round(i, 0, n, n) for i in range(2, 30)}

    def expected(x: np.ndarray) -> np.ndarray:
        own = Tree({"weight": torch.from_numpy(x[:, None, :])})
        mean = Tree({"weight": own["weight"].mean(dim=0)})
        state = State(model=own, mean=mean.map(lambda v: v.expand(n, *v.shape)))
        moves = {}
        for coin, round in rounds.items():
            cohort = LocalCohort(tried, data, range(n), round, "stacked")
            update = method.local(cohort, State(mean=mean), state)
            moves[coin] = update.client.model["weight"].numpy()[:, 0] - x
        return (1 - method.p) * moves[False] + method.p * moves[True]

    best = q.l2gd(method.lam)
    np.testing.assert_allclose(expected(best), 0, atol=1e-12)
    elsewhere = best + np.random.default_rng(0).normal(size=best.shape)
    gradient = np.einsum("ijk,ik->ij", q.A, elsewhere) - q.b + method.lam * (elsewhere - elsewhere.mean(axis=0))
    np.testing.assert_allclose(expected(elsewhere), -method.eta / n * gradient, atol=1e-12)


def test_l2gd_communicates_only_when_a_step_is_followed_by_a_move():
    federation, net = ragged(), small_net()
    size = sum(p.numel() * 4 for p in net.parameters())
    run = simulate(mh.L2GD(p=0.5), net, federation, rounds=40)
    coins = [Round(i, 0, 0, 0).coin(0.5) for i in range(1, 42)]
    for index, record in enumerate(run.history, start=1):
        now, following = coins[index - 1], coins[index]
        before = coins[index - 2] if index > 1 else True
        assert record["bytes_up"] == (size * len(federation) if following and not now else 0)
        assert record["bytes_down"] == (size * len(federation) if now and not before else 0)
    assert 5 < sum(r["bytes_up"] > 0 for r in run.history) < 20


def test_l2gd_with_lambda_zero_is_local_training():
    federation = ragged()
    n, p = len(federation), 0.4
    run = simulate(mh.L2GD(eta=0.3 * n * (1 - p), lam=0.0, p=p, batch=0), small_net(), federation, rounds=20)
    steps = sum(not Round(i, 0, 0, 0).coin(p) for i in range(1, 21))
    alone = simulate(mh.Local(steps=1, batch=0, sgd=SGD(lr=0.3, momentum=0.0)), small_net(), federation, rounds=steps)
    for client in range(n):
        for name, value in run.client_model(client).items():
            torch.testing.assert_close(value, alone.client_model(client)[name], atol=1e-5, rtol=1e-4)


# -- Ditto, FedProx, FedPer, APFL, LG-FedAvg ----------------------------------------------------------------------------


def same_server(first, second, **more):
    runs = [simulate(a, small_net(), ragged(), rounds=3, participation=0.5, **more) for a in (first, second)]
    for name, value in runs[0].server.model.items():
        assert torch.equal(value, runs[1].server.model[name]), name


def test_global_model_of_ditto_is_fedavg():
    same_server(mh.Ditto(epochs=2, batch=5), mh.FedAvg(epochs=2, batch=5))


def test_fedprox_with_mu_zero_is_fedavg():
    same_server(mh.FedProx(epochs=2, batch=5, mu=0.0), mh.FedAvg(epochs=2, batch=5))


def test_fedprox_with_many_local_steps_is_the_fixed_point_of_the_proximal_maps():
    """w = sum p_i prox_i(w), prox_i the optimum of f_i(v) + mu/2 |v - w|^2."""
    federation, mu = problem(), 0.5
    q = Quadratic(federation)
    exact = mh.FedProx(steps=200, batch=0, sgd=SGD(lr=0.2, momentum=0.0), mu=mu)
    w = simulate(exact, model(), federation, rounds=100, evaluate=Evaluate(every=100)).server.model["weight"].numpy()[0]
    np.testing.assert_allclose(w, q.weights("samples") @ q.near(mu, w), atol=1e-8)


def test_fedper_with_an_empty_head_is_fedavg():
    shared = Model(small_net(), head=())
    first = simulate(mh.FedPer(epochs=2, batch=5), shared, ragged(), rounds=3)
    second = simulate(mh.FedAvg(epochs=2, batch=5), shared, ragged(), rounds=3)
    for name, value in first.server.body.items():
        assert torch.equal(value, second.server.model[name])


def test_lg_fedavg_with_all_layers_shared_is_fedavg():
    first = simulate(mh.LGFedAvg(epochs=2, batch=5, shared_layers=9), small_net(), ragged(), rounds=3)
    second = simulate(mh.FedAvg(epochs=2, batch=5), small_net(), ragged(), rounds=3)
    for name, value in first.server.top.items():
        assert torch.equal(value, second.server.model[name])


def test_apfl_with_alpha_one_is_local_training():
    apfl = simulate(mh.APFL(alpha=1.0, epochs=2, batch=5, lr=0.05), small_net(), ragged(), rounds=3)
    alone = simulate(mh.Local(epochs=2, batch=5, sgd=SGD(lr=0.05, momentum=0.0)), small_net(), ragged(), rounds=3)
    for client in range(len(ragged())):
        for name, value in apfl.client_model(client).items():
            torch.testing.assert_close(value, alone.client_model(client)[name], atol=1e-6, rtol=1e-5)


def test_apfl_with_alpha_zero_predicts_with_the_shared_model():
    apfl = simulate(mh.APFL(alpha=0.0, epochs=2, batch=5, lr=0.05), small_net(), ragged(), rounds=3)
    plain = mh.FedAvg(epochs=2, batch=5, sgd=SGD(lr=0.05, momentum=0.0))
    shared = simulate(plain, small_net(), ragged(), rounds=3, weighting="equal")
    for name, value in apfl.client_model(1).items():
        torch.testing.assert_close(value, shared.server.model[name], atol=1e-6, rtol=1e-5)


def test_adaptive_alpha_stays_between_zero_and_one_and_differs_between_clients():
    run = simulate(mh.APFL(adaptive=True, lr=0.1, epochs=3), small_net(), ragged(), rounds=5)
    alpha = run._store.read(range(len(ragged()))).alpha
    assert ((alpha >= 0) & (alpha <= 1)).all()
    assert alpha.unique().numel() > 3


# -- Fed-MTL -----------------------------------------------------------------------------------------------------------


def test_relations_are_the_best_covariance_of_trace_one():
    """S = (W^T W)^(1/2) / tr minimises tr(W S^-1 W^T); no other matrix of trace one does better."""
    torch.manual_seed(0)
    models = Tree({"a": torch.randn(5, 7), "b": torch.randn(5, 4)})
    omega = mh.FedMTL(ridge=1e-9).omega(models).double()
    W = torch.cat([models["a"], models["b"]], dim=1).double()
    assert float(torch.linalg.inv(5 * omega).trace()) == pytest.approx(1, abs=1e-4)

    def cost(precision: torch.Tensor) -> float:
        return float((W.T @ precision @ W).trace())

    best = cost(5 * omega)
    for seed in range(50):
        g = torch.Generator().manual_seed(seed)
        M = torch.randn(5, 5, generator=g, dtype=torch.float64)
        other = M @ M.T + 0.05 * torch.eye(5)
        nearby = torch.linalg.inv(5 * omega) + 0.02 * (other / other.trace() - torch.linalg.inv(5 * omega))
        for S in (other / other.trace(), nearby):
            assert cost(torch.linalg.inv(S)) >= best * (1 - 1e-6)


def test_learned_relations_find_the_groups_of_clients():
    """Two groups with opposite answers: clients of one group are related, those of different groups are not."""
    rng = np.random.default_rng(0)
    answers = [np.ones(DIM)] * 3 + [-np.ones(DIM)] * 3
    xs = [rng.normal(size=(30, DIM)) for _ in answers]
    samples = Samples.of([(x, x @ a) for x, a in zip(xs, answers, strict=True)])
    federation = Federation("groups", samples, samples, "regression", 1)
    run = simulate(mh.FedMTL(steps=5, batch=0, sgd=SGD(lr=0.1, momentum=0.0)), model(), federation, rounds=100)
    covariance = torch.linalg.inv(run.server.omega)
    assert (covariance[:3, :3] > 0).all()
    assert (covariance[3:, 3:] > 0).all()
    assert (covariance[:3, 3:] < 0).all()


# -- FedRep, linear ----------------------------------------------------------------------------------------------------


def distance(run, truth) -> float:
    (B,) = run.server.body.values()
    basis, _ = np.linalg.qr(B.numpy().T)
    return float(np.linalg.norm(basis - truth.body @ (truth.body.T @ basis), 2))


def linear_run(rounds, clients=100, samples=30, participation=0.5, **settings):
    tasks = LinearTasks(clients=clients, dim=10, rank=2, samples=samples, dtype="float64")
    net = build_model(LinearRepresentation(rank=2), (10,), 1, seed=0, dtype="float64")
    run = simulate(
        mh.FedRepLinear(**settings), net, tasks.federation(seed=0), rounds=rounds, participation=participation
    )
    return run, tasks.truth(seed=0)


def test_linear_fedrep_converges_linearly_to_the_representation():
    values = []
    for rounds in (1, 20, 40, 60, 80):
        run, truth = linear_run(rounds, eta=0.5)
        values.append(distance(run, truth))
    assert values[-1] < 1e-4
    logs = np.log(values[1:])
    slope, offset = np.polyfit(np.arange(4), logs, 1)
    assert slope < -1
    assert np.abs(np.polyval([slope, offset], np.arange(4)) - logs).max() < 0.5


def test_method_of_moments_starts_nearer_the_more_clients_there_are():
    near, truth = linear_run(1, clients=2000, samples=30)
    far, truth_few = linear_run(1, clients=50, samples=30)
    random_start = linear_run(1, clients=50, samples=30, start="given", eta=1e-9)
    assert distance(near, truth) < 0.3
    assert distance(near, truth) < distance(far, truth_few) < distance(*random_start)


def test_moments_come_from_all_clients_whatever_the_participation():
    run, _ = linear_run(3, participation=0.1)
    assert [r["clients"] for r in run.history] == [100, 10, 10]
    assert run.history[0]["bytes_up"] == 100 * 10 * 10 * 8
    assert run.history[1]["bytes_up"] == 10 * 10 * 2 * 8


def test_exact_heads_beat_ten_and_one_gradient_steps():
    """Figure 3 of the paper, at a small scale: FedRep, then 10GD-GD, then GD-GD."""
    exact, ten, one = (distance(*linear_run(60, eta=0.5, head_steps=s, head_lr=0.1)) for s in (0, 10, 1))
    assert exact < ten < one


def test_linear_fedrep_refuses_another_model():
    with pytest.raises(mh.UserError, match=r"needs the linear model.*--model linear"):
        simulate(mh.FedRepLinear(), "mlp", LinearTasks(clients=5).federation(seed=0), rounds=1)


# -- Local GD and SGD --------------------------------------------------------------------------------------------------


class FixedTop(torch.nn.Module):
    """A ReLU network whose top layer V is never trained."""

    def __init__(self) -> None:
        super().__init__()
        self.W = torch.nn.Linear(6, 16, bias=False)
        self.V = torch.nn.Linear(16, 1, bias=False)
        self.V.weight.requires_grad_(False)

    def forward(self, x):
        return self.V(self.W(x).relu())


@pytest.mark.parametrize("gradient", ["full", "single"])
def test_local_gd_and_sgd_leave_the_fixed_layer_alone_and_learn(gradient):
    tasks = LinearTasks(clients=5, dim=6, rank=2, samples=20).federation(seed=0)
    torch.manual_seed(0)
    net = FixedTop()
    method = mh.LocalSGD(gradient=gradient, lr=0.05 if gradient == "full" else 0.001, steps=5)
    run = simulate(method, Model(net, head=()), tasks, rounds=60)
    assert list(run.server.model) == ["W.weight"]
    assert torch.equal(run.model.module.V.weight, net.V.weight)
    losses = [v for _, v in run.history.column("train_loss")]
    assert losses[-1] < 0.8 * losses[0]


def test_single_sample_gradients_are_scaled_by_the_number_of_samples():
    """G = n grad l, as Algorithm 1 has it: one step of lr with the scaling is one step of n lr without."""
    federation = ragged(sizes=(20,))
    n = int(federation.train.sizes[0])
    first, second = (
        simulate(mh.LocalSGD(gradient="single", steps=2, lr=lr, scale_by_n=scaled), small_net(), federation, rounds=1)
        for lr, scaled in ((0.001, True), (0.001 * n, False))
    )
    for name, value in first.server.model.items():
        torch.testing.assert_close(value, second.server.model[name], atol=1e-7, rtol=1e-5)


def test_local_gd_is_fedavg_with_full_batches():
    first = simulate(mh.LocalSGD(steps=3, lr=0.1), small_net(), ragged(), rounds=3)
    plain = mh.FedAvg(steps=3, batch=0, sgd=SGD(lr=0.1, momentum=0.0))
    second = simulate(plain, small_net(), ragged(), rounds=3, weighting="equal")
    for name, value in first.server.model.items():
        torch.testing.assert_close(value, second.server.model[name], atol=1e-6, rtol=1e-5)


# -- fine-tuning and new clients ---------------------------------------------------------------------------------------


def test_fine_tuning_the_head_leaves_the_body_and_helps():
    federation = ragged().with_new_clients(3, seed=1)
    run = simulate(
        mh.FedAvg(epochs=2), small_net(), federation, rounds=5, finetune=FineTune(scope="head", epochs=20, lr=0.1)
    )
    base = run.history[-1]["evaluation"]
    tuned, new, new_tuned = run.final
    assert tuned["loss"] < base["loss"]
    assert new_tuned["clients"] == new["clients"] == 3
    assert "fine-tuning the head for 20 epochs" in tuned["protocol"]


def test_fine_tuning_equals_torch_sgd_from_the_shared_model():
    """One full-batch step on the head of a new client, by hand."""
    federation = ragged().with_new_clients(2, seed=1)
    tune = FineTune(scope="head", steps=1, batch=0, lr=0.3, momentum=0.0)
    run = simulate(mh.FedAvg(), small_net(), federation, rounds=2, finetune=tune)
    losses = []
    for client in range(2):
        net = small_net()
        net.load_state_dict(dict(run.server.model))
        (x, y), (x_test, y_test) = (
            map(torch.from_numpy, s.client(client)) for s in (federation.new.train, federation.new.test)
        )
        torch.nn.functional.cross_entropy(net(x), y).backward()
        with torch.no_grad():
            for p in net[4].parameters():
                p -= 0.3 * p.grad
            losses.append(float(torch.nn.functional.cross_entropy(net(x_test), y_test)))
    assert run.final[-1]["per_client"]["loss"] == pytest.approx(losses, rel=1e-4)


@pytest.mark.parametrize("scope", ["head", "all"])
def test_fine_tuning_with_a_pull_is_torch_sgd_on_the_loss_with_the_penalty(scope):
    tune = FineTune(scope=scope, steps=4, batch=0, lr=0.2, momentum=0.5, weight_decay=0.01, mu=0.7)
    federation = ragged().with_new_clients(2, seed=1)
    run = simulate(mh.FedAvg(), small_net(), federation, rounds=2, finetune=tune)
    for client in range(2):
        net = small_net()
        net.load_state_dict(dict(run.server.model))
        tuned = net[4] if scope == "head" else net
        before = [p.detach().clone() for p in tuned.parameters()]
        groups = [
            {"params": [p], "weight_decay": 0.01 * (not name.endswith("bias"))} for name, p in tuned.named_parameters()
        ]
        sgd = torch.optim.SGD(groups, lr=0.2, momentum=0.5)
        x, y = map(torch.from_numpy, federation.new.train.client(client))
        for _ in range(4):
            sgd.zero_grad()
            penalty = sum((p - b).square().sum() for p, b in zip(tuned.parameters(), before, strict=True))
            (torch.nn.functional.cross_entropy(net(x), y) + 0.7 / 2 * penalty).backward()
            sgd.step()
        found = run.new_model(federation, client, tune)
        for name, value in net.state_dict().items():
            torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-6)
    assert "for 4 steps with a pull to its beginning (mu 0.7)" in run.final[0]["protocol"]


def test_a_pull_needs_sgd_and_a_strength():
    tune = FineTune(scope="head", optimizer="adam", mu=0.1)
    with pytest.raises(mh.UserError, match=r"finetune\.mu: a pull needs plain SGD; given 'mu 0.1 with adam'"):
        simulate(mh.FedAvg(), small_net(), ragged(), rounds=1, finetune=tune)
    with pytest.raises(mh.UserError, match="mu"):
        FineTune(mu=0.0)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "rmsprop", "adagrad"])
def test_any_optimizer_fine_tunes(optimizer):
    tune = FineTune(scope="all", epochs=5, optimizer=optimizer, lr=0.01)
    run = simulate(mh.FedAvg(), small_net(), ragged(), rounds=2, finetune=tune)
    assert run.final[0]["loss"] < run.history[-1]["evaluation"]["loss"]


def test_local_training_by_another_optimizer():
    """Full batches: the steps of torch's own Adam, which starts anew in every round."""
    federation, rounds, steps = ragged(), 2, 3
    method = mh.Local(optimizer="adam", sgd=SGD(lr=0.01), batch=0, steps=steps)
    run = simulate(method, small_net(), federation, rounds=rounds)
    for client in (0, 3):
        net = small_net()
        x, y = map(torch.from_numpy, federation.train.client(client))
        for _ in range(rounds):
            adam = torch.optim.Adam(net.parameters(), lr=0.01)
            for _ in range(steps):
                adam.zero_grad()
                torch.nn.functional.cross_entropy(net(x), y).backward()
                adam.step()
        for name, leaf in net.named_parameters():
            torch.testing.assert_close(run.client_model(client)[name], leaf.detach(), rtol=1e-4, atol=1e-6)


def test_the_fine_tuned_protocol_can_be_followed_over_the_rounds():
    tune = FineTune(scope="head", epochs=2, lr=0.1)
    run = simulate(
        mh.FedRep(head_epochs=1), small_net(), ragged(), rounds=3, finetune=tune, evaluate=Evaluate(model="finetuned")
    )
    assert len(run.history.column("accuracy")) == 3
    assert "personal model after fine-tuning the head for 2 epochs" in run.protocol
    with pytest.raises(mh.UserError, match="fine-tuning is not set.*--finetune head:10"):
        simulate(mh.FedAvg(), small_net(), ragged(), rounds=1, evaluate=Evaluate(model="finetuned"))


def test_new_clients_are_never_trained_on():
    """Rubbish at the new clients changes nothing for the others."""
    clean = ragged().with_new_clients(3, seed=1)
    poisoned = replace(clean, new=replace(clean.new, train=replace(clean.new.train, y=(clean.new.train.y + 1) % 3)))
    first, second = (simulate(mh.FedRep(head_epochs=1), small_net(), f, rounds=3) for f in (clean, poisoned))
    assert first.checksum == second.checksum


@pytest.mark.parametrize(("algorithm", "start"), [
    (mh.FedRep(), "initial head"), (mh.Ditto(), "shared"), (mh.APFL(), "shared"), (mh.L2GD(p=0.5), "mean"),
    (mh.FedMTL(), "mean of all"), (mh.FedAvg(), "shared"),
])  # fmt: skip
def test_what_a_newcomer_starts_from(algorithm, start):
    run = simulate(algorithm, small_net(), ragged(), rounds=3)
    state = algorithm.newcomer(run.model.params, run.server)
    kind = algorithm.models[0]
    own = algorithm.global_model(run.server) if kind == "global" else algorithm.personal_model(run.server, state)
    wanted = (
        {
            "initial head": lambda: run.server.body | run.model.params.head,
            "shared": lambda: run.server.model,
            "mean": lambda: run.server.mean,
            "mean of all": lambda: run.server.models.map(lambda v: v.mean(dim=0)),
        }[start]()
        if algorithm.name != "fedavg"
        else run.server.model
    )
    assert all(torch.allclose(own[k], wanted[k]) for k in wanted)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_least_squares_of_every_kind_of_client(dtype):
    """Well posed, nearly singular, singular, with fewer samples than features, and all zero."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(6, 8, 3, dtype=torch.float64, generator=generator)
    y = torch.randn(6, 8, dtype=torch.float64, generator=generator)
    z[1, :, 2] = z[1, :, 1] + 1e-3 * z[1, :, 2]
    z[2, :, 2] = z[2, :, 1]
    z[3, 2:] = 0
    z[4] = 0
    z[5] *= 1e-4
    found = least_squares(z.to(dtype), y.to(dtype))
    exact = torch.stack(
        [torch.linalg.lstsq(a, b[:, None], driver="gelsd").solution[:, 0] for a, b in zip(z, y, strict=True)]
    )
    error = (found - exact).norm(dim=1) / exact.norm(dim=1).clamp(min=1)
    condition = torch.tensor([1, 1e3, 1, 1, 1, 1])
    assert (error <= 100 * torch.finfo(dtype).eps * condition).all(), error
