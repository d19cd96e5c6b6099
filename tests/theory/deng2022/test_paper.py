"""Local SGD on deep ReLU networks: the quantities of Deng et al. 2022 against plain formulas, and their behaviour."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from manyheads import LocalSGD, State, UserError, simulate
from manyheads.models import ReluNet, build_model
from manyheads.theory import PAPERS, theory
from manyheads.theory.deng2022.lemmas import LEMMA_3
from manyheads.theory.deng2022.paper import Deng2022
from manyheads.theory.deng2022.separation import separation
from manyheads.theory.facts import fitted_power
from manyheads.theory.landscape import Landscape, Traced

SMALL = Deng2022(
    width=256, widths=(32, 64, 128), taus=(1, 2, 10), depths=(1, 3), clients=3, samples=4, rounds=40, step=5.0, views=3
)


@pytest.fixture(scope="module")
def facts():
    return theory(SMALL)


def network(setting):
    federation = setting.federation()
    spec = ReluNet(width=setting.width, depth=setting.depth)
    model = build_model(spec, federation.sample_shape, federation.outputs, setting.seed, "float64")
    return federation, model, Landscape(model, federation, setting.seed)


def test_separation_is_the_least_distance():
    assert separation(np.eye(4)) == pytest.approx(math.sqrt(2))
    angle = 0.3
    circle = np.array([[1, 0], [math.cos(angle), math.sin(angle)], [-1, 0]])
    assert separation(circle) == pytest.approx(2 * math.sin(angle / 2))


def test_inputs_lie_on_the_sphere_as_far_apart_as_asked():
    train = replace(SMALL, dim=4, separation=0.6).federation().train
    np.testing.assert_allclose(np.linalg.norm(train.x, axis=1), 1)
    np.testing.assert_allclose(np.linalg.norm(train.y, axis=1), 1)
    assert separation(train.x) >= 0.6
    with pytest.raises(UserError, match="12 inputs do not fit on the unit sphere so far apart"):
        replace(SMALL, dim=2, separation=1.0).federation()


def test_gradient_is_the_formula_of_section_3():
    """grad_{W_l} L_i = 1/n sum_j D_{j,l} B_{j,l+1}^T (f_j - y_j) f_{j,l-1}^T, by plain loops."""
    setting = replace(SMALL, width=7, depth=3)
    federation, model, land = network(setting)
    W = [v.numpy() for v in model.params.all.values()]
    V = dict(model.module.named_parameters())["6.weight"].detach().numpy()
    found = land.gradients(land.flat(model.params.all)).numpy()
    for client in range(setting.clients):
        x, y = federation.train.client(client)
        slopes = [np.zeros_like(w) for w in W]
        for x_j, y_j in zip(x, y, strict=True):
            f, D = [x_j], []
            for w in W:
                D.append(np.diag((w @ f[-1] >= 0).astype(float)))
                f.append(D[-1] @ w @ f[-1])
            for layer in range(3):
                B = V
                for later in range(2, layer, -1):
                    B = B @ D[later] @ W[later]
                slopes[layer] += np.outer(D[layer] @ B.T @ (V @ f[-1] - y_j), f[layer]) / len(y)
        np.testing.assert_allclose(found[client], np.concatenate([s.ravel() for s in slopes]), atol=1e-12)


@pytest.mark.parametrize("gradient", ["full", "single"])
def test_traced_local_steps_are_those_of_the_run(gradient):
    setting = replace(SMALL, width=16, tau=4, gradient=gradient)
    federation, model, land = network(setting)
    states = []
    algorithm = LocalSGD(gradient=gradient, steps=4, lr=setting.eta)
    simulate(algorithm, model, federation, rounds=3, on_round=lambda end: states.append(end.server))
    cohort = land.cohort_at(3, Traced)
    end = algorithm.local(cohort, State(model=states[1].model), State()).model
    assert len(cohort.visited) == 4
    torch.testing.assert_close(land.flat(end).mean(dim=0), land.flat(states[2].model), rtol=1e-12, atol=1e-14)
    for own in land.flat(cohort.visited[0]):
        assert torch.equal(own, land.flat(states[1].model))
    if gradient == "full":  # the second point is one step of gradient descent
        first = land.flat(states[1].model)
        torch.testing.assert_close(land.flat(cohort.visited[1]), first - setting.eta * land.gradients(first))


def test_loss_falls_linearly_on_a_log_scale(facts):
    fit = facts["measured"]["fit"]
    assert fit["r2"] > 0.97
    assert fit["contraction"] < 0.95
    assert facts["measured"]["last_loss"] < 0.05 * facts["measured"]["first_loss"]
    assert np.all(np.diff(facts["series"]["loss"]) < 0)


def test_local_losses_fall_between_synchronisations(facts):
    """Lemma 6."""
    assert facts["measured"]["local_losses_fall"]
    assert facts["measured"]["largest_local_growth"] == 1
    for at in facts["local"]:
        assert len(at["local_loss"]) == SMALL.tau + 1
        assert at["local_loss"][-1] < 0.9


def test_gradient_bounds_are_a_band_along_the_run_and_across_widths(facts):
    """Lemma 2: the squared gradient is the loss times m/d, up to constants."""
    series = facts["series"]["gradient_upper"]
    assert min(series) > 0
    assert max(series) / min(series) < 8
    for bound in ("gradient_upper", "gradient_lower"):
        found = [row[bound] for row in facts["by_width"]]
        assert min(found) > 0
        assert max(found) / min(found) < 4
    lower = np.array(facts["series"]["gradient_upper"]) * SMALL.samples**2 / facts["phi"]
    np.testing.assert_allclose(facts["series"]["gradient_lower"], lower)


def test_gradient_ratio_is_the_gradient_over_the_loss(facts):
    _, model, land = network(SMALL)
    w = land.flat(model.params.all)
    square, loss = land.gradients(w).mean(dim=0).square().sum(), land.losses(w).mean()
    ratio = (square / (SMALL.width / SMALL.outputs * loss)).item()
    assert facts["series"]["gradient_upper"][0] == pytest.approx(ratio, rel=1e-9)


def test_deviation_grows_at_most_linearly_within_a_round(facts):
    """Lemma 4: the deviation, squared, is at most of the order of the square of the steps; none if there is one."""
    assert [row["deviation"] for row in facts["by_tau"] if row["tau"] == 1] == [0]
    for at in facts["local"]:
        far = np.sqrt(at["deviation"])
        assert far[0] == 0
        assert np.all(far[1:] <= far[1] * np.arange(1, len(far)) * (1 + 1e-9))
        assert np.all(np.diff(far) > 0)
    found = [row["deviation"] for row in facts["by_width"]]
    assert max(found) / min(found) < 3


def test_rate_per_round_does_not_depend_on_the_number_of_local_steps(facts):
    """Theorem 1 with eta ~ 1/tau."""
    rates = [row["rate"] for row in facts["by_tau"]]
    assert max(rates) / min(rates) < 1.3


def test_wider_networks_stay_closer_to_their_initialisation(facts):
    """O(sqrt(d/m)), while the initial weights have a norm of order sqrt(m)."""
    rows = facts["by_width"]
    far = [row["from_start"] for row in rows]
    assert all(a > b for a, b in pairwise(far))
    shares = [row["from_start"] / math.sqrt(row["width"]) for row in rows]
    assert shares[-1] < shares[0] / 4
    ratios = [row["distance"] for row in rows]
    assert max(ratios) / min(ratios) < 2


def test_outputs_change_with_the_norm_of_the_top_layer(facts):
    """Lemma 5's proof leaves out |V|^2 ~ m/d: without it the ratio grows with the width, with it it does not."""
    narrow, wide = facts["by_width"][0], facts["by_width"][-1]
    assert wide["outputs"] / narrow["outputs"] > 3
    assert 1 / 2.5 < wide["outputs_m_d"] / narrow["outputs_m_d"] < 2.5


