"""What every registered method must pass by being registered."""

from __future__ import annotations

import dataclasses
import json
import tomllib

import numpy as np
import pytest
import tomli_w
import torch
from problems import grouped, net_for, normed_first, ragged, shifted
from quadratic import DIM, Quadratic, model, problem

import manyheads as mh
from manyheads import SGD, Engine, Evaluate, FineTune, Model, State, simulate
from manyheads.core.contract import ALGORITHMS, Round
from manyheads.core.settings import as_dict, build
from manyheads.data import LinearTasks, Samples
from manyheads.engines.client_data import ClientData
from manyheads.engines.cohort import LocalCohort
from manyheads.metrics import Loss
from manyheads.models import LinearRepresentation, build_model

NAMES = sorted(ALGORITHMS)
TAU, LR = 5, 0.2
PLAIN = SGD(lr=LR, momentum=0.0)
FULL = {"batch": 0, "steps": TAU, "sgd": PLAIN}
ROUNDS = {"apfl": 600, "dsgd": 400}
"""until a method has come to the known answer, if they are more than 250: one step a round, or a mixture"""


def fits(name: str) -> dict:
    """A problem that the method can be run on, small and quick."""
    if name == "fedrep-linear":
        tasks = LinearTasks(clients=12, dim=6, rank=2, samples=15)
        return {"algorithm": mh.FedRepLinear(eta=0.3), "model": "linear", "federation": tasks.federation(seed=0)}
    return {"algorithm": ALGORITHMS[name](), "model": net_for(name), "federation": ragged()}


# -- the known answer --------------------------------------------------------------------------------------------------


def weight(run, client=None, kind=None):
    tree = run.client_model(client or 0, kind)
    return tree["weight"].numpy()[0]


def personal(run, kind="personal"):
    return np.array([weight(run, i, kind) for i in range(len(run._store.slot))])


def close(a, b, tolerance=1e-6):
    np.testing.assert_allclose(a, b, atol=tolerance, rtol=tolerance)


def answer_fedavg(q, run):
    close(weight(run, kind="global"), q.fedavg(LR, TAU, "samples"))


def answer_local_sgd(q, run):
    close(weight(run, kind="global"), q.fedavg(LR, TAU, "equal"))


def answer_dsgd(q, run):
    close(weight(run), q.optimum("samples"))


def answer_local(q, run):
    close(personal(run), q.own)


def answer_scaffold(q, run):
    close(weight(run, kind="global"), q.optimum("equal"))


def answer_fedprox(q, run):
    """FedProx with full gradients stands still where sum p_i (I - (I - lr (A_i + mu))^tau)(w - prox_i(w)) = 0."""
    w, mu, p = weight(run, kind="global"), run.algorithm.mu, q.weights("samples")
    moved = [np.eye(DIM) - np.linalg.matrix_power(np.eye(DIM) - LR * (A + mu * np.eye(DIM)), TAU) for A in q.A]
    drift = sum(p_i * M @ (w - v) for p_i, M, v in zip(p, moved, q.near(mu, w), strict=True))
    close(drift, 0)


def answer_perfedavg(q, run):
    """The optimum of mean f_i(w - alpha grad f_i(w)), whose Hessian is (I - aA) A (I - aA)."""
    shrink = [np.eye(DIM) - run.algorithm.alpha * A for A in q.A]
    after = np.array([s @ A @ s for s, A in zip(shrink, q.A, strict=True)])
    close(weight(run, kind="global"), q.balance(after, q.weights("equal")))


def answer_apfl(q, run):
    """With one local step, w is D-GD's; the mixture stands still only where its own gradient is zero."""
    close(weight(run, kind="global"), q.optimum("equal"))
    close(personal(run), q.own)


def answer_ditto(q, run):
    w = q.fedavg(LR, TAU, "samples")
    close(weight(run, kind="global"), w)
    close(personal(run), q.near(run.algorithm.lam, w))


