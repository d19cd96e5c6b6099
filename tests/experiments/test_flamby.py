"""FLamby's protocol: its data to the digit, its model, its methods, and its published numbers beside ours."""

from __future__ import annotations

import copy
import csv
from dataclasses import replace
from itertools import chain, islice, repeat
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from manyheads import UserError
from manyheads.data.public.hub import fetch
from manyheads.data.public.tcga import REGIONS
from manyheads.experiments.flamby import POOLED, Cell, compared, heart_benchmark, published, tcga_benchmark
from manyheads.experiments.flamby.heart import HOSPITALS, Logistic, hospitals

SHARED = Path(__file__).parents[3] / "shared" / "data"
real = pytest.mark.skipif(not (SHARED / "heart").is_dir(), reason=f"{SHARED} is not there")
SPELLED = dict(zip(HOSPITALS, ("cleveland", "hungarian", "switzerland", "va"), strict=True))


def test_the_hospitals_are_prepared_as_flamby_does():
    apart, together = hospitals()
    assert (apart.train.sizes + apart.test.sizes).tolist() == [303, 261, 46, 130]
    assert apart.sample_shape == together.sample_shape == (13,)
    for data in (apart, together):
        for client in range(len(data)):
            x = data.train.client(client)[0]
            varies = x.std(axis=0) > 0.5
            np.testing.assert_allclose(x[:, varies].std(axis=0, ddof=1), 1, rtol=1e-5)
            np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-5)
            assert not x[:, ~varies].any()  # cholesterol in Switzerland: all 0, that is, unknown
    assert not np.array_equal(apart.train.x, together.train.x)
    np.testing.assert_array_equal(apart.train.y, together.train.y)


@real
def test_its_split_of_the_hospitals():
    rows = {}
    with open(SHARED / "heart" / "flamby_split.csv") as file:
        for row in csv.DictReader(file):
            rows.setdefault(row["site"], []).append(row["set"])
    apart, _ = hospitals()
    for client, name in enumerate(HOSPITALS):
        own = rows[SPELLED[name]]
        assert (apart.train.sizes[client], apart.test.sizes[client]) == (own.count("train"), own.count("test"))


def test_the_model_is_logistic_regression():
    """Its cross entropy is the binary one of a sigmoid, and so is its gradient."""
    torch.manual_seed(0)
    net, x, y = Logistic(), torch.randn(20, 13), torch.randint(0, 2, (20,))
    two = torch.nn.functional.cross_entropy(net(x), y)
    one = torch.nn.functional.binary_cross_entropy(torch.sigmoid(net.linear(x))[:, 0], y.float())
    torch.testing.assert_close(two, one)
    for a, b in zip(*(torch.autograd.grad(v, list(net.parameters())) for v in (two, one)), strict=True):
        torch.testing.assert_close(a, b)
    torch.manual_seed(3)
    assert net.linear.weight.shape == (1, 13)
    first = torch.nn.Linear(13, 1).weight
    torch.testing.assert_close(heart_benchmark()._model(3).params.all["linear.weight"], first.detach())


def test_scaffold_is_flambys():
    """FLamby keeps a correction ``c - c_i`` for each client instead of the controls: the same model after every round."""
    bench = heart_benchmark()
    method = replace(bench.methods["scaffold"], steps=5, batch=0)  # full batches: no order of draws
    run = bench._trained(method, bench.apart, 3, seed=0)
    net, sizes = bench._model(0).module, bench.apart.train.sizes / bench.apart.train.sizes.sum()
    w = [p.detach().clone() for p in net.parameters()]
    before, correction = [w] * 4, [[torch.zeros_like(p) for p in w] for _ in range(4)]
    for _ in range(3):
        ends = []
        for i in range(4):
            correction[i] = [c + (p - q) / (0.001 * 5) for c, p, q in zip(correction[i], w, before[i], strict=True)]
            x, y = map(torch.from_numpy, bench.apart.train.client(i))
            own = [p.clone().requires_grad_() for p in w]
            for _ in range(5):
                z = x @ own[0].T + own[1]
                loss = torch.nn.functional.binary_cross_entropy_with_logits(z[:, 0], y.float())
                slopes = torch.autograd.grad(loss, own)
                steps = zip(own, slopes, correction[i], strict=True)
                own = [(p - 0.001 * (g - c)).detach().requires_grad_() for p, g, c in steps]
            ends.append([p.detach() for p in own])
        before = ends
        w = [sum(float(s) * e[k] for s, e in zip(sizes, ends, strict=True)) for k in range(2)]
    for name, leaf in zip(("linear.weight", "linear.bias"), w, strict=True):
        torch.testing.assert_close(run.client_model(0)[name], leaf, rtol=1e-4, atol=1e-6)


