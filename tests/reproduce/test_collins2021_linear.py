"""The linear figures of collins2021: runs against programs written out, scales of steps, and claims on made-up values."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyheads.algorithms import FedRepLinear
from manyheads.data import Truth
from manyheads.engines.engine import Engine
from manyheads.metrics import principal_angle_distance
from manyheads.reproduce.collins2021.figure1 import Figure1
from manyheads.reproduce.collins2021.figure3 import AUTHORS, Figure3
from manyheads.reproduce.collins2021.figure4 import Figure4
from manyheads.reproduce.collins2021.linear import ALONE, FEDREP, line_of
from manyheads.reproduce.experiment import Place
from manyheads.theory.collins2021.fresh import fresh_rounds
from manyheads.theory.collins2021.tasks import Tasks, fitted

SMALL: dict[str, Any] = {"dim": 6, "rank": 2, "clients": 12, "rounds": 4, "seeds": 2}
ENGINE = Engine(workers=1)


def test_tasks_are_as_assumption_3_has_them():
    tasks = Tasks(clients=5, dim=6, rank=2, samples=8, noise=0.0, seed=1)
    x, y = tasks.drawn
    np.testing.assert_allclose(np.linalg.norm(tasks.truth.heads, axis=1), np.sqrt(2))
    np.testing.assert_allclose(y[3], x[3] @ tasks.truth.body @ tasks.truth.heads[3])
    np.testing.assert_allclose(fitted(x, y), tasks.weights, atol=1e-12)
    few = x[:, :3], y[:, :3]
    expected = [np.linalg.lstsq(a, b, rcond=None)[0] for a, b in zip(*few, strict=True)]
    np.testing.assert_allclose(fitted(*few), expected, atol=1e-12)
    noisy = Tasks(clients=5, dim=6, rank=2, samples=8, noise=0.3, seed=1).drawn
    np.testing.assert_array_equal(noisy[0], x)
    assert 0.15 < (noisy[1] - y).std() < 0.45


@pytest.mark.parametrize("tau", [1, 3])
def test_fedavg_is_the_mean_of_local_gradient_descent(tau):
    experiment = Figure4(**SMALL, taus=(tau,), alphas=(0.1,))
    tasks = experiment.tasks(5, seed=2)
    found = experiment.learned(line_of(tau), tasks, ENGINE)
    (x, y), model = tasks.drawn, tasks.model()
    body, head = (v.numpy() for v in model.params.all.values())
    body, head = body.T, head[0]
    np.testing.assert_allclose(body.T @ body, np.eye(2), atol=1e-12)
    for _ in range(4):
        ends = []
        for i in range(12):
            b, w = body, head
            for _ in range(tau):
                slope = x[i].T @ (x[i] @ b @ w - y[i]) / 5
                b, w = b - 0.1 * np.outer(slope, w), w - 0.1 * b.T @ slope
            ends.append((b, w))
        body, head = (np.mean([end[part] for end in ends], axis=0) for part in (0, 1))
    np.testing.assert_allclose(found.body, body, atol=1e-12)
    np.testing.assert_allclose(found.weights, np.tile(body @ head, (12, 1)), atol=1e-12)


def test_fedrep_finds_the_truth_without_noise_and_fedavg_may_start_where_it_does():
    experiment = Figure4(**SMALL | {"rounds": 400}, noise=0.0)
    tasks = experiment.tasks(10, seed=0)
    learned = experiment.learned(FEDREP, tasks, ENGINE)
    assert learned.distance(tasks) < 1e-6
    np.testing.assert_allclose(learned.weights, tasks.weights, atol=1e-5)
    np.testing.assert_allclose(learned.own_heads(tasks), tasks.weights, atol=1e-5)
    moments = np.einsum("cm,cmd,cme->de", tasks.drawn[1] ** 2, tasks.drawn[0], tasks.drawn[0])
    start = np.linalg.eigh(moments)[1][:, -2:]
    still = Figure4(**SMALL | {"rounds": 1}, noise=0.0, start="moments", taus=(1,), alphas=(1e-12,))
    assert principal_angle_distance(still.learned(line_of(1), tasks, ENGINE).body, start) < 1e-7


def test_figure_1_measures_every_line_and_both_readings_of_the_noise(tmp_path: Path):
    experiment = Figure1(**SMALL | {"rounds": 2}, samples=(3, 12))
    assert experiment.parts()[5:] == [
        *(f"noise std: {line}" for line in experiment.lines()),
        *(f"start moments: FedAvg, tau {tau}" for tau in (1, 2, 10)),
    ]
    found = {part: {1: experiment.measure(part, 1, Place(tmp_path, engine=ENGINE))} for part in experiment.parts()}
    tasks = experiment.tasks(12, seed=1)
    alone = np.median(np.square(fitted(*tasks.drawn) - tasks.weights).sum(axis=1))
    assert found[ALONE][1]["error"][1] == pytest.approx(alone)
    assert tasks.noise == pytest.approx(np.sqrt(1e-3))
    # for the same draws, an error without bias is proportional to the noise's variance
    assert found[f"noise std: {ALONE}"][1]["error"][1] == pytest.approx(alone * 1e-3)
    assert {cell.column for cell in experiment.table(found)} == {
        "m 3, noise variance, start random", "m 3, noise std", "m 3, start moments",
    }  # fmt: skip
    assert len(experiment.claims(found)) == 6
    assert experiment.figure(found).to_dict()["layer"]


def lines_of_figure_1(alone: float, fedavg: float, fedrep: float, distance: float) -> dict[str, Any]:
    def facts(error: float, seed: int, **more: float) -> dict[str, list[float]]:
        return {what: [v * (1 + 0.01 * seed)] * 4 for what, v in {"error": error, **more}.items()}

    far = {"distance": 0.95, "own_heads": 2.0, "train_loss": 1.0}
    near = {"distance": distance, "own_heads": distance**2, "train_loss": 1.1}
    found: dict[str, Any] = {
        ALONE: {s: facts(alone, s) for s in range(3)},
        FEDREP: {s: facts(fedrep, s) for s in range(3)},
    }
    for tau in (1, 2, 10):
        found[line_of(tau)] = {s: facts(fedavg, s, **(far if tau == 1 else near)) for s in range(3)}
        found[f"start moments: {line_of(tau)}"] = {s: facts(fedavg, s, **near) for s in range(3)}
    return found


def test_claims_of_figure_1():
    fitting = lines_of_figure_1(1.5, 2.0, 1e-3, 0.05)
    for facts in fitting[ALONE].values():
        facts["error"][3] = 1e-3
    for tau in (2, 10):
        for facts in fitting[line_of(tau)].values():
            facts["distance"][0], facts["train_loss"][0] = 0.9, 1.0
    claims = Figure1().claims(fitting)
    assert [claim.verdict for claim in claims] == ["reproduced"] * 6
    assert [claim.found_here for claim in claims] == [False] * 3 + [True] * 3
    against = lines_of_figure_1(1e-3, 0.01, 1.0, 0.95)
    verdicts = [claim.verdict for claim in Figure1().claims(against)]
    assert verdicts[1:4] == ["not reproduced"] * 3
    assert verdicts[0] == "partly"
    assert all(claim.verdict == "undecided" for claim in Figure1().claims({}))


def test_the_authors_steps_on_shorter_heads_are_those_over_n_on_heads_of_assumption_3():
    experiment, n = Figure3(clients=(10,), rounds=8), 10
    facts = experiment.measure("authors n 10: FedRep", 3, Place(Path()))
    assert facts["eta"] == AUTHORS["FedRep"][n] / n
    assert len(facts["distance"]) == 5
    truth = Tasks(clients=n, dim=10, rank=2, samples=5, noise=0, seed=3).truth
    shorter = Truth(truth.body, truth.heads / np.sqrt(n))
    noise = np.sqrt(1e-3) / np.sqrt(n)
    algorithm = FedRepLinear(eta=AUTHORS["FedRep"][n])
    bodies = fresh_rounds(algorithm, shorter, cohort=1, samples=5, noise=noise, seed=3)
    expected = [principal_angle_distance(body, truth.body) for body in islice(bodies, 0, 9, 2)]
    np.testing.assert_allclose(facts["distance"], expected, atol=1e-9)


def test_figure_3_measures_both_kinds_of_steps():
    experiment = Figure3(clients=(10, 30), rounds=6, seeds=2)
    assert len(experiment.parts()) == 9  # there are authors' steps for 10 clients, not for 30
    found = {part: {s: experiment.measure(part, s, Place(Path())) for s in range(2)} for part in experiment.parts()}
    assert found["theorem n 30: GD-GD"][0]["eta"] == 1 / 8
    assert len(experiment.claims(found)) == 3  # nothing is found of the authors' steps with a single n
    assert [len(panels["hconcat"]) for panels in experiment.figure(found).to_dict()["vconcat"]] == [2, 1]


def curves(factors: dict[str, list[float]], by: str) -> dict[str, Any]:
    """Distances that fall by a factor a round, for each method, with 10, 100 and 1000 clients."""
    return {
        f"{by} n {n}: {name}": {
            s: {"distance": [0.9 * (f - 1e-4 * s) ** t for t in range(0, 201, 2)]} for s in range(3)
        }
        for name, each in factors.items()
        for n, f in zip((10, 100, 1000), each, strict=True)
    }


def test_claims_of_figure_3():
    experiment = Figure3(clients=(10, 100, 1000))
    paper = {"FedRep": [0.95, 0.92, 0.9], "10GD-GD": [0.98, 0.985, 0.99], "GD-GD": [0.99, 0.993, 0.996]}
    still = {"FedRep": [0.95, 0.92, 0.9], "10GD-GD": [0.999] * 3, "GD-GD": [0.999] * 3}
    claims = experiment.claims(curves(paper, "theorem") | curves(still, "authors"))
    assert [claim.verdict for claim in claims] == ["reproduced"] * 4
    assert claims[3].found_here
    other = {"FedRep": [0.99, 0.993, 0.996], "10GD-GD": [0.98, 0.97, 0.96], "GD-GD": [0.95, 0.92, 0.9]}
    verdicts = [claim.verdict for claim in experiment.claims(curves(other, "theorem") | curves(other, "authors"))]
    assert verdicts == ["not reproduced"] * 4


def test_a_new_client_with_the_true_representation_needs_k_samples_and_alone_d():
    experiment = Figure4(**SMALL, noise=0.0, new_samples=(1, 2, 5, 6), new_clients=20)
    tasks = experiment.tasks(5, seed=0)
    shared, alone = (experiment._errors(tasks, body) for body in (tasks.truth.body, np.eye(6)))
    assert shared[0] > 0.1
    assert max(shared[1:]) < 1e-12
    assert min(alone[:3]) > 0.1
    assert alone[3] < 1e-9


def test_claims_of_figure_4(tmp_path: Path):
    experiment = Figure4(**SMALL, new_samples=(1, 2, 3, 12), new_clients=5)
    found: dict[str, Any] = {
        part: {s: experiment.measure(part, s, Place(tmp_path, engine=ENGINE)) for s in range(2)}
        for part in experiment.parts()
    }
    assert len(found[FEDREP][0]["error"]) == 4
    assert experiment.figure(found).to_dict()["layer"]

    def judged(errors: dict[str, list[float]]) -> list[str]:
        made = {
            line: {s: {"error": [e * (1 + 0.01 * s) for e in each]} for s in range(3)} for line, each in errors.items()
        }
        return [claim.verdict for claim in experiment.claims(made)]

    alone, good, bad = [2.0, 1.5, 1.2, 1e-3], [1.0, 5e-3, 1e-3, 1e-4], [2.0, 2.0, 2.0, 2.0]
    lines = [line_of(tau) for tau in (1, 2, 10)]
    as_the_paper = {ALONE: alone, FEDREP: good, **dict.fromkeys(lines, bad)}
    assert judged(as_the_paper) == ["reproduced"] * 3 + ["not reproduced"]
    assert judged(as_the_paper | dict.fromkeys(lines[1:], good)) == ["reproduced"] * 2 + ["partly", "reproduced"]
    assert judged({ALONE: good, FEDREP: bad, **dict.fromkeys(lines, good)})[0] == "not reproduced"