def answer_fedmtl(q, run):
    """min sum f_i(w_i) + lam sum |w_i - mean w|^2: A_i w_i - b_i + 2 lam (w_i - mean w) = 0."""
    n, lam = len(q.b), run.algorithm.lam
    omega = np.eye(n) - 1 / n
    system = np.zeros((n, DIM, n, DIM))
    for i in range(n):
        system[i, :, i, :] += q.A[i]
        for j in range(n):
            system[i, :, j, :] += 2 * lam * omega[i, j] * np.eye(DIM)
    solution = np.linalg.solve(system.reshape(n * DIM, -1), q.b.reshape(-1)).reshape(n, DIM)
    close(personal(run), solution)


def answer_l2gd(q, run):
    """Random moves keep it in a neighbourhood of its optimum; test_l2gd says exactly of what."""
    solution = q.l2gd(run.algorithm.lam)
    start = np.array([0.5, -1.0, 2.0])
    assert np.linalg.norm(personal(run) - solution) < 0.2 * np.linalg.norm(start - solution)


def answer_mr_mtl(q, run):
    """grad f_i(w_i) + lam (w_i - mean w) = 0: L2GD's objective."""
    close(personal(run), q.l2gd(run.algorithm.lam))
    close(weight(run, kind="global"), q.l2gd(run.algorithm.lam).mean(axis=0))


def answer_pfedme(q, run):
    """The mean of the envelopes is least where w is the mean of the clients' theta = prox_i(w)."""
    lam, w = run.algorithm.lam, weight(run, kind="global")
    close(w, q.l2gd(lam).mean(axis=0))
    close(personal(run), q.near(lam, w))


def answer_fedrod(q, run):
    """Of a regression, which has no classes to balance: the generic head is FedAvg's, and the sum of both one's own."""
    close(weight(run, kind="global"), q.fedavg(LR, TAU, "samples"))
    close(personal(run), q.own)


QUADRATIC = {
    "fedavg": (mh.FedAvg(**FULL), answer_fedavg),
    "local-sgd": (mh.LocalSGD(steps=TAU, lr=LR), answer_local_sgd),
    "dsgd": (mh.DSGD(batch=0, lr=LR), answer_dsgd),
    "local": (mh.Local(**FULL), answer_local),
    "fedprox": (mh.FedProx(**FULL, mu=0.5), answer_fedprox),
    "scaffold": (mh.Scaffold(batch=0, steps=TAU, lr=0.1, server_lr=1.0), answer_scaffold),
    "perfedavg": (mh.PerFedAvg(alpha=0.1, beta=LR, steps=1, batch=0, outer_batch=0, hessian_batch=0), answer_perfedavg),
    "apfl": (mh.APFL(batch=0, steps=1, lr=0.4, alpha=0.9), answer_apfl),
    "ditto": (mh.Ditto(**FULL, lam=0.4), answer_ditto),
    "fedmtl": (mh.FedMTL(**FULL, lam=0.3, relations="mean"), answer_fedmtl),
    "l2gd": (mh.L2GD(eta=0.2, lam=0.5, p=0.5, batch=0), answer_l2gd),
    "fedrod": (mh.FedRoD(**FULL), answer_fedrod),
    "mr-mtl": (mh.MRMTL(**FULL, lam=0.4), answer_mr_mtl),
    "reptile": (mh.Reptile(**FULL), answer_local_sgd),
    "pfedme": (mh.PFedMe(lam=0.7, steps=1, inner_steps=60, lr=0.3, eta=1.0, batch=0), answer_pfedme),
    "knn-per": (mh.KNNPer(**FULL), answer_fedavg),
    "anil": (mh.ANIL(alpha=0.1, beta=LR, steps=1, batch=0, outer_batch=0), answer_perfedavg),  # the model is all head
}
# Methods that split the model: a linear representation, data without noise, so that the loss can be zero.
SPLIT = {
    "fedrep": mh.FedRep(head_epochs=10, batch=0, sgd=PLAIN),
    "fedper": mh.FedPer(steps=10, batch=0, sgd=PLAIN),
    "lg-fedavg": mh.LGFedAvg(steps=10, batch=0, sgd=PLAIN, shared_layers=1),
    "fedrep-linear": mh.FedRepLinear(eta=0.5),
}