def test_every_method_and_site_has_a_cell():
    """With little training: the cells, and that one model is measured at all sites."""
    bench = heart_benchmark()
    short = {name: replace(method, steps=2) for name, method in bench.methods.items()}
    bench = replace(bench, epochs=1, rounds=1, methods=short)
    found = {(method, site): value for method, site, value in bench.run(42)}
    adaptive = ("fedadam", "fedyogi", "fedadagrad")
    shared = {(m, s) for m in ("pooled", "fedavg", "fedprox", "scaffold", *adaptive) for s in (*HOSPITALS, POOLED)}
    assert found.keys() == {("local", s) for s in HOSPITALS} | shared
    assert all(0 <= v <= 1 for v in found.values())
    assert bench.shared("fedavg", 42)["VA"] == found["fedavg", "VA"]


@real
def test_published_numbers_of_one_seed_are_ours():
    """Pooled training does not depend on the order of batches by more than a patient or two."""
    theirs = published(SHARED / "heart" / "flamby_results", HOSPITALS)
    assert len(theirs["fedavg", "all"]) == 5
    assert np.mean(theirs["local", "Switzerland"]) == pytest.approx(0.725)
    ours = heart_benchmark().shared("pooled", 42)
    for site, patients in zip((*HOSPITALS, POOLED), (104, 89, 16, 45, 254), strict=True):
        assert ours[site] == pytest.approx(theirs["pooled", site][0], abs=2.5 / patients)


def loaders(federation, batch):
    """FLamby's: torch's own, which shuffle by the global generator."""
    parts = [map(torch.from_numpy, federation.train.client(i)) for i in range(len(federation))]
    return [DataLoader(TensorDataset(x, y), batch_size=batch, shuffle=True) for x, y in parts]


def measured(net, federation):
    with torch.no_grad():
        right = (net(torch.from_numpy(federation.test.x)).argmax(1).numpy() == federation.test.y).astype(float)
    return [own.mean() for own in np.split(right, federation.test.offsets[1:-1])]


@real
def test_published_numbers_to_the_digit_with_flambys_draws():
    """A plain loop with torch's data loaders, seeded as FLamby does: our data and model give its very cells."""
    theirs = published(SHARED / "heart" / "flamby_results", HOSPITALS)
    bench, seed = heart_benchmark(), 42
    batches, start = loaders(bench.apart, 4), bench._model(seed).module
    cross_entropy = torch.nn.functional.cross_entropy
    with torch.random.fork_rng():
        for i, site in enumerate(HOSPITALS):  # each alone, by Adam
            net = copy.deepcopy(start)
            torch.manual_seed(seed)
            adam = torch.optim.Adam(net.parameters(), lr=bench.lr)
            for _ in range(bench.epochs):
                for x, y in batches[i]:
                    adam.zero_grad()
                    cross_entropy(net(x), y).backward()
                    adam.step()
            assert measured(net, bench.apart)[i] == pytest.approx(theirs["local", site][0], abs=1e-9)
        endless = [chain.from_iterable(repeat(b)) for b in batches]
        torch.manual_seed(seed)
        net, shares = copy.deepcopy(start), bench.apart.train.sizes / bench.apart.train.sizes.sum()
        for _ in range(bench.rounds):  # FedAvg
            ends = []
            for own in endless:
                local = copy.deepcopy(net)
                sgd = torch.optim.SGD(local.parameters(), 0.001)
                for x, y in islice(own, 100):
                    sgd.zero_grad()
                    cross_entropy(local(x), y).backward()
                    sgd.step()
                ends.append(local)
            with torch.no_grad():
                for p, *own in zip(*(m.parameters() for m in (net, *ends)), strict=True):
                    p.copy_(sum(float(s) * q for s, q in zip(shares, own, strict=True)))
    for site, value in zip(HOSPITALS, measured(net, bench.apart), strict=True):
        assert value == pytest.approx(theirs["fedavg", site][0], abs=1e-9)


