"""Quantities recorded along a run: against a plain computation, known answers, and nothing changed by watching."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from manyheads import (
    MONITORS,
    SGD,
    Ditto,
    FedAvg,
    Federation,
    FedRep,
    FedRepLinear,
    Local,
    Model,
    Monitor,
    Scaffold,
    simulate,
)  # fmt: skip
from manyheads.core.errors import UserError
from manyheads.data import Classes, Digits, LinearTasks, federate
from manyheads.metrics import linear_cka, principal_angle_distance

LINEAR = LinearTasks(clients=30, dim=10, rank=2, samples=20, dtype="float64")
ALL = ("cka", "head_diversity", "drift")
MODELS = ("local_drift", "local_drift_square")


@pytest.fixture(scope="module")
def digits():
    return federate(Digits().pool(0), Classes(3), clients=6, seed=0)


def series(run, name):
    return [value for _, value in run.history.column(name)]


def test_the_angle_to_the_true_representation_closes_under_fedrep():
    federation = LINEAR.federation(0)
    run = simulate(FedRepLinear(eta=0.4), "linear", federation, rounds=60, monitor=["principal_angle"])
    angles = series(run, "principal_angle")
    assert len(angles) == 60
    assert angles[-1] < 1e-3 < angles[0]
    (weight,) = run.server.body.values()
    assert angles[-1] == pytest.approx(principal_angle_distance(weight.T.double(), LINEAR.truth(0).body))


def test_watching_changes_nothing(digits):
    plain, watched = (simulate(FedRep(), "mlp", digits, rounds=2, monitor=m) for m in ((), ALL))
    assert plain.checksum == watched.checksum
    assert "monitors" not in plain.history[0]


@pytest.mark.parametrize("algorithm", [FedAvg(), FedRep(head_epochs=1), Scaffold(), Ditto()])
def test_every_round_has_sound_values(algorithm, digits):
    run = simulate(algorithm, "mlp", digits, rounds=3, monitor=ALL)
    for record in run.history:
        found = record["monitors"]
        assert list(found) == list(ALL)
        assert 0 < found["cka"] <= 1
        assert found["drift"] > 0
    widths = series(run, "head_diversity")
    assert all(0 < v <= 1 for v in widths)


def test_drift_and_diversity_by_hand(digits):
    """One round of FedAvg: the clients' own models, by running each client alone."""
    algorithm = FedAvg(sgd=SGD(lr=0.05))
    run = simulate(algorithm, "mlp", digits, rounds=1, weighting="equal", monitor=ALL + MODELS)
    from manyheads import Evaluate

    kept = simulate(algorithm, "mlp", digits, rounds=1, weighting="equal", evaluate=Evaluate(model="local"))
    models = [kept.client_model(i, "local") for i in range(len(digits))]
    flat = torch.stack([torch.cat([v.flatten() for v in m.values()]) for m in models]).double()
    server = torch.cat([v.flatten() for v in run.server.model.values()]).double()
    drift = (flat - flat.mean(0)).square().sum(1).mean().sqrt() / server.norm()
    assert series(run, "drift") == pytest.approx([float(drift)], rel=1e-5)
    far = (flat - flat.mean(0)).norm(dim=1)
    assert series(run, "local_drift") == pytest.approx([float(far.mean())], rel=1e-5)
    assert series(run, "local_drift_square") == pytest.approx([float(far.square().mean())], rel=1e-5)
    (name,) = [k for k, v in run.model.params.head.items() if v.ndim == 2]
    heads = torch.stack([m[name] for m in models]).double()
    values = torch.linalg.svdvals((heads - heads.mean(0)).flatten(0, 1)).square().numpy()
    assert series(run, "head_diversity") == pytest.approx(
        [values.sum() ** 2 / heads.shape[2] / (values**2).sum()], rel=1e-5
    )


def test_cka_is_that_of_the_features(digits):
    """With all training samples as probes."""
    few = federate(Digits().pool(0), Classes(3), clients=6, seed=0)
    run = simulate(FedRep(), "mlp", few, rounds=1, monitor=["cka"])
    x = torch.from_numpy(np.asarray(few.train.x)).float()
    after = run.model.params.all | run.server.body
    tried = run.model.tried(x[:2], few.task, few.outputs)
    now, before = (tried.features(params, x) for params in (after, run.model.params.all))
    assert series(run, "cka")[0] == pytest.approx(linear_cka(now, before), abs=0.02)  # 256 of the samples


def test_features_are_compared_as_they_are_in_predictions_without_dropout(digits):
    layers = (torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Dropout(0.8), torch.nn.Linear(16, 10))
    model = Model(torch.nn.Sequential(*layers))
    run = simulate(FedAvg(sgd=SGD(lr=1e-9)), model, digits, rounds=2, monitor=["cka"])
    assert series(run, "cka") == pytest.approx([1, 1], abs=1e-6)


