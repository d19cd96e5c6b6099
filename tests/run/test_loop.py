"""The round loop: sampling, weights, checked uploads, divergence, accounting, evaluation protocols."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from problems import ragged, small_net
from torch import nn

from manyheads import (
    DSGD,
    SGD,
    Evaluate,
    FedAvg,
    FedRep,
    Local,
    Model,
    State,
    Update,
    UserError,
    load,
    personalize,
    settings,
    simulate,
)
from manyheads.core.checkpoint import rounds_on_disk
from manyheads.core.contract import Algorithm
from manyheads.data.sites.source import Sites
from manyheads.run.loop import sample_cohort
from manyheads.run.training import Training


@settings
class Saboteur(Algorithm):
    """FedAvg of which some clients send rubbish from some round on."""

    name: ClassVar[str] = "saboteur"
    models: ClassVar[tuple[str, ...]] = ("global",)
    kind: str = "nan"
    bad_clients: tuple[int, ...] = (2, 5)
    since: int = 1

    def init_server(self, params, population):
        return State(model=params.all)

    def local(self, cohort, server, client):
        model = cohort.sgd(server.model, opt=SGD(), batch=10, epochs=1)
        bad = torch.tensor([c in self.bad_clients for c in cohort.addresses]) & (cohort.round.index >= self.since)
        if not bad.any():
            return Update(State(model=model))
        if self.kind == "nan":
            model = model.map(lambda v: torch.where(bad.reshape(-1, *[1] * (v.ndim - 1)), torch.nan, v))
        elif self.kind == "shape":
            model = model.map(lambda v: v.unsqueeze(-1))
        elif self.kind == "dtype":
            model = model.map(torch.Tensor.double)
        elif self.kind == "names":
            return Update(State(other=model))
        return Update(State(model=model))

    def global_model(self, server):
        return server.model


def test_cohorts_are_uniform_and_never_repeat_a_client():
    training = Training(cohort=3, rounds=1)
    counts = np.zeros(10)
    for round in range(2000):
        cohort = sample_cohort(training, 10, round)
        assert len(set(cohort)) == 3
        assert cohort == sorted(cohort)
        counts[cohort] += 1
    # each count is binomial(2000, 0.3): standard deviation 20.5
    assert np.abs(counts - 600).max() < 5 * 20.5


@pytest.mark.parametrize(("training", "size"), [
    (Training(participation=0.5), 5), (Training(participation=0.25), 3), (Training(participation=1e-6), 1),
    (Training(participation=1.0), 10), (Training(cohort=4, participation=0.1), 4),
])  # fmt: skip
def test_size_of_the_cohort(training, size):
    assert len(sample_cohort(training, 10, 1)) == size


def test_weighting_by_samples_or_equal():
    """One full-batch step from a shared point: the merged model is the weighted mean of the clients' models."""
    federation, net = ragged(sizes=(4, 40)), small_net()
    algorithm = FedAvg(steps=1, batch=0, sgd=SGD(lr=0.5, momentum=0.0))
    alone = [
        simulate(
            algorithm,
            net,
            replace(federation, train=federation.train.select([i]), test=federation.test.select([i])),
            rounds=1,
        )
        for i in (0, 1)
    ]
    sizes = federation.train.sizes
    for weighting, share in (("samples", sizes[0] / sizes.sum()), ("equal", 0.5)):
        merged = simulate(algorithm, net, federation, rounds=1, weighting=weighting).server.model
        for name, value in merged.items():
            wanted = share * alone[0].server.model[name] + (1 - share) * alone[1].server.model[name]
            torch.testing.assert_close(value, wanted, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("mode", ["loop", "stacked"])
def test_a_bad_upload_is_dropped_and_recorded_and_the_rest_is_merged(mode):
    from manyheads import Engine

    federation = ragged()
    run = simulate(Saboteur(), small_net(), federation, rounds=2, engine=Engine(mode=mode))
    assert [[d["client"] for d in r["dropped"]] for r in run.history] == [[2, 5], [2, 5]]
    assert "not finite" in run.history[0]["dropped"][0]["why"]
    good = [i for i in range(len(federation)) if i not in (2, 5)]
    honest = FedAvg(epochs=1, batch=10)
    first = simulate(Saboteur(since=9), small_net(), federation, rounds=1)
    assert first.history[0]["dropped"] == []
    # the merge of the good ones alone, computed from their own models
    own = simulate(honest, small_net(), federation, rounds=1, evaluate=Evaluate(model="local"))
    weights = federation.train.sizes[good] / federation.train.sizes[good].sum()
    merged = simulate(Saboteur(), small_net(), federation, rounds=1).server.model
    for name, value in merged.items():
        wanted = sum(w * own.client_model(i)[name] for i, w in zip(good, weights, strict=True))
        torch.testing.assert_close(value, wanted, atol=1e-6, rtol=1e-5)


@settings
class Median(Algorithm):
    """A merge that needs every upload for itself."""

    name: ClassVar[str] = "median"
    models: ClassVar[tuple[str, ...]] = ("global",)

    def init_server(self, params, population):
        return State(model=params.all)

    def local(self, cohort, server, client):
        return Update(State(model=cohort.sgd(server.model, opt=SGD(), batch=10, epochs=1)))

    def merge(self, server, uploads, round):
        assert len(uploads.clients) == len(uploads.weights) == 10
        return uploads.values.map(lambda v: v.median(dim=0).values)

    def global_model(self, server):
        return server.model


@settings
class AnnouncedMedian(Median):
    reads_each: ClassVar[bool] = True


def test_uploads_reach_the_merge_one_by_one_only_if_it_says_so():
    with pytest.raises(UserError, match=r"averaged before they reached the server.*reads_each = True"):
        simulate(Median(), small_net(), ragged(), rounds=1)
    own = simulate(FedAvg(epochs=1, batch=10), small_net(), ragged(), rounds=1, evaluate=Evaluate(model="local"))
    merged = simulate(AnnouncedMedian(), small_net(), ragged(), rounds=1).server.model
    for name, value in merged.items():
        wanted = torch.stack([own.client_model(i)[name] for i in range(10)]).median(dim=0).values
        torch.testing.assert_close(value, wanted, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "word"),
    [("nan", "not finite"), ("shape", "wrong shape"), ("dtype", "wrong type"), ("names", "wrong names")],
)
def test_when_all_uploads_are_bad_the_run_stops_and_keeps_the_last_good_state(tmp_path, kind, word):
    everyone = list(range(10))
    saboteur = Saboteur(kind=kind, bad_clients=everyone, since=3)
    with pytest.raises(UserError, match=f"round 3: none of the 10 uploads can be used.*{word}.*after round 2 is kept"):
        simulate(saboteur, small_net(), ragged(), rounds=5, out=tmp_path / "run")
    assert rounds_on_disk(tmp_path / "run" / "checkpoint") == [2]


