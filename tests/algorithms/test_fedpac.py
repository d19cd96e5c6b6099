"""FedPAC: what it is without its two ideas, what each of them is worth where it is made for it, and what it tells."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from problems import agreeing, few_classes, ragged, small_net
from torch import nn

import manyheads as mh
from manyheads import SGD, Evaluate, Federation, Model, simulate
from manyheads.algorithms.fedpac import statistics, weights
from manyheads.core.contract import Round
from manyheads.core.features import ClassFeatures
from manyheads.core.randomness import Purpose, torch_seeded
from manyheads.data import LinearTasks
from manyheads.models import LinearRepresentation

WORK = {"head_epochs": 2, "body_epochs": 3, "batch": 5, "sgd": SGD(lr=0.05)}


def same(first, second, **tolerance):
    assert first.keys() == second.keys()
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], **(tolerance or {"atol": 0, "rtol": 0}))


@pytest.mark.parametrize("how", [{"heads": "own", "participation": 0.5}, {"heads": "combined", "cohort": 1}])
def test_without_alignment_and_combination_it_is_fedrep(how):
    heads = how.pop("heads")
    federation = ragged()
    pac = simulate(mh.FedPAC(**WORK, lam=0.0, heads=heads), small_net(), federation, rounds=6, **how)
    rep = simulate(mh.FedRep(**WORK), small_net(), federation, rounds=6, weighting="samples", **how)
    same(pac.server.body, rep.server.body)
    for client in range(len(federation)):
        same(pac.client_model(client), rep.client_model(client))
    assert pac.accuracy == rep.accuracy


def test_there_is_no_pull_before_the_first_centroids():
    free, pulled = (simulate(mh.FedPAC(**WORK, lam=lam), small_net(), ragged(), rounds=1) for lam in (0.0, 5.0))
    same(free.server.body, pulled.server.body)
    same({"centroids": free.server.centroids}, {"centroids": pulled.server.centroids})


def test_statistics_are_those_of_a_plain_computation():
    """H is the mean of z times the indicator of its class, and v its variance as a mean of n samples."""
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(11, 4)) + 3, np.array([0, 0, 2, 2, 2, 2, 0, 2, 2, 0, 2])
    placed = np.zeros((11, 3, 4))
    placed[np.arange(11), y] = z
    counts = np.bincount(y, minlength=3)
    means = np.array([z[y == k].mean(axis=0) if (y == k).any() else np.zeros(4) for k in range(3)])
    squares = np.array([(z[y == k] ** 2).sum(axis=1).mean() if (y == k).any() else 0 for k in range(3)])
    mixed, variance = statistics(ClassFeatures(*(torch.from_numpy(v)[None] for v in (counts, means, squares))))
    np.testing.assert_allclose(mixed[0], placed.mean(axis=0))
    np.testing.assert_allclose(variance[0], placed.var(axis=0).sum() / 11)


def uploads_of(method, federation, net=None):
    """What all clients send in the first round, and the server's state before it."""
    from manyheads.engines.client_data import ClientData
    from manyheads.engines.cohort import LocalCohort

    model = Model(net or small_net())
    data = ClientData.of(federation.train, federation.task, next(iter(model.params.all.values())))
    count = len(data.sizes)
    round, everyone = Round(1, 0, count, count), list(range(count))
    cohort = LocalCohort(model.tried(data.x[:2], federation.task, federation.outputs), data, everyone, round)
    server = method.init_server(model.params, count)
    down = method.download(server, round) | method.download_each(server, everyone, round)
    kept = method.init_client(model.params).map(lambda v: torch.stack([v] * count))
    return server, method.local(cohort, down, kept).upload


def test_a_class_with_too_few_samples_is_told_of_nowhere():
    method, federation = mh.FedPAC(**WORK, fewest=5), ragged()
    _, sent = uploads_of(method, federation)
    for client in range(len(federation)):
        counts = np.bincount(federation.train.client(client)[1], minlength=3)
        few = torch.from_numpy(counts < 5)
        assert sent.counts[client].tolist() == np.where(counts < 5, 0, counts).tolist()
        assert not sent.centroids[client][few].any()
        assert not sent.mixed[client][few].any()
        if counts.max() < 5:
            assert sent.variance[client] == 0
    assert (sent.counts.sum(dim=1) == 0).any()


def test_who_tells_nothing_keeps_its_head_and_has_no_part_in_others():
    server, sent = uploads_of(mh.FedPAC(**WORK, fewest=5), ragged())
    a = weights(sent)
    silent = sent.counts.sum(dim=1) == 0
    np.testing.assert_allclose(a.sum(dim=1), 1)
    assert torch.equal(a[silent], torch.eye(len(a), dtype=a.dtype)[silent])
    assert not a[~silent][:, silent].any()
    merged = mh.FedPAC(**WORK, fewest=5).merge(
        server, mh.Uploads(list(range(len(a))), torch.ones(len(a)), mh.Each(sent)), Round(1, 0, len(a), len(a))
    )
    for name, value in merged.heads.items():
        torch.testing.assert_close(value[silent], sent.head[name][silent])