@real
def test_the_regions_are_flambys(tmp_path, monkeypatch):
    monkeypatch.setenv("MANYHEADS_DATA", str(SHARED))
    fetch("tcga-brca", tmp_path)
    bench = tcga_benchmark(str(tmp_path / "tcga-brca"))
    assert bench.apart.client_names == REGIONS
    assert bench.apart.train.sizes.tolist() == [248, 156, 164, 129, 129, 40]
    assert bench.together.train.sizes.tolist() == [866]
    assert bench.rounds == 866 // 6 // 8 * 30 // 100
    short = {"fedavg": replace(bench.methods["fedavg"], steps=2)}
    cells = list(replace(bench, epochs=1, rounds=1, methods=short).run(42))
    assert len(cells) == 6 + 2 * 7
    assert all(0 <= value <= 1 for _, _, value in cells)


def _told(place):
    """The settings of each adaptive method, from the result files."""
    found = {}
    for file in (SHARED / place / "flamby_results").glob("*.csv"):
        with open(file, newline="") as lines:
            for row in csv.DictReader(lines):
                if row["Method"] in ("FedAdam100", "FedYogi100", "FedAdagrad100"):
                    names = ("learning_rate", "server_learning_rate", "beta1", "beta2", "tau")
                    found.setdefault(row["Method"], set()).add(tuple(float(row[name]) for name in names))
    return found


@real
def test_adaptive_methods_have_the_settings_of_the_published_results(tmp_path, monkeypatch):
    monkeypatch.setenv("MANYHEADS_DATA", str(SHARED))
    fetch("tcga-brca", tmp_path)
    for bench, place in ((heart_benchmark(), "heart"), (tcga_benchmark(str(tmp_path / "tcga-brca")), "tcga_brca")):
        for name, settings in _told(place).items():
            method = bench.methods[name.removesuffix("100").lower()]
            opt = method.server
            assert settings == {(method.sgd.lr, opt.lr, opt.momentum, opt.beta2, opt.tau)}
            assert f"Fed{opt.kind.capitalize()}100" == name
            assert (method.steps, method.batch, method.sgd.momentum) == (100, bench.batch, 0.0)


def test_what_was_run_before_is_not_run_again():
    bench = heart_benchmark()
    others = [name for name in ("local", "pooled", *bench.methods) if name != "fedadam"]
    short = replace(bench, rounds=1, methods={"fedadam": replace(bench.methods["fedadam"], steps=2)})
    assert {method for method, _, _ in short.run(42, but=others)} == {"fedadam"}


def test_beside_each_other():
    (cell,) = compared({("fedavg", "a"): (0.5, 0.7)}, [[("fedavg", "a", 0.6)], [("fedavg", "a", 0.62)]])
    assert cell == Cell("fedavg", "a", (0.5, 0.7), (0.6, 0.62))
    assert cell.within
    assert cell.apart == pytest.approx(0.01 / np.sqrt(0.02 / 2 + 0.0002 / 2))
    assert not replace(cell, ours=(0.8, 0.7)).within


def test_without_published_results(tmp_path):
    with pytest.raises(UserError, match="no results of FLamby"):
        published(tmp_path, HOSPITALS)