def test_divergence_names_the_round_and_the_step_size():
    from manyheads.data import LinearTasks

    federation = LinearTasks(clients=5, samples=20).federation(seed=0)
    with pytest.raises(UserError, match=r"round \d+: .*not finite.*sgd\.lr = 50"):
        simulate(FedAvg(epochs=20, sgd=SGD(lr=50.0)), "linear", federation, rounds=20)


def test_a_pooled_chunk_that_is_not_finite_is_taken_apart():
    """D-SGD's gradient of all clients at once: the one with huge inputs is found and dropped."""
    federation = ragged()
    x = federation.train.x.copy()
    x[federation.train.offsets[3] : federation.train.offsets[4]] = 3e38
    net = torch.nn.Linear(6, 3)
    torch.nn.init.ones_(net.weight)
    run = simulate(DSGD(batch=0), net, replace(federation, train=replace(federation.train, x=x)), rounds=1)
    assert [d["client"] for d in run.history[0]["dropped"]] == [3]


def test_bytes_are_those_that_travel():
    federation, net = ragged(), small_net()
    whole = sum(p.numel() * 4 for p in net.parameters())
    head = sum(p.numel() * 4 for p in net[4].parameters())
    for algorithm, each in ((FedAvg(), whole), (FedRep(head_epochs=1), whole - head), (Local(), 0)):
        record = simulate(algorithm, net, federation, rounds=1, participation=0.5).history[0]
        assert record["bytes_up"] == record["bytes_down"] == each * record["clients"]