def answer_of_fedbabu():
    """With a fixed head h, y = h^T B x is linear in v = B^T h, which a step on B moves by |h|^2 times the gradient."""
    federation = problem()
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(DIM, 4, bias=False), torch.nn.Linear(4, 1, bias=False)).double()
    method = mh.FedBABU(**FULL, tune="none")
    run = simulate(method, Model(net), federation, rounds=2000, evaluate=Evaluate(every=2000))
    h = net[1].weight.detach().numpy()[0]
    found = run.server.body["0.weight"].numpy().T @ h
    close(found, Quadratic(federation).fedavg(LR * float(h @ h), TAU, "samples"))


def answer_of_fedbn():
    """Clients whose inputs have their own scale and shift: after their own norm, all have the same problem."""
    own = Evaluate(every=100, split="train")
    run = simulate(mh.FedBN(**FULL), normed_first(), shifted(clients=5), rounds=100, evaluate=own)
    assert run.loss < 1e-4  # not 0: batch norm scales by the variance of n in training, and of n - 1 afterwards


def answer_of_ifca():
    """Planted clusters without noise: every client has the answer of its own."""
    federation = grouped()
    run = simulate(mh.IFCA(clusters=2, **FULL), model(), federation, rounds=100, evaluate=Evaluate(every=100))
    close(personal(run), Quadratic(federation).own)


