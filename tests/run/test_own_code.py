"""Methods and models of a user's own in Python: given as objects or specifications, and found again by load."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from kinds import KINDS as MODULES
from own_code import forget, own_code
from problems import ragged, small_net
from torch import nn
from torch.nn import functional

from manyheads import FedAvg, FedPer, Model, UserError, load, register, simulate
from manyheads.core.contract import ALGORITHMS
from manyheads.data import PARTITIONERS, SOURCES
from manyheads.engines.client_data import ClientData
from manyheads.models import MLP, MODELS
from manyheads.run.config_file import read_run_config


@pytest.fixture
def own(tmp_path):
    """The module of own things, imported; nothing of it is registered."""
    with own_code(tmp_path):
        sys.path.append(str(tmp_path))
        import own_things

        yield own_things


# -- a client's model as a module -----------------------------------------------------------------------------------------


def batch_norm() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


MADE = {
    "plain, shared": (FedAvg(), small_net, ragged),
    "plain, own head": (FedPer(), small_net, ragged),
    "averaged batch norm": (
        FedAvg(batch=5),
        lambda: Model(batch_norm(), norm="average"),
        lambda: ragged((9, 23, 7, 30)),
    ),
    "local batch norm": (FedPer(batch=5), lambda: Model(batch_norm(), norm="local"), lambda: ragged((9, 23, 7, 30))),
    "dropout": (FedPer(), lambda: nn.Sequential(nn.Linear(6, 8), nn.Dropout(), nn.Linear(8, 3)), ragged),
    **{
        name: (
            FedPer(batch=5),
            lambda kind=kind: Model(kind.make(), kind.head, **kind.how),
            lambda kind=kind: kind.data,
        )
        for name, kind in MODULES.items()
        if not kind.refused
    },
}


@pytest.mark.parametrize("name", MADE)
def test_a_module_predicts_as_the_run_did(name):
    algorithm, model, data = MADE[name]
    federation = data()
    run = simulate(algorithm, model(), federation, rounds=2)
    found = run.predictions(federation)
    like = next(iter(run.model.params.all.values()))
    for client in range(len(federation)):
        module = run.client_module(client)
        assert not module.training
        samples = ClientData.of(federation.test.select([client]), federation.task, like, federation.scaling)
        if not len(samples.y):
            continue
        with torch.no_grad():
            out = module(samples.x)
        losses = found.client(client).losses
        if federation.task == "classification":
            wanted = functional.cross_entropy(out, samples.y, reduction="none")
        else:
            wanted = (out.reshape(len(out), -1) - samples.y.reshape(len(out), -1)).square().sum(dim=1)
        np.testing.assert_allclose(wanted.numpy(), losses, rtol=1e-4, atol=1e-5)


def test_a_module_is_the_callers_own():
    federation = ragged()
    run = simulate(FedPer(), small_net(), federation, rounds=1)
    before, module = run.checksum, run.client_module(3)
    assert all(p.requires_grad for p in module.parameters())
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    assert run.checksum == before
    assert run.client_module(3)[0].weight.abs().sum() > 0
    with pytest.raises(UserError, match="no such client"):
        run.client_module(99)


# -- a specification where a model is wanted ------------------------------------------------------------------------------


def test_a_specification_is_a_model(tmp_path):
    federation = ragged()
    named = simulate(FedAvg(), "mlp", federation, rounds=2, seed=3)
    assert simulate(FedAvg(), MLP(), federation, rounds=2, seed=3).checksum == named.checksum
    other = simulate(FedAvg(), MLP(hidden=[5]), federation, rounds=1, out=tmp_path / "a")
    assert other.model.module[0].out_features == 5
    assert load(tmp_path / "a").model.module[0].out_features == 5


def test_a_specification_of_ones_own_is_one_too(own, tmp_path):
    federation = ragged()
    run = simulate(FedAvg(), own.Net(units=3), federation, rounds=1, out=tmp_path / "a")
    assert run.model.params.head.keys() == {"2.weight", "2.bias"}
    assert read_run_config(tmp_path / "a").settings["model"] == {"name": "my-net", "units": 3}
    assert load(tmp_path / "a", model=own.Net(units=3)).checksum == run.checksum
    with pytest.raises(
        UserError, match=r"made with the model 'my-net' \(own_things:Net\), not imported here; in Python"
    ):
        load(tmp_path / "a")
    MODELS.register(own.Net)
    assert load(tmp_path / "a").checksum == run.checksum
    assert simulate(FedAvg(), "my-net", federation, rounds=1).model.module[0].out_features == 6


def test_what_build_may_give(own):
    class Bare:
        def build(self, shape, outputs):
            return nn.Linear(shape[0], outputs)

    class Whole:
        def build(self, shape, outputs):
            return Model(
                nn.Sequential(nn.Linear(shape[0], 4), nn.BatchNorm1d(4), nn.Linear(4, outputs)), norm="average"
            )

    federation = ragged((9, 23, 7, 30))
    assert simulate(FedAvg(), Bare(), federation, rounds=1).rounds == 1
    assert simulate(FedAvg(batch=5), Whole(), federation, rounds=1).model.norm == "average"


@pytest.mark.parametrize("given", [MLP, 3, object()])
def test_what_is_no_model_is_refused(given):
    with pytest.raises(
        UserError, match=r"model: this is no model; given .*a specification with build\(shape, outputs\)"
    ):
        simulate(FedAvg(), given, ragged(), rounds=1)


def test_one_decorator_registers_every_kind(own):
    for cls in (own.Mine, own.Net, own.Blobs, own.Halves):
        assert register(cls) is cls
    assert (ALGORITHMS["mine"], MODELS["my-net"]) == (own.Mine, own.Net)
    assert (SOURCES["blobs"], PARTITIONERS["halves"]) == (own.Blobs, own.Halves)
    with pytest.raises(UserError, match=r"Nothing lacks .*pool|Nothing lacks model"):
        register(type("Nothing", (), {"name": "nothing"}))


# -- load -----------------------------------------------------------------------------------------------------------------


def test_a_run_tells_what_to_import(own, tmp_path):
    run = simulate(own.Mine(part_way=0.25), "mlp", ragged(), rounds=2, out=tmp_path / "a")
    assert read_run_config(tmp_path / "a").facts.code == {"algorithm": {"mine": "own_things:Mine"}}
    with pytest.raises(
        UserError, match=r"a: made with the algorithm 'mine' \(own_things:Mine\), not imported here; in P"
    ):
        load(tmp_path / "a")
    ALGORITHMS.register(own.Mine)
    assert load(tmp_path / "a").algorithm == own.Mine(part_way=0.25)
    assert load(tmp_path / "a").checksum == run.checksum


def test_ours_leave_no_word_of_code(tmp_path):
    simulate(FedAvg(), "mlp", ragged(), rounds=1, monitor=["drift"], out=tmp_path / "a")
    assert "code" not in (tmp_path / "a" / "config.toml").read_text()


def test_a_module_that_was_renamed_goes_on(own, tmp_path):
    simulate(own.Mine(), own.Net(), ragged(), rounds=1, out=tmp_path / "a")
    forget(tmp_path)
    (tmp_path / "own_things.py").rename(tmp_path / "renamed_things.py")
    import renamed_things

    run = simulate(renamed_things.Mine(), renamed_things.Net(), ragged(), rounds=2, out=tmp_path / "a", resume=True)
    assert run.rounds == 2
    ALGORITHMS.register(renamed_things.Mine)
    MODELS.register(renamed_things.Net)
    assert load(tmp_path / "a").checksum == run.checksum


def test_an_own_algorithm_with_a_name_of_ours_is_not_read_as_ours(tmp_path):
    class FedAvg2(FedAvg):
        """Another one, not registered."""

    simulate(FedAvg2(), "mlp", ragged(), rounds=1, out=tmp_path / "a")
    with pytest.raises(UserError, match=r"made with the algorithm 'fedavg' \(.*FedAvg2\), not imported"):
        load(tmp_path / "a")