def test_protocols_evaluate_what_they_say():
    """FedRep: personal = averaged body + own head; local = the client's own body and head after its last update."""
    federation = ragged()
    personal = simulate(FedRep(head_epochs=2), small_net(), federation, rounds=2)
    local = simulate(FedRep(head_epochs=2), small_net(), federation, rounds=2, evaluate=Evaluate(model="local"))
    for client in range(len(federation)):
        a, b = personal.client_model(client), local.client_model(client)
        assert torch.equal(a["4.weight"], b["4.weight"])
        assert not torch.equal(a["0.weight"], b["0.weight"])
    assert torch.equal(personal.server.body["0.weight"], personal.client_model(0)["0.weight"])
    assert "personal model" in personal.protocol
    assert "local model" in local.protocol


def test_a_client_never_sampled_keeps_the_initial_head():
    federation, net = ragged(), small_net()
    run = simulate(FedRep(head_epochs=2), net, federation, rounds=1, cohort=2)
    sampled = run.history[0]["cohort"]
    others = [i for i in range(len(federation)) if i not in sampled]
    assert all(torch.equal(run.client_model(i)["4.weight"], net[4].weight) for i in others)
    assert not any(torch.equal(run.client_model(i)["4.weight"], net[4].weight) for i in sampled)


def test_accuracy_is_the_mean_over_clients_of_their_own_accuracy():
    federation = ragged()
    run = simulate(FedRep(head_epochs=2), small_net(), federation, rounds=2)
    by_hand, weights = [], []
    for client in range(len(federation)):
        net, (x, y) = small_net(), federation.test.client(client)
        net.load_state_dict(dict(run.client_model(client)))
        by_hand.append((net(torch.from_numpy(x)).argmax(1).numpy() == y).mean())
        weights.append(len(y))
    assert run.accuracy == pytest.approx(np.mean(by_hand))
    assert run.history[-1]["evaluation"]["per_client"]["accuracy"] == pytest.approx(by_hand, abs=1e-6)
    by_sample = simulate(FedRep(head_epochs=2), small_net(), federation, rounds=2, evaluate=Evaluate(weight="sample"))
    assert by_sample.accuracy == pytest.approx(np.average(by_hand, weights=weights))


def test_clients_without_test_samples_do_not_count():
    from manyheads import Federation

    rng = np.random.default_rng(0)
    clients = [(rng.normal(size=(n, 6)).astype(np.float32), rng.integers(0, 3, n)) for n in (1, 20, 20)]
    federation = Federation.from_clients(clients, outputs=3)
    assert federation.test.sizes[0] == 0
    evaluation = simulate(FedAvg(), small_net(), federation, rounds=1).history[0]["evaluation"]
    assert evaluation["clients"] == 2
    assert evaluation["per_client"]["client"] == [1, 2]


def test_evaluation_rounds_and_report():
    run = simulate(FedAvg(), small_net(), ragged(), rounds=7, evaluate=Evaluate(every=3))
    assert [r for r, _ in run.history.column("accuracy")] == [3, 6, 7]
    mean = simulate(FedAvg(), small_net(), ragged(), rounds=15, evaluate=Evaluate(every=100, report="mean_last_10"))
    values = mean.history.column("accuracy")
    assert [r for r, _ in values] == list(range(6, 16))
    assert mean.accuracy == pytest.approx(np.mean([v for _, v in values]))
    assert "mean of the last 10 rounds" in mean.protocol