def test_semi_gradient_lipschitz_ratio_is_small(facts):
    assert 0 < facts["ratios"]["semi_lipschitz"] < 0.01


def test_widths_of_the_theorem_are_out_of_reach_and_said_to_be(facts):
    width = next(c for c in facts["conditions"] if c["name"].startswith("width"))
    K, n, L, d, phi = SMALL.clients, SMALL.samples, SMALL.depth, SMALL.outputs, facts["phi"]
    needed = K * d * n**16 * L**12 * math.log(SMALL.width) ** 3 / phi**5
    assert width["holds"] is False
    assert f"{needed:.1e}" in width["needs"]
    assert facts["within_assumptions"] is False


def test_local_sgd_converges_linearly_too():
    setting = replace(SMALL, gradient="single", width=128, widths=(), taus=(), depths=(), rounds=60, samples=4)
    facts = theory(setting)
    assert facts["measured"]["fit"]["r2"] > 0.9
    assert facts["measured"]["last_loss"] < 0.1 * facts["measured"]["first_loss"]
    assert "rate_times_R0" not in facts["ratios"]  # R_0 is for Theorem 2's own step size: see the sweep
    assert [row["width"] for row in facts["by_width"]] == [128]


def test_the_deviation_of_local_sgd_counts_the_n_fold_gradient():
    """eta G with eta / n and G = n grad: on one sample per client Local SGD is Local GD, and so is its deviation."""
    one = replace(SMALL, samples=1, width=32, widths=(), taus=(), depths=(), rounds=10)
    full, single = theory(one), theory(replace(one, gradient="single"))
    assert single["ratios"]["deviation"] == pytest.approx(full["ratios"]["deviation"], rel=1e-6)
    more = replace(one, samples=4)
    full, single = theory(more), theory(replace(more, gradient="single"))
    assert 1 < single["ratios"]["deviation"] / full["ratios"]["deviation"] < 4  # noise, but no n^2 = 16


def test_each_theorem_has_its_own_conditions(facts):
    def conditions(setting):
        return {c["name"]: c for c in setting.run(lambda _: None)["conditions"]}

    few = replace(SMALL, width=16, widths=(), taus=(), depths=(), rounds=10)
    gd, sgd = conditions(few), conditions(replace(few, gradient="single"))
    assert "step size: eta, in the proof (A.2.2)" in gd
    assert "step size: eta, in the proof (A.2.2)" not in sgd
    phi, n, L, d, K = facts["phi"], few.samples, few.depth, few.outputs, few.clients
    printed = K * d * n**18 * L**12 * math.log(16) ** 5 / phi**3
    assert f"{printed:.1e}" in sgd["width: m"]["needs"]
    assert f"{printed / phi**2:.1e}" in sgd["width: m, with the proof's 1/phi"]["needs"]


def test_lemmas_1_3_and_7_are_bands_across_widths(facts):
    for key in ("semi_smoothness", *LEMMA_3, "stochastic_mean", "stochastic_largest"):
        found = [row[key] for row in facts["by_width"]]
        assert fitted_power([row["width"] for row in facts["by_width"]], found) < 0.3, key
        assert max(found) < 3, key


def test_facts_are_plain_and_drawn(facts):
    assert PAPERS.find("deng2022") is Deng2022
    json.dumps(facts, allow_nan=False)
    assert len(Deng2022.figure(facts).to_dict()["vconcat"]) == 2
