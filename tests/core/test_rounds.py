"""The round as two functions, called as a real federation would: one client at a time, and whatever it may send."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
import torch

import manyheads as mh
from manyheads import State, Tree, client_round, server_round
from manyheads.core.contract import Round
from manyheads.core.errors import Diverged
from manyheads.core.replies import Accepted, Gathering, Reply, accepted, gathered
from manyheads.core.rounds import NoUploads
from manyheads.core.uploads import Mean
from manyheads.data import Classes, Digits, federate
from manyheads.engines.client_data import ClientData
from manyheads.engines.cohort import LocalCohort

CLIENTS, ROUNDS = 4, 3


def federation():
    return federate(Digits().pool(seed=0), Classes(3), clients=CLIENTS, seed=0)


@pytest.mark.parametrize(
    "algorithm",
    [
        mh.FedAvg(),
        mh.FedRep(head_epochs=2),
        mh.Scaffold(),
        mh.FedMTL(),
        mh.L2GD(),
        mh.PerFedAvg(),
        mh.Ditto(),
        mh.DSGD(),
        mh.LGFedAvg(),
        mh.APFL(),
    ],
    ids=lambda a: a.name,
)
def test_sites_that_each_hold_their_own_data_give_what_the_simulator_gives(algorithm):
    """Each site has a federation of one, its own: which client it is, it knows by its address alone."""
    clients = federation()
    run = mh.simulate(algorithm, "mlp", clients, rounds=ROUNDS)
    net = run.model
    like = next(iter(net.params.all.values()))
    data = [ClientData.of(clients.train.select([i]), clients.task, like) for i in range(CLIENTS)]
    server = algorithm.init_server(net.params, CLIENTS)
    kept = [algorithm.init_client(net.params).map(lambda v: v[None]) for _ in range(CLIENTS)]
    for index in range(1, ROUNDS + 1):
        round = Round(index, 0, CLIENTS, CLIENTS)
        replies = []
        for i in range(CLIENTS):
            own = algorithm.download_each(server, [i], round)
            cohort = LocalCohort(net.untried(), data[i], [i], round)
            done = client_round(algorithm, cohort, algorithm.download(server, round) | own, kept[i])
            kept[i] = done.kept
            replies.append(done.reply)
        after = server_round(algorithm, server, replies, round)
        assert after.dropped == {}
        server = after.server
    expected = mh.simulate(algorithm, "mlp", clients, rounds=ROUNDS).server
    assert server.flat.keys() == expected.flat.keys()
    for name, value in expected.flat.items():
        assert torch.allclose(server.flat[name], value, atol=2e-5, rtol=1e-4), name


class Sent:
    """Replies of three clients to FedAvg with a model of two numbers."""

    algorithm = mh.FedAvg()
    server = State(model=Tree({"w": torch.zeros(2)}))
    round = Round(1, 0, 10, 3)

    def reply(self, client: int, values=(1.0, 2.0), weight: float = 1.0, **entries: torch.Tensor) -> Reply:
        upload = State(model=Tree({"w": torch.tensor([values])})) if not entries else State(**entries)
        return Reply([client], np.array([weight]), upload, {})

    def merged(self, *replies: Reply):
        return server_round(self.algorithm, self.server, replies, self.round)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ({"values": (float("nan"), 0.0)}, "not finite"),
        ({"values": (float("inf"), 0.0)}, "not finite"),
        ({"values": (1.0, 2.0, 3.0)}, "wrong shape of model/w"),
        ({"weight": 0.0}, "weight 0.0 is not a positive number"),
        ({"weight": float("nan")}, "weight nan is not a positive number"),
        ({"weight": -3.0}, "not a positive number"),
        ({"body": torch.zeros(1, 2)}, "wrong names in upload: it lacks 'model', has 'body'"),
        ({"model": Tree({"w": torch.zeros(1, 2, dtype=torch.float64)})}, "wrong type of model/w"),
    ],
)
def test_what_cannot_be_used_is_dropped_with_the_reason_and_the_rest_is_merged(sent, why):
    case = Sent()
    after = case.merged(case.reply(7), case.reply(3, **sent), case.reply(5, (3.0, 6.0), weight=3.0))
    assert list(after.dropped) == [3]
    assert why in after.dropped[3]
    assert after.server.model["w"].tolist() == [2.5, 5.0]


def test_a_client_that_says_itself_that_it_failed_is_dropped():
    case = Sent()
    failed = Reply([3], np.ones(1), State(model=Tree({"w": torch.ones(1, 2)})), {3: "out of memory"})
    after = case.merged(case.reply(7), failed)
    assert after.dropped == {3: "out of memory"}
    assert after.server.model["w"].tolist() == [1.0, 2.0]


def test_a_state_that_would_stay_at_the_client_must_be_finite_too():
    """A method whose client keeps something that is not finite, while what it sends is."""

    class Broken(mh.FedAvg):
        def local(self, cohort, server, client):
            update = super().local(cohort, server, client)
            return update._replace(client=State(own=torch.full((len(cohort.addresses), 1), float("nan"))))

    clients = federation()
    net = mh.simulate(mh.FedAvg(), "mlp", clients, rounds=1).model
    like = next(iter(net.params.all.values()))
    data = ClientData.of(clients.train.select([0, 1]), clients.task, like)
    round = Round(1, 0, CLIENTS, 2)
    server = Broken().init_server(net.params, CLIENTS)
    done = client_round(Broken(), LocalCohort(net.untried(), data, [2, 3], round), server, State())
    assert done.reply.failed == {2: "values are not finite", 3: "values are not finite"}
    with pytest.raises(NoUploads, match="round 1: none of the 2 uploads can be used"):
        server_round(Broken(), server, [done.reply], round)


def test_nobody_left_is_an_error_that_names_the_first_reason():
    case = Sent()
    with pytest.raises(NoUploads, match=r"none of the 3 uploads can be used \(values are not finite\)") as caught:
        case.merged(case.reply(1, (float("nan"), 1.0)), case.reply(2, (float("nan"), 1.0)))
    assert isinstance(caught.value.explained(case.algorithm, "nothing was trained yet"), Diverged)
    with pytest.raises(NoUploads, match="no client replied"):
        case.merged()


def test_averaging_where_clients_were_trained_changes_nothing():
    case = Sent()
    rows = State(model=Tree({"w": torch.tensor([[1.0, 2.0], [3.0, 5.0]])}))
    two = Reply([4, 2], np.array([1.0, 3.0]), rows, {})
    other = case.reply(9, (8.0, 8.0), weight=4.0)
    expected = case.algorithm.expects(case.server, case.round)
    early = [accepted(two, expected).averaged(), accepted(other, expected).averaged()]
    late = case.merged(two, other).server
    assert torch.equal(case.merged(*early).server.model["w"], late.model["w"])
    assert late.model["w"].tolist() == [(1 + 9 + 32) / 8, (2 + 15 + 32) / 8]


def means(count: int) -> list[Accepted]:
    """Averaged replies of two clients each."""
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.normal(size=(count, 1000)).astype(np.float32))
    weights = rng.integers(1, 50, (count, 2)).astype(float)
    return [
        Accepted([2 * i, 2 * i + 1], weights[i], Mean(State(model=Tree({"w": values[i].clone()}))), {})
        for i in range(count)
    ]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_means_that_are_added_up_as_they_come_are_those_of_all_together(count):
    whole = gathered(means(count), each=False)
    gathering = Gathering(sum(part.weights.sum() for part in means(count)))
    for part in means(count):
        gathering.add(part)
    (one,) = gathering.parts()
    found = gathered([one], each=False)
    assert torch.equal(found.mean().model["w"], whole.mean().model["w"])
    assert found.clients == whole.clients
    assert torch.equal(found.weights, whole.weights)


def test_only_the_sum_of_the_means_is_held():
    parts, gathering = means(5), Gathering(1000.0)
    watched = [weakref.ref(part.uploads.value.model["w"]) for part in parts]
    for part in parts:
        gathering.add(part)
    del part, parts
    assert all(leaf() is None for leaf in watched)


@pytest.mark.parametrize("left", [[0, 2, 3], [1], []])
def test_shares_are_those_of_the_clients_that_are_left(left):
    """Whoever is dropped, the mean is that of the others; if only one part is left, to the last bit."""
    gathering = Gathering(sum(part.weights.sum() for part in means(4)))
    for number, part in enumerate(means(4)):
        lost = Accepted([], np.zeros(0), None, dict.fromkeys(part.clients, "lost"))
        gathering.add(part if number in left else lost)
    parts = gathering.parts()
    assert {c for part in parts for c in part.dropped} == {
        c for i in range(4) if i not in left for c in (2 * i, 2 * i + 1)
    }
    found, wanted = (gathered(each, each=False) for each in (parts, [means(4)[i] for i in left]))
    if not left:
        assert found is wanted is None
        return
    error = 0 if len(left) == 1 else 1e-6
    torch.testing.assert_close(found.mean().model["w"], wanted.mean().model["w"], atol=error, rtol=error)


def test_a_method_that_reads_uploads_one_by_one_gets_them_in_client_order():
    algorithm = mh.FedMTL(relations="mean")
    server = State(models=Tree({"w": torch.zeros(3, 1)}), omega=torch.eye(3))
    replies = [Reply([c], np.ones(1), State(model=Tree({"w": torch.tensor([[float(c)]])})), {}) for c in (2, 0, 1)]
    after = server_round(algorithm, server, replies, Round(1, 0, 3, 3))
    assert after.server.models["w"].flatten().tolist() == [0.0, 1.0, 2.0]


def test_a_merged_model_that_is_not_finite_is_divergence():
    class Explodes(mh.FedAvg):
        def merge(self, server, uploads, round):
            return uploads.mean().map(lambda v: v / 0)

    case = Sent()
    with pytest.raises(Diverged, match=r"round 1: the merged model is not finite.*sgd.lr = 0.01"):
        server_round(Explodes(), case.server, [case.reply(1)], case.round)
