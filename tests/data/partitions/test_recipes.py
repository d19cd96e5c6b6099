"""The papers' partitions by name: exact counts, nothing doubled, seeds that matter, errors that say what to change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from manyheads import UserError
from manyheads.data import (
    PARTITIONERS,
    ClassSplit,
    DirichletShares,
    Fallah,
    FemnistRecipe,
    Iid,
    Pool,
    Scaling,
    Shards,
    class_split_federation,
    federate,
    parse_partition,
    partition,
)

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)


def labels(per_class: list[int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(per_class)), per_class))


def table(y: np.ndarray, parts: list[np.ndarray], classes: int) -> np.ndarray:
    return np.array([np.bincount(y[rows], minlength=classes) for rows in parts])


def each_once(parts: list[np.ndarray], total: int) -> bool:
    rows = np.concatenate(parts)
    return len(np.unique(rows)) == len(rows) and bool(np.isin(rows, np.arange(total)).all())


def pool_of(per_class: int, per_class_test: int, classes: int, name: str = "pool") -> Pool:
    """Every sample is its own number, so that one can see who got it."""
    y, y_test = labels([per_class] * classes), labels([per_class_test] * classes, 1)
    x, x_test = (np.arange(len(v), dtype=np.int32).reshape(-1, 1, 1, 1) for v in (y, y_test))
    return Pool(name, x, y, x_test, y_test, classes, scaling=Scaling((classes / 100,), (1.0,)))


def test_recipes_go_by_name():
    assert {"femnist-recipe", "fallah", "class-split"} <= PARTITIONERS.keys()
    assert parse_partition("femnist-recipe") == FemnistRecipe(per_client=3, mu=4, sigma=1, base=100)
    assert parse_partition("fallah:40") == Fallah(a=40)
    assert parse_partition("class-split:20,train_classes=50") == ClassSplit(per_client=20, train_classes=50)


# FEMNIST


def test_femnist_recipe_with_plenty_of_data_has_the_paper_s_sizes():
    y = labels([4000] * 10)
    parts, test = partition(FemnistRecipe(), y, labels([400] * 10), clients=150, seed=0)
    counts = table(y, parts, 10)
    sizes = counts.sum(axis=1)
    for client in range(150):
        assert np.flatnonzero(counts[client]).tolist() == sorted((client + k) % 10 for k in range(3))
        assert len(set(counts[client][counts[client] > 0])) == 1
    assert each_once(parts, len(y))
    assert sizes.min() >= 100 - 2  # rounded down to a multiple of three
    drawn = np.log(sizes - 98)
    assert abs(drawn.mean() - 4) < 0.3
    assert abs(drawn.std() - 1) < 0.3
    assert (table(labels([400] * 10), test, 10)[counts == 0] == 0).all()
    assert abs(sum(map(len, test)) / 4000 - sizes.sum() / 40000) < 0.01


@EXAMPLES
@given(
    st.lists(st.just(0) | st.integers(30, 200), min_size=1, max_size=6),
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(0, 9),
    st.floats(0, 1),
)
def test_femnist_recipe_deals_each_sample_once(each, clients, per_client, seed, sigma):
    per_class = [n * clients for n in each]  # enough for the smallest client, next to the largest
    present = np.flatnonzero(per_class)
    assume(per_client <= len(present))
    y, y_test = labels(per_class), labels([n // 4 for n in per_class], 1)
    spec = FemnistRecipe(per_client=per_client, sigma=sigma)
    parts, test = partition(spec, y, y_test, clients=clients, seed=seed, classes=len(per_class))
    counts = table(y, parts, len(per_class))
    assert each_once(parts, len(y))
    assert each_once(test, len(y_test))
    assert ((counts > 0).sum(axis=1) == per_client).all()
    assert all(len(set(row[row > 0])) == 1 for row in counts)
    held = [sorted(present[(u + k) % len(present)] for k in range(per_client)) for u in range(clients)]
    assert [np.flatnonzero(row).tolist() for row in counts] == held


def test_femnist_recipe_scales_all_clients_alike_when_data_run_out():
    plenty, few = (
        table(y, partition(FemnistRecipe(per_class=10**6), y, y[:0], clients=20, seed=3)[0], 10).sum(axis=1)
        for y in (labels([10000] * 10), labels([300] * 10))
    )
    assert few.sum() <= 3000
    scale = few / plenty
    assert np.ptp(scale) < 0.05
    assert scale.mean() < 0.9
    y = labels([10000] * 10)
    capped = table(y, partition(FemnistRecipe(per_class=300), y, y[:0], clients=20, seed=3)[0], 10).sum(axis=1)
    assert np.array_equal(capped, few)


def test_femnist_recipe_errors():
    with pytest.raises(UserError, match="femnist-recipe: too few samples: client .* use fewer clients"):
        partition(FemnistRecipe(), labels([5] * 10), labels([1] * 10), clients=40, seed=0)
    with pytest.raises(UserError, match="more classes per client than there are; given 3; allowed: 1 to 2"):
        partition(FemnistRecipe(), labels([50, 50]), labels([5, 5]), clients=2, seed=0)


# Fallah


@EXAMPLES
@given(st.integers(2, 40), st.integers(1, 20), st.integers(2, 10), st.integers(0, 9))
def test_fallah_has_exactly_the_paper_s_counts(a, clients, classes, seed):
    y = labels([a * clients * 2] * classes)
    parts, _ = partition(Fallah(a=a), y, y[:0], clients=clients, seed=seed, classes=classes)
    counts, low, common = table(y, parts, classes), classes // 2, (clients + 1) // 2
    assert each_once(parts, len(y))
    assert (counts[:common, :low] == a).all()
    assert (counts[:common, low:] == 0).all()
    for row in counts[common:]:
        assert sorted(row[:low][row[:low] > 0]) == [a // 2]
        assert sorted(row[low:][row[low:] > 0]) == [2 * a]
    uses = (counts[common:, low:] > 0).sum(axis=0)
    assert uses.max() - uses.min() <= 1


def test_fallah_on_the_counts_of_mnist():
    train = labels([5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])
    test = labels([980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009])
    parts, parts_test = partition(Fallah(), train, test, clients=10, seed=0)
    assert sorted(map(len, parts)) == [490] * 5 + [980] * 5
    counts, counts_test = table(train, parts, 10), table(test, parts_test, 10)
    expected = counts / np.bincount(train) * np.bincount(test)
    assert np.abs(counts_test - expected).max() <= 1
    with pytest.raises(UserError, match="fallah: class 0 has too few training samples; given 5923; .*use a smaller a"):
        partition(Fallah(a=2000), train, test, clients=10, seed=0)
    with pytest.raises(UserError, match="two classes are needed"):
        partition(Fallah(), labels([100]), labels([10]), clients=2, seed=0, classes=1)


# classes of training and of new clients


def test_class_split_with_the_paper_s_numbers():
    pool = pool_of(500, 100, 100)
    for per_client in (2, 5, 20):
        federation = class_split_federation(pool, ClassSplit(per_client=per_client), clients=80, seed=0)
        new = federation.new
        assert new is not None
        assert (len(federation), set(federation.train.sizes), set(federation.test.sizes)) == (80, {500}, {100})
        for client in range(80):
            own, counts = np.unique(federation.train.client(client)[1], return_counts=True)
            assert (len(own), own.max() < 80, set(counts)) == (per_client, True, {500 // per_client})
            assert np.array_equal(np.unique(federation.test.client(client)[1]), own)
        assert (len(new), set(new.train.sizes), set(new.test.sizes)) == (5, {500}, {400})  # 400: section C.2
        for client in range(5):
            own, counts = np.unique(new.train.client(client)[1], return_counts=True)
            assert (own.tolist(), set(counts)) == ([*range(80, 100)], {25})
        rows = np.concatenate([federation.train.x.reshape(-1), new.train.x.reshape(-1)])
        assert len(np.unique(rows)) == len(rows)
        assert federation.outputs == new.outputs == 100


def test_new_clients_with_few_samples_have_two_or_three_of_each_class():
    pool = pool_of(50, 10, 100)
    new = class_split_federation(pool, ClassSplit(samples=50, new_samples=50), clients=80, seed=0).new
    assert new is not None
    assert set(new.train.sizes) == {50}
    for client in range(5):
        counts = np.bincount(new.train.client(client)[1], minlength=100)[80:]
        assert set(counts) == {2, 3}


def test_new_clients_from_another_pool_fit_the_trained_model():
    old, other = pool_of(50, 10, 20, "cifar100"), pool_of(500, 100, 10, "cifar10")
    spec = ClassSplit(samples=40, train_classes=20, new_clients=5, new_samples=100)
    federation = class_split_federation(old, spec, clients=20, seed=0, new_pool=other)
    new = federation.new
    assert new is not None
    assert np.unique(federation.train.y).tolist() == [*range(20)]
    assert (new.name, new.outputs, new.scaling) == ("cifar10", 20, old.scaling)
    assert set(new.test.sizes) == {200}
    for client in range(5):
        assert np.bincount(new.train.client(client)[1]).tolist() == [10] * 10
    with pytest.raises(UserError, match="new clients from cifar100 do not fit a model for cifar10; given .*20 classes"):
        class_split_federation(other, ClassSplit(), clients=10, seed=0, new_pool=old)


@pytest.mark.parametrize("spec", [Iid(), Shards(2), DirichletShares(0.6)])
def test_new_clients_from_another_pool_with_any_partition(spec):
    old, other = pool_of(50, 10, 20, "letters"), pool_of(500, 100, 10, "digits")
    federation = federate(old, spec, clients=10, seed=0, new_pool=other, new_clients=2, new_samples=100)
    new = federation.new
    assert new is not None
    assert (len(federation), len(new), new.name, new.outputs) == (10, 2, "digits", 20)
    assert [np.bincount(new.train.client(i)[1]).tolist() for i in range(2)] == [[10] * 10] * 2
    with pytest.raises(UserError, match="new_clients: how many new clients of digits\\?; given 0; allowed: 1 or more"):
        federate(old, spec, clients=10, seed=0, new_pool=other)


@EXAMPLES
@given(st.floats(0.02, 50), st.integers(1, 40), st.integers(0, 60), st.integers(0, 9))
def test_dirichlet_shares_fill_every_client_alike(alpha, clients, samples, seed):
    per_class = np.array([300, 0, 500, 700, 900])
    counts = DirichletShares(alpha=alpha, samples=samples).counts(clients, per_class, np.random.default_rng(seed))
    assert set(counts.sum(axis=1)) == {samples or 2400 // clients}
    assert (counts >= 0).all()
    assert (counts.sum(axis=0) <= per_class).all()


def test_dirichlet_shares_are_those_drawn_where_there_is_enough():
    drawn = np.random.default_rng(3).dirichlet(np.full(10, 0.6), 100)
    counts = DirichletShares(alpha=0.6, samples=100).counts(100, np.full(10, 5000), np.random.default_rng(3))
    assert np.abs(counts - 100 * drawn).max() < 1
    scarce = DirichletShares(alpha=0.6).counts(100, np.full(10, 5000), np.random.default_rng(3))
    assert (scarce.sum(axis=0) == 5000).all()
    assert np.corrcoef(scarce.ravel(), drawn.ravel())[0, 1] > 0.98
    with pytest.raises(UserError, match="too few training samples; given '100 clients of 501 out of 50000'"):
        DirichletShares(samples=501).counts(100, np.full(10, 5000), np.random.default_rng(0))


def test_some_classes_of_a_pool():
    pool = replace(pool_of(20, 5, 10), keys={"writer": np.arange(250)})
    few = pool.only([7, 2])
    assert (few.classes, few.label_names, len(few.y), len(few.y_test)) == (2, ("7", "2"), 40, 10)
    assert np.array_equal(few.x[few.y == 0], pool.x[pool.y == 7])
    assert np.array_equal(few.x_test[few.y_test == 1], pool.x_test[pool.y_test == 2])
    owners = np.concatenate([pool.y, pool.y_test])
    assert np.array_equal(few.keys["writer"], np.flatnonzero(np.isin(owners, [7, 2])))


@EXAMPLES
@given(st.integers(1, 6), st.integers(1, 30), st.integers(1, 15), st.integers(0, 4), st.integers(0, 9))
def test_class_split_gives_each_client_what_was_asked(per_client, samples, clients, new_clients, seed):
    pool = pool_of(30 * 15, 8, 9)
    spec = ClassSplit(
        per_client=per_client, samples=samples, train_classes=6, new_clients=new_clients, new_samples=samples
    )
    federation = federate(pool, spec, clients=clients, seed=seed)
    assert set(federation.train.sizes) == {samples}
    groups = [federation.train] + ([federation.new.train] if federation.new else [])
    assert (federation.new is None) == (new_clients == 0)
    rows = np.concatenate([g.x.reshape(-1) for g in groups])
    assert len(np.unique(rows)) == len(rows)
    assert federation.train.y.max() < 6
    for client in range(clients):
        counts = np.bincount(federation.train.client(client)[1], minlength=9)
        assert (counts > 0).sum() == min(per_client, samples)
        assert np.ptp(counts[counts > 0]) <= 1
    if federation.new:
        assert federation.new.train.y.min() >= 6
        assert set(federation.new.train.sizes) == {samples}


def test_class_split_errors():
    pool = pool_of(50, 10, 10)
    with pytest.raises(UserError, match="no classes are left for new clients; given 80; allowed: 1 to 9"):
        federate(pool, ClassSplit(), clients=4, seed=0)
    with pytest.raises(
        UserError, match="class-split: class .* too few training samples; .*use fewer samples per client"
    ):
        federate(pool, ClassSplit(train_classes=8), clients=4, seed=0)
    assert federate(pool, ClassSplit(samples=50, new_clients=0), clients=4, seed=0).new is None


@pytest.mark.parametrize(
    "spec",
    [FemnistRecipe(), Fallah(a=10), ClassSplit(samples=50, train_classes=8, new_samples=20)],
    ids=lambda s: s.name,
)
def test_the_seed_decides_and_nothing_else(spec):
    pool = pool_of(400, 40, 10)
    first, again, other = (federate(pool, spec, clients=12, seed=s) for s in (0, 0, 1))
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint != other.fingerprint
    assert not np.array_equal(first.train.x, other.train.x)