def answer_of_fedpac():
    """Three inputs, whose labels have other frequencies at each client: its own, if heads are trained until they rest."""
    shares = np.random.default_rng(2).dirichlet(np.full(3, 4.0), size=(4, 3))
    counts = np.ceil(20 * shares).astype(int)  # of each label, for each client and input
    kinds = [np.repeat(np.arange(9), own.ravel()) for own in counts]
    parts = [(np.eye(3)[kind // 3], kind % 3) for kind in kinds]
    federation = mh.Federation("shares", Samples.of(parts), Samples.of(parts), "classification", 3)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3)).double()
    method = mh.FedPAC(head_epochs=300, body_epochs=1, batch=0, lam=0.01, sgd=SGD(lr=1.0, momentum=0.9))
    run = simulate(method, Model(net), federation, rounds=20, evaluate=Evaluate(every=20))
    for client, own in enumerate(counts):
        net.load_state_dict(dict(run.client_model(client, "personal")))
        found = torch.softmax(net(torch.eye(3, dtype=torch.float64)), dim=1).detach().numpy()
        close(found, own / own.sum(axis=1, keepdims=True), 1e-3)


OWN = {"fedbabu": answer_of_fedbabu, "fedbn": answer_of_fedbn, "ifca": answer_of_ifca, "fedpac": answer_of_fedpac}
"""methods whose known answer is that of another problem"""


@pytest.mark.parametrize("name", NAMES)
def test_reaches_the_known_optimum(name):
    assert name in QUADRATIC or name in SPLIT or name in OWN, "add the method's known answer here"
    if name in OWN:
        OWN[name]()
        return
    if name in SPLIT:
        tasks = LinearTasks(clients=20, dim=5, rank=2, samples=30, dtype="float64")
        net = build_model(LinearRepresentation(rank=2), (5,), 1, seed=0, dtype="float64")
        run = simulate(SPLIT[name], net, tasks.federation(seed=0), rounds=400, evaluate=Evaluate(every=400))
        assert run.loss < 2e-6  # half of it is what is minimised
        return
    _, answer = QUADRATIC[name]
    federation = problem()
    answer(Quadratic(federation), at_rest(name, federation))


def at_rest(name: str, federation: mh.Federation) -> mh.Run:
    rounds = ROUNDS.get(name, 250)
    return simulate(QUADRATIC[name][0], model(), federation, rounds=rounds, evaluate=Evaluate(every=rounds))


# -- pure functions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["loop", "stacked"])
@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_untouched(name, mode):
    """local, merge and the models leave what they were given as it was."""
    case = fits(name)
    algorithm, federation = case["algorithm"], case["federation"]
    net = (
        build_model(LinearRepresentation(), federation.sample_shape, 1, 0)
        if case["model"] == "linear"
        else Model(case["model"])
    )
    data = ClientData.of(federation.train.select([1, 2, 3]), federation.task, next(iter(net.params.all.values())))
    tried = net.tried(data.x[:2], federation.task, federation.outputs)
    server, client = algorithm.init_server(net.params, len(federation)), algorithm.init_client(net.params)
    client = client.map(lambda v: torch.stack([v, v, v]))
    for index in (1, 2, 3):
        round = Round(index, 0, len(federation), 3)
        down = algorithm.download(server, round) | algorithm.download_each(server, [1, 2, 3], round)
        before = [{k: v.clone() for k, v in s.flat.items()} for s in (server, client, down)]
        update = algorithm.local(LocalCohort(tried, data, [1, 2, 3], round, mode), down, client)
        uploads = mh.Uploads([1, 2, 3], torch.ones(3), mh.Each(update.upload))
        merged = algorithm.merge(server, uploads, round)
        for state, was in zip((server, client, down), before, strict=True):
            assert all(torch.equal(v, was[k]) for k, v in state.flat.items())
        server, client = merged, update.client


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_is_the_same(name, tmp_path):
    case = fits(name)
    arguments = (case["algorithm"], case["model"], case["federation"])
    whole = simulate(*arguments, rounds=5, participation=0.5)
    simulate(*arguments, rounds=2, participation=0.5, out=tmp_path / "run")
    assert (
        simulate(*arguments, rounds=5, participation=0.5, out=tmp_path / "run", resume=True).checksum == whole.checksum
    )


@pytest.mark.parametrize("name", NAMES)
def test_workers_change_no_bit_nor_does_the_order(name):
    case = fits(name)
    arguments = (case["algorithm"], case["model"], case["federation"])
    runs = [simulate(*arguments, rounds=3, engine=Engine(workers=w)) for w in (1, 2)]
    assert runs[0].checksum == runs[1].checksum
    assert runs[0].history[-1]["evaluation"] == runs[1].history[-1]["evaluation"]


@pytest.mark.parametrize("name", NAMES)
def test_a_client_with_one_sample_takes_part(name):
    case = fits(name)
    federation = case["federation"]
    if name != "fedrep-linear":
        federation = ragged(sizes=(-2, 20, 9))  # one training sample after the split
        assert federation.train.sizes[0] == 1
    run = simulate(case["algorithm"], case["model"], federation, rounds=3)
    assert not any(r["dropped"] for r in run.history)
    assert all(v.isfinite().all() for v in run.client_model(0).values())


@pytest.mark.parametrize("name", NAMES)
def test_a_client_never_sampled_has_the_initial_state(name):
    case = fits(name)
    algorithm = case["algorithm"]
    run = simulate(algorithm, case["model"], case["federation"], rounds=2, cohort=2)
    if algorithm.everyone(1):
        assert run.history[0]["clients"] == len(case["federation"])
        return
    sampled = {c for r in run.history for c in r["cohort"]}
    (other, *_) = set(range(len(case["federation"]))) - sampled
    initial = algorithm.init_client(run.model.params).flat
    assert all(torch.equal(v[0], initial[k]) for k, v in run._store.read([other]).flat.items())
    assert run.client_model(other).keys() == run.model.params.all.keys()


@pytest.mark.parametrize("name", sorted(QUADRATIC))
def test_clients_that_are_all_the_same_stay_the_same(name):
    """Nobody drifts: all have one model, which is also the shared one where there is one."""
    federation = problem(alike=True)
    algorithm, _ = QUADRATIC[name]
    run = at_rest(name, federation)
    kinds = [k for k in algorithm.models if k != "local" and not (name == "l2gd" and k == "global")]
    models = np.concatenate([personal(run, k) for k in kinds if k in algorithm.models])
    if name not in ("perfedavg", "anil", "l2gd"):
        close(models, np.broadcast_to(Quadratic(federation).own[0], models.shape), 1e-5)
    close(models, np.broadcast_to(models[0], models.shape))


@pytest.mark.parametrize("name", NAMES)
def test_new_clients_and_fine_tuning_work_for_every_method(name):
    case = fits(name)
    federation = case["federation"].with_new_clients(0.3, seed=0)
    tune = FineTune(scope="all", epochs=3, lr=0.05)
    run = simulate(case["algorithm"], case["model"], federation, rounds=3, finetune=tune)
    assert [(f["model"] == "finetuned", f["who"]) for f in run.final] == [(True, "all"), (False, "new"), (True, "new")]
    assert all(f["loss"] is not None and f["clients"] > 0 for f in run.final)
    assert all(
        "fine-tuning the whole model for 3 epochs" in f["protocol"] for f in run.final if f["model"] == "finetuned"
    )
    before, after = run.final[1], run.final[2]
    assert after["loss"] != before["loss"]
    assert all("new clients" in f["protocol"] for f in (before, after))


@pytest.mark.parametrize("name", NAMES)
def test_predictions_are_those_of_the_models_that_the_protocol_names(name):
    """For every model of every method: sample by sample the same as what the history says."""
    case = fits(name)
    for kind in ("auto", "finetuned", *case["algorithm"].models):
        tune = FineTune(scope="all", epochs=2, lr=0.05)
        evaluate = Evaluate(model=kind, every=2)
        run = simulate(
            case["algorithm"], case["model"], case["federation"], rounds=2, cohort=2, finetune=tune, evaluate=evaluate
        )
        found, has = Loss().of_clients(run.predictions(case["federation"]))
        said = run.history[-1]["evaluation"]["per_client"]["loss"]
        assert found[has] == pytest.approx(said, rel=1e-9), kind
        tuned, has = Loss().of_clients(run.predictions(case["federation"], finetuned=True))
        said = next((f["per_client"]["loss"] for f in run.final), said)  # no second time if the protocol is about them
        assert tuned[has] == pytest.approx(said, rel=1e-9), kind


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_settings_survive_json_and_toml(name):
    cls = ALGORITHMS[name]
    changed = {}
    for field in dataclasses.fields(cls):
        value = getattr(cls(), field.name)
        if isinstance(value, bool):
            changed[field.name] = not value
        elif isinstance(value, int):
            changed[field.name] = value + 1
        elif isinstance(value, SGD):
            changed[field.name] = SGD(lr=0.123, momentum=0.25, weight_decay=0.5)
    algorithm = cls(**changed)
    assert algorithm != cls()
    assert build(cls, json.loads(json.dumps(as_dict(algorithm))), where="json") == algorithm
    assert build(cls, tomllib.loads(tomli_w.dumps(as_dict(algorithm))), where="toml") == algorithm


@pytest.mark.parametrize("name", NAMES)
def test_declares_its_facts_and_has_an_example_and_a_page(name):
    from pathlib import Path

    cls = ALGORITHMS[name]
    assert cls.paper
    assert cls.travels
    assert cls.stays
    assert ">>>" in cls.__doc__
    assert "Reference:" in cls.__doc__
    page = Path(__file__).parents[2] / "docs" / "algorithms" / f"{name}.md"
    wanted = ["Idea", "Pseudocode", "Usage", "Settings", "What travels, what stays, what is logged"]
    wanted += ["Choices and differences from the paper", "Results"]
    assert [line[3:] for line in page.read_text().splitlines() if line.startswith("## ")] == wanted
    assert all(f"`{field.name}`" in page.read_text() for field in dataclasses.fields(cls) if field.name != "sgd")


def test_a_state_is_a_value():
    state = State(a=torch.ones(1))
    with pytest.raises(AttributeError):
        state.a = torch.zeros(1)