def test_if_nobody_may_tell_anything_all_keep_their_heads():
    free, silent = (
        simulate(mh.FedPAC(**WORK, fewest=n, lam=lam), small_net(), ragged(), rounds=3)
        for n, lam in ((1, 0.0), (99, 1.0))
    )
    rep = simulate(mh.FedRep(**WORK), small_net(), ragged(), rounds=3, weighting="samples")
    assert not silent.server.known.any()
    same(silent.server.body, rep.server.body, atol=1e-7, rtol=1e-6)
    assert any(not torch.equal(v, rep.server.body[k]) for k, v in free.server.body.items())


def test_a_class_that_nobody_has_in_a_round_keeps_its_centroid():
    method = mh.FedPAC(**WORK)
    server, sent = uploads_of(method, ragged())
    server = server | mh.State(known=torch.tensor([0.0, 0.0, 1.0]), centroids=torch.full((3, 5), 7.0))
    counts = sent.counts.clone()
    counts[:, 1:] = 0
    uploads = mh.Uploads(list(range(len(counts))), torch.ones(len(counts)), mh.Each(sent | mh.State(counts=counts)))
    merged = method.merge(server, uploads, Round(1, 0, len(counts), len(counts)))
    assert merged.known.tolist() == [1, 0, 1]
    assert (merged.centroids[1:] == 7).all()
    whole = (counts[:, :1] * sent.centroids[:, 0]).sum(dim=0) / counts[:, 0].sum()
    torch.testing.assert_close(merged.centroids[0], whole)


def test_heads_of_ones_own_stay():
    _, sent = uploads_of(mh.FedPAC(**WORK, heads="own"), ragged())
    assert set(sent) == {"body", "centroids", "counts"}
    _, sent = uploads_of(mh.FedPAC(**WORK), ragged())
    assert set(sent) == {"body", "centroids", "counts", "head", "mixed", "variance"}


def test_a_newcomer_starts_from_the_mean_of_the_heads():
    run = simulate(mh.FedPAC(**WORK), small_net(), ragged(), rounds=2)
    start = run.algorithm.newcomer(run.model.params, run.server).head
    same(start, run.server.heads.map(lambda v: v.mean(dim=0)))


def test_what_it_cannot_do_is_said_in_one_line():
    with pytest.raises(mh.UserError, match="this model is all head"):
        simulate(mh.FedPAC(), nn.Linear(6, 3), ragged(), rounds=1)
    tied = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3), nn.ReLU())
    with pytest.raises(mh.UserError, match="and this model has none"):
        simulate(mh.FedPAC(), Model(tied, head="1"), ragged(), rounds=1)
    deep = nn.Sequential(nn.Linear(6, 5), nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3)))
    with pytest.raises(mh.UserError, match="must be a linear layer"):
        simulate(mh.FedPAC(), Model(deep, head="1"), ragged(), rounds=1)
    tasks = LinearTasks(clients=4, dim=6, rank=2, samples=15).federation(seed=0)
    with pytest.raises(mh.UserError, match="features of classes, and regression has none"):
        simulate(mh.FedPAC(), LinearRepresentation(rank=2), tasks, rounds=1)


# -- problems that are made for it -------------------------------------------------------------------------------------


def wide_net(federation: Federation, seed: int) -> nn.Sequential:
    with torch_seeded(seed, Purpose.MODEL):
        return nn.Sequential(nn.Linear(30, 8), nn.ReLU(), nn.Linear(8, federation.outputs))


def runs_of(method, problem, rounds=30):
    for seed in range(3):
        federation = problem(seed)
        once = Evaluate(every=rounds)
        yield simulate(method, wide_net(federation, seed), federation, rounds=rounds, seed=seed, evaluate=once)


def accuracies(method, problem):
    return np.array([run.accuracy for run in runs_of(method, problem)])


SHORT = {"body_epochs": 2, "batch": 4, "sgd": SGD(lr=0.05)}
PASSES = {"epochs": 3, "batch": 4, "sgd": SGD(lr=0.05)}


def test_combined_heads_help_where_groups_agree_and_each_client_has_few_samples():
    combined = accuracies(mh.FedPAC(**SHORT, lam=0.0), agreeing)
    own = accuracies(mh.FedPAC(**SHORT, lam=0.0, heads="own"), agreeing)
    assert (combined > own + 0.05).all()
    assert combined.mean() > own.mean() + 0.08
    assert combined.mean() > accuracies(mh.Local(**PASSES), agreeing).mean() + 0.15
    assert combined.mean() > accuracies(mh.FedAvg(**PASSES), agreeing).mean() + 0.4


def test_the_weights_find_the_groups():
    method = mh.FedPAC(**SHORT, lam=0.0)
    for run, seed in zip(runs_of(method, agreeing), range(3), strict=True):
        federation = agreeing(seed)
        net = wide_net(federation, seed)
        net.load_state_dict(dict(run.client_model(0)))
        a = weights(uploads_of(method, federation, net)[1]).numpy()
        within = a.reshape(10, 2, 10, 2).transpose(1, 3, 0, 2)  # odd clients are one group, even ones the other
        inside, across = (within[0, 0] + within[1, 1]).sum() / 20, (within[0, 1] + within[1, 0]).sum() / 20
        assert inside > 0.9
        assert inside + across == pytest.approx(1)


def test_alignment_helps_where_clients_have_few_classes_and_few_samples():
    free, aligned = (accuracies(mh.FedPAC(**SHORT, lam=lam, heads="own"), few_classes) for lam in (0.0, 1.0))
    assert (aligned > free).all()
    assert aligned.mean() > free.mean() + 0.01