def test_evaluating_the_sampled_clients_only():
    run = simulate(FedAvg(), small_net(), ragged(), rounds=1, cohort=4, evaluate=Evaluate(who="sampled"))
    assert run.history[0]["evaluation"]["per_client"]["client"] == run.history[0]["cohort"]


@pytest.mark.parametrize(
    ("algorithm", "model"), [(FedAvg(), "personal"), (FedRep(), "global"), (DSGD(), "local"), (Local(), "global")]
)
def test_a_model_the_method_does_not_have_is_refused(algorithm, model, tmp_path):
    with pytest.raises(UserError, match=f"{algorithm.name} has no such model; given '{model}'"):
        simulate(algorithm, small_net(), ragged(), rounds=1, evaluate=Evaluate(model=model), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_save_and_load(tmp_path):
    run = simulate(FedRep(head_epochs=2), "mlp", ragged(), rounds=3, participation=0.5)
    again = load(run.save(tmp_path / "kept"))
    assert again.checksum == run.checksum
    assert list(again.history) == list(run.history)
    assert again.accuracy == run.accuracy
    assert torch.equal(again.client_model(3)["0.weight"], run.client_model(3)["0.weight"])
    own = simulate(FedAvg(), small_net(), ragged(), rounds=1)
    own.save(tmp_path / "own")
    with pytest.raises(UserError, match="a model of your own"):
        load(tmp_path / "own")
    assert load(tmp_path / "own", model=small_net()).checksum == own.checksum


def test_regression_reports_the_loss():
    from manyheads.data import LinearTasks

    federation = LinearTasks(clients=6, samples=30, noise=0.1).federation(seed=1)
    run = simulate(FedRep(head_epochs=5, sgd=SGD(lr=0.1)), "linear", federation, rounds=10)
    assert run.accuracy is None
    values = [v for _, v in run.history.column("loss")]
    assert values[-1] < values[0]


def test_a_loss_of_1_is_that_of_always_predicting_the_mean(tmp_path):
    """Training minimises half the square; what is told as the loss of a regression is the squared error, everywhere."""
    rng = np.random.default_rng(0)
    for site, shift in (("a", 0), ("b", 50)):
        rows = [f"{x:.3f},{100 + shift + 30 * e:.3f}" for x, e in rng.normal(size=(40, 2))]
        (tmp_path / f"{site}.csv").write_text("\n".join(["x,label", *rows]))
    federation = Sites(path=str(tmp_path)).federation(seed=0)
    federation = replace(federation, test=federation.train)
    nothing = nn.Sequential(nn.Linear(1, 1))
    nn.init.zeros_(nothing[0].weight)
    nn.init.zeros_(nothing[0].bias)
    still = FedAvg(sgd=SGD(lr=1e-12), batch=0)
    run = simulate(still, Model(nothing, head="0"), federation, rounds=1, evaluate=Evaluate(weight="sample"))
    assert run.loss == pytest.approx(1, abs=1e-5)
    assert run.predictions(federation).losses.mean() == pytest.approx(1, abs=1e-5)
    per_client = run.history[-1]["evaluation"]["per_client"]["loss"]
    assert run.history[-1]["train_loss"] == pytest.approx(np.mean(per_client), abs=1e-5)
    assert run.protocol == run.history[-1]["evaluation"]["protocol"]
    assert run.protocol.endswith("; loss: squared error over the variance of the target")
    mine = personalize(run, tmp_path / "a.csv", lr=1e-12)
    target = federation.columns.target
    assert mine.facts["before"]["loss"] == pytest.approx((mine.facts["before"]["rmse"] / target[1]) ** 2)
    assert mine.facts["after"]["loss"] == pytest.approx((mine.facts["after"]["rmse"] / target[1]) ** 2)
    assert "squared error over the variance" in mine.facts["protocol"]
    plain = Sites(path=str(tmp_path), scale_target=False).federation(seed=0)
    assert plain.encoding.loss == "squared error"