def test_what_a_method_does_not_have_is_none(digits):
    bodies = simulate(FedRep(), "mlp", digits, rounds=1, monitor=MODELS)  # no whole model travels
    assert set(bodies.history[0]["monitors"].values()) == {None}
    run = simulate(Local(), "mlp", digits, rounds=1, monitor=ALL)
    assert run.history[0]["monitors"]["cka"] is None
    assert run.history[0]["monitors"]["drift"] is None
    assert run.history[0]["monitors"]["head_diversity"] > 0
    headless = Model(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)), head=())
    found = simulate(FedAvg(), headless, digits, rounds=1, monitor=ALL).history[0]["monitors"]
    assert found["head_diversity"] is None


def test_what_cannot_be_computed_ends_no_run(digits):
    """A body of zeros: its features do not vary."""
    net = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 10))
    for p in net[0].parameters():
        torch.nn.init.constant_(p, -1.0)
    run = simulate(FedAvg(sgd=SGD(lr=1e-6)), Model(net), digits, rounds=1, monitor=["cka"])
    assert run.history[0]["monitors"] == {"cka": None}


def test_the_true_representation_must_be_known(digits):
    with pytest.raises(UserError, match="the true representation is not known.*linear-tasks"):
        simulate(FedRep(), "mlp", digits, rounds=1, monitor=["principal_angle"])
    with pytest.raises(UserError, match="unknown monitor.*did you mean .principal_angle"):
        simulate(FedRep(), "mlp", digits, rounds=1, monitor=["angle"])


def test_recorded_after_a_resume_too(tmp_path, digits):
    out = tmp_path / "run"
    simulate(FedRep(), "mlp", digits, rounds=2, monitor=ALL, out=out)
    resumed = simulate(FedRep(), "mlp", digits, rounds=4, monitor=ALL, out=out, resume=True)
    whole = simulate(FedRep(), "mlp", digits, rounds=4, monitor=ALL)
    assert [r["monitors"] for r in resumed.history] == [r["monitors"] for r in whole.history]


# -- a monitor of the user's own, and what on_round gets ---------------------------------------------------------------


class Distance(Monitor):
    """How far the server's model is from the initial one, how many uploads came, and how many clients keep a head."""

    name, title, bounds = "distance", "distance from the start", (0.0, None)

    def __init__(self, algorithm, model, federation, seed):
        super().__init__(algorithm, model, federation, seed)
        if len(federation) < 2:
            raise UserError("needs several clients", where="monitor", given=self.name)

    def __call__(self, end):
        if end.record["round"] == 2:
            return None
        assert len(end.rows.body["0.weight"]) == len(end.kept.head["2.weight"]) == len(end.uploads.clients)
        return float((end.server.body["0.weight"] - self.model.params.body["0.weight"]).norm())


class Endless(Monitor):
    name, title = "endless", "without end"

    def __call__(self, end):
        return float("inf")


@pytest.fixture
def own():
    MONITORS.register(Distance)
    MONITORS.register(Endless)


def test_a_monitor_of_ones_own(digits, own):
    net = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 10))
    run = simulate(FedRep(), Model(net), digits, rounds=3, cohort=4, monitor=["distance", "endless", "drift"])
    found = [r["monitors"] for r in run.history]
    assert [list(f) for f in found] == [["distance", "endless", "drift"]] * 3
    assert found[1]["distance"] is None
    assert all(f["endless"] is None for f in found)  # JSON knows no infinity
    assert found[0]["distance"] > 0
    moved = run.server.body["0.weight"] - Model(net).params.body["0.weight"]
    assert found[2]["distance"] == pytest.approx(float(moved.norm()))


def test_a_monitor_that_cannot_be_used_says_so_before_anything_is_written(tmp_path, digits, own):
    alone = Federation.from_clients([digits.train.client(0)], outputs=10)
    with pytest.raises(UserError, match="monitor: needs several clients; given 'distance'"):
        simulate(FedRep(), "mlp", alone, rounds=1, monitor=["distance"], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(UserError, match="write its method __call__"):
        MONITORS.register(type("Idle", (Monitor,), {"name": "idle", "title": "x"}))
    with pytest.raises(UserError, match="is no Monitor"):
        MONITORS.register(type("Loose", (), {"name": "loose", "title": "x"}))


def test_on_round_gets_record_and_states(digits):
    seen = []

    def watch(end):
        heads = end.personal([0, 1])
        seen.append((end.record, end.server, end.uploads, heads.map(torch.clone), end.rows))

    run = simulate(FedRep(), "mlp", digits, rounds=2, cohort=3, on_round=watch)
    assert [record["round"] for record, *_ in seen] == [1, 2]
    record, server, uploads, heads, rows = seen[-1]
    assert record["evaluation"]["accuracy"] == run.accuracy
    assert server is run.server
    assert list(uploads.clients) == record["cohort"]
    torch.testing.assert_close(dict(uploads.mean().body), dict(server.body), rtol=0, atol=0)
    assert not rows.flat  # nothing reads each upload, so only the mean was kept
    for client in (0, 1):
        own = run.client_model(client)
        assert all(torch.equal(leaf[client], own[name]) for name, leaf in heads.head.items())
