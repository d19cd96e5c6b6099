"""Partitioners: nobody's sample twice, nothing lost that need not be, and the distribution that was asked for."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from manyheads import UserError
from manyheads.core.settings import as_dict
from manyheads.data import (
    PARTITIONERS,
    Classes,
    Digits,
    Dirichlet,
    Iid,
    Key,
    LogNormal,
    Mixture,
    Pool,
    Shards,
    federate,
    parse_partition,
    partition,
)

EXAMPLES = settings(max_examples=100, deadline=None, derandomize=True)
ALPHAS = (1e-6, 1e-3, 0.3, 100.0)


def labels(per_class, seed=0):
    """So many of each class, shuffled."""
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(per_class)), per_class))


def table(labels, parts, classes):
    """How many samples of each class each client has, [clients, classes]."""
    return np.array([np.bincount(labels[rows], minlength=classes) for rows in parts])


@st.composite
def problems(draw):
    """A partitioner with training and test labels and a number of clients that it can serve."""
    classes, clients = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    train = labels(draw(st.lists(st.integers(0, 40), min_size=classes, max_size=classes)), draw(st.integers(0, 9)))
    test = labels(draw(st.lists(st.integers(0, 20), min_size=classes, max_size=classes)), draw(st.integers(0, 9)))
    assume(len(train) >= clients)
    numbers = st.floats(0.01, 5)
    spec = draw(
        st.one_of(
            st.just(Iid()),
            st.builds(LogNormal, sigma=st.floats(0, 3)),
            st.builds(Dirichlet, alpha=st.sampled_from(ALPHAS)),
            st.builds(Shards, per_client=st.integers(1, 6)),
            st.builds(Classes, per_client=st.integers(1, classes)),
            st.builds(
                Mixture,
                rows=st.lists(
                    st.lists(numbers, min_size=classes, max_size=classes), min_size=clients, max_size=clients
                ),
                sizes=st.none() | st.lists(numbers, min_size=clients, max_size=clients),
            ),
        )
    )
    assume(not isinstance(spec, Classes) or np.bincount(train, minlength=classes).min() >= clients)
    return spec, train, test, {"clients": clients, "seed": draw(st.integers(0, 9)), "classes": classes}


@EXAMPLES
@given(problems())
def test_no_sample_has_two_owners_and_all_rows_exist(problem):
    spec, train, test, how = problem
    for y, parts in zip((train, test), partition(spec, train, test, **how), strict=True):
        assert len(parts) == how["clients"]
        rows = np.concatenate(parts)
        assert len(np.unique(rows)) == len(rows)
        assert np.isin(rows, np.arange(len(y))).all()


@EXAMPLES
@given(problems())
def test_iid_lognormal_dirichlet_and_shards_lose_no_training_sample(problem):
    spec, train, test, how = problem
    assume(isinstance(spec, (Iid, LogNormal, Dirichlet, Shards)))
    assume(not isinstance(spec, Shards) or how["clients"] * spec.per_client >= how["classes"])  # a shard for each class
    parts, _ = partition(spec, train, test, **how)
    assert sorted(np.concatenate(parts)) == list(range(len(train)))


@EXAMPLES
@given(problems())
def test_a_client_is_tested_only_on_classes_that_it_trains_on(problem):
    spec, train, test, how = problem
    assume(spec.by_label)
    for mine, asked in zip(*partition(spec, train, test, **how), strict=True):
        assert set(test[asked]) <= set(train[mine])


@EXAMPLES
@given(problems())
def test_a_partition_depends_on_its_arguments_alone_and_leaves_the_global_generator(problem):
    spec, train, test, how = problem
    inputs = train.copy(), test.copy()
    np.random.seed(3)  # noqa: NPY002 (it is about the global generator)
    first = partition(spec, train, test, **how)
    drawn = np.random.rand()  # noqa: NPY002
    again = partition(spec, train, test, **how)
    np.random.seed(3)  # noqa: NPY002
    assert np.random.rand() == drawn  # noqa: NPY002
    assert [[r.tolist() for r in parts] for parts in first] == [[r.tolist() for r in parts] for parts in again]
    assert (train == inputs[0]).all()
    assert (test == inputs[1]).all()


@pytest.mark.parametrize(
    "spec",
    [Iid(), LogNormal(), Dirichlet(), Shards(), Classes(), Mixture(rows=[[1, 2, 3, 4]] * 5)],
    ids=lambda s: s.name,
)
def test_another_seed_gives_another_partition(spec):
    y = labels([30] * 4)
    (one, one_test), (two, two_test) = (partition(spec, y, y, clients=5, seed=s) for s in (0, 1))
    assert [r.tolist() for r in one] != [r.tolist() for r in two]
    assert [r.tolist() for r in one_test] != [r.tolist() for r in two_test]


# -- iid, lognormal ----------------------------------------------------------------------------------------------------


@EXAMPLES
@given(st.integers(1, 12), st.integers(12, 200), st.integers(0, 50))
def test_iid_sizes_differ_by_one_at_most_also_with_targets_that_are_no_classes(clients, n, n_test):
    parts, tests = partition(Iid(), np.zeros(n), np.zeros(n_test), clients=clients, seed=0)
    sizes, test_sizes = (np.array([len(p) for p in these]) for these in (parts, tests))
    assert sizes.max() - sizes.min() <= 1
    assert (np.abs(test_sizes - sizes * n_test / n) < 1).all()
    assert test_sizes.sum() == n_test


@pytest.mark.parametrize("sigma", [0.0, 0.5, 1.5])
def test_the_log_of_lognormal_sizes_has_the_asked_spread(sigma):
    counts = LogNormal(sigma=sigma).counts(4000, np.array([10**9]), np.random.default_rng(0))
    assert np.log(counts).std() == pytest.approx(sigma, rel=0.05, abs=1e-5)


def test_lognormal_respects_its_minimum():
    parts, _ = partition(LogNormal(sigma=4, minimum=3), np.zeros(400), np.zeros(9), clients=100, seed=0)
    assert min(len(p) for p in parts) >= 3
    assert max(len(p) for p in parts) > 20


# -- dirichlet ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("minimum", [1, 5])
@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 100.0])
def test_dirichlet_ends_and_respects_its_minimum_with_a_thousand_clients(alpha, minimum):
    y = labels([600] * 10)
    parts, tests = partition(Dirichlet(alpha=alpha, minimum=minimum), y, y[:2000], clients=1000, seed=0)
    sizes = np.array([len(p) for p in parts])
    assert sizes.min() >= minimum
    assert sizes.sum() == len(y)
    assert sum(map(len, tests)) == 2000


def test_dirichlet_with_exactly_the_minimum_for_everyone_gives_everyone_exactly_that():
    parts, _ = partition(Dirichlet(alpha=0.1, minimum=4), labels([10, 10, 20]), labels([1]), clients=10, seed=0)
    assert [len(p) for p in parts] == [4] * 10


def test_dirichlet_shares_have_the_second_moment_of_the_distribution():
    """E[p^2] = (alpha + 1) / (n (n alpha + 1))."""
    clients, per_class = 10, 100_000
    for alpha in (0.05, 0.6, 20.0):
        counts = Dirichlet(alpha=alpha).counts(clients, np.full(3000, per_class), np.random.default_rng(0))
        expected = (alpha + 1) / (clients * (clients * alpha + 1))
        assert np.mean((counts / per_class) ** 2) == pytest.approx(expected, rel=0.05)


def test_too_large_a_minimum_is_an_error():
    with pytest.raises(UserError, match=r"too few samples.*10 clients of 5 out of 40 samples"):
        partition(Dirichlet(minimum=5), labels([20, 20]), labels([1]), clients=10, seed=0)


# -- shards ------------------------------------------------------------------------------------------------------------


@EXAMPLES
@given(
    st.integers(2, 6), st.integers(1, 5), st.integers(1, 4), st.integers(4, 20), st.integers(0, 3), st.integers(0, 9)
)
def test_shards_cuts_every_class_into_equally_many_equal_shards(classes, per_client, times, size, extra, seed):
    clients = classes * times  # so that S n is divisible by C
    shards = per_client * times
    total = size * shards + extra % shards
    y = labels([total] * classes)
    parts, tests = partition(Shards(per_client), y, y, clients=clients, seed=seed, classes=classes)
    for given_out in (parts, tests):
        counts = table(y, given_out, classes)
        held = np.rint(counts * shards / total)
        assert (held.sum(axis=0) == shards).all()
        assert (held.sum(axis=1) == per_client).all()
        assert (np.abs(counts - held * total / shards) < 1).all()


# -- classes -----------------------------------------------------------------------------------------------------------


@EXAMPLES
@given(st.integers(1, 7), st.integers(1, 20), st.data())
def test_classes_gives_everyone_s_different_classes_equally_often_in_train_and_test(classes, clients, data):
    per_client = data.draw(st.integers(1, classes))
    enough = -(-clients * per_client // classes)
    sizes = st.lists(st.integers(enough, 3 * enough), min_size=classes, max_size=classes)
    train, test = labels(data.draw(sizes)), labels(data.draw(sizes))
    how = {"clients": clients, "seed": data.draw(st.integers(0, 9)), "classes": classes}
    parts, tests = partition(Classes(per_client), train, test, **how)
    counts, counts_test = table(train, parts, classes), table(test, tests, classes)
    assert ((counts > 0).sum(axis=1) == per_client).all()
    assert len(np.unique(counts[counts > 0])) == 1
    assert ((counts_test > 0) == (counts > 0)).all()
    assert len(np.unique(counts_test[counts_test > 0])) == 1
    owners = (counts > 0).sum(axis=0)
    assert owners.max() - owners.min() <= 1


def test_more_classes_a_client_than_there_are_is_an_error():
    with pytest.raises(UserError, match=r"partition classes: .*given 4; allowed: 1 to 3"):
        partition(Classes(4), labels([9] * 3), labels([9] * 3), clients=2, seed=0)


def test_classes_leaves_no_client_without_training_samples_because_a_class_is_rare():
    y = labels([50, 50, 0, 50])
    with suppress(UserError):
        parts, _ = partition(Classes(2), y, y, clients=6, seed=0, classes=4)
        assert min(map(len, parts)) > 0


def test_classes_never_leaves_everybody_silently_without_test_samples():
    with suppress(UserError):
        assert federate(Digits().pool(seed=0), Classes(5), clients=100, seed=0).test.sizes.sum() > 0


# -- mixture -----------------------------------------------------------------------------------------------------------


@EXAMPLES
@given(st.integers(1, 5), st.integers(1, 8), st.data())
def test_mixture_gives_the_asked_proportions_within_rounding_and_uses_a_class_up(classes, clients, data):
    numbers = st.floats(0.05, 1)
    rows = data.draw(
        st.lists(st.lists(numbers, min_size=classes, max_size=classes), min_size=clients, max_size=clients)
    )
    sizes = data.draw(st.lists(numbers, min_size=clients, max_size=clients))
    per_class = data.draw(st.lists(st.integers(50, 200), min_size=classes, max_size=classes))
    y = labels(per_class)
    parts, _ = partition(Mixture(rows=rows, sizes=sizes), y, y, clients=clients, seed=0, classes=classes)
    counts = table(y, parts, classes)
    asked = np.array([np.array(r) / sum(r) * s for r, s in zip(rows, sizes, strict=True)])
    largest = min(n / need for n, need in zip(per_class, asked.sum(axis=0), strict=True))
    assert (np.abs(counts - asked * largest) <= 1).all()
    assert (counts.sum(axis=0) == per_class).any()


def test_a_zero_in_the_mixture_is_a_class_that_the_client_never_sees():
    y = labels([30, 30])
    parts, tests = partition(Mixture(rows=[[1, 0], [1, 3]]), y, y, clients=2, seed=0)
    assert table(y, parts, 2).tolist() == table(y, tests, 2).tolist() == [[24, 0], [6, 18]]


@pytest.mark.parametrize(
    "values",
    [
        {"rows": [[1, 1, 1]] * 2},
        {"rows": [[1, 1]] * 3},
        {"rows": [[1, 1], [1], [1, 1]]},
        {"rows": [[1, 1]] * 2, "sizes": [1, 1, 1]},
        {"rows": [[1, -1], [1, 1]]},
        {"rows": [[0, 0], [1, 1]]},
        {"rows": [[1, 1]] * 2, "sizes": [0, 1]},
    ],
    ids=str,
)
def test_a_mixture_that_does_not_fit_is_an_error(values):
    with pytest.raises(UserError, match="partition mixture: mixture"):
        partition(Mixture(**values), labels([20, 20]), labels([5, 5]), clients=2, seed=0)


# -- what no partitioner can do ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [Iid(), LogNormal(), Dirichlet(), Shards(), Classes(1)], ids=lambda s: s.name)
def test_more_clients_than_samples_is_an_error(spec):
    with pytest.raises(UserError, match="more clients than training samples; given 5; allowed: 1 to 4"):
        partition(spec, labels([2, 2]), labels([2, 2]), clients=5, seed=0)


@pytest.mark.parametrize("spec", [Dirichlet(), Shards(), Classes(), Mixture(rows=[[1.0]])], ids=lambda s: s.name)
def test_a_partition_by_label_of_a_regression_is_an_error_that_tells_what_to_use(spec):
    with pytest.raises(UserError, match=rf"partition {spec.name} needs class labels.*iid, lognormal or key"):
        partition(spec, np.linspace(0, 1, 9), np.linspace(0, 1, 9), clients=2, seed=0)


def test_a_class_that_only_the_test_samples_have_belongs_to_nobody():
    _, tests = partition(Dirichlet(), np.array([0, 1, 2] * 5), np.array([0, 3, 0]), clients=2, seed=0)
    assert sorted(np.concatenate(tests)) == [0, 2]


# -- spelling ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("iid", Iid()),
        ("classes", Classes()),
        ("classes:", Classes()),
        ("classes:3", Classes(per_client=3)),
        ("classes:per_client=3", Classes(per_client=3)),
        ("dirichlet:0.6,minimum=10", Dirichlet(alpha=0.6, minimum=10)),
        ("dirichlet:0.6, 10", Dirichlet(alpha=0.6, minimum=10)),
        ("lognormal:2", LogNormal(sigma=2)),
        ("key:writer", Key(key="writer")),
        ("key:minimum=7", Key(minimum=7)),
        ({"name": "shards", "per_client": 4}, Shards(per_client=4)),
        ({"name": "dirichlet:0.6", "minimum": 4}, Dirichlet(alpha=0.6, minimum=4)),
        ({"name": "mixture", "rows": [[1, 0], [0, 1]]}, Mixture(rows=[[1, 0], [0, 1]])),
    ],
    ids=str,
)
def test_a_partition_is_read_as_it_is_spelled_and_back(text, spec):
    assert parse_partition(text) == spec
    assert parse_partition({"name": spec.name, **as_dict(spec)}) == spec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dirichelt:0.6", r"unknown partition; given 'dirichelt'; .*did you mean 'dirichlet'\?"),
        ("", "unknown partition"),
        ({"per_client": 3}, "unknown partition"),
        ("classes:0", r"partition classes\.per_client: bad value; given '0'; allowed: greater than or equal to 1"),
        ("classes:three", r"partition classes\.per_client: bad value; given 'three'; allowed: a valid integer"),
        ("dirichlet:-1", r"partition dirichlet\.alpha: bad value; given '-1'; allowed: greater than 0"),
        ("dirichlet:nan", r"partition dirichlet\.alpha: bad value"),
        ("dirichlet:0.6,minimun=10", r"partition dirichlet: unknown setting; .*did you mean 'minimum'\?"),
        ("shards:2,3", "partition shards: too many values; given '2,3'; allowed: per_client"),
        ("iid:3", "partition iid: too many values; given '3'; allowed: none"),
        ({"name": "shards", "per_clients": 4}, r"unknown setting; .*did you mean 'per_client'\?"),
    ],
    ids=str,
)
def test_a_wrong_spelling_is_an_error_that_names_it(text, message):
    with pytest.raises(UserError, match=message):
        parse_partition(text)


def test_every_partitioner_is_known_by_its_name():
    assert all(name == cls.name for name, cls in PARTITIONERS.items())
    assert {"iid", "lognormal", "dirichlet", "shards", "classes", "mixture", "key"} <= PARTITIONERS.keys()


# -- key ---------------------------------------------------------------------------------------------------------------


def pool(**keys) -> Pool:
    """Twelve training and four test samples; the input of a sample is its number."""
    x = np.arange(16, dtype=np.float32)[:, None]
    y = np.arange(16) % 2
    return Pool("letters", x[:12], y[:12], x[12:], y[12:], 2, {k: np.array(list(v)) for k, v in keys.items()})


def test_key_makes_a_client_of_every_owner_with_all_its_samples_and_leaves_out_the_small_ones():
    writers = "bbbaaacbbbbbaada"
    federation = federate(pool(writer=writers), Key(), clients=99, seed=0)
    assert federation.client_names == ("a", "b")
    for client, name in enumerate("ab"):
        mine = [i for i, w in enumerate(writers) if w == name]
        train, test = federation.train.client(client)[0], federation.test.client(client)[0]
        assert sorted([*train[:, 0], *test[:, 0]]) == mine
        assert len(test) == round(0.2 * len(mine))
    assert federate(pool(writer=writers), Key(minimum=1), clients=99, seed=0).client_names == ("a", "b", "c", "d")


def test_one_of_several_keys_is_chosen_by_name():
    both = pool(writer="a" * 8 + "b" * 8, city="xxyyzzxxyyzzxxyy")
    assert federate(both, parse_partition("key:city"), clients=0, seed=0).client_names == ("x", "y", "z")


@pytest.mark.parametrize(
    ("keys", "key", "message"),
    [
        ({"writer": "a" * 16, "city": "b" * 16}, "", "given 'no key'; allowed: writer, city"),
        ({"writer": "a" * 16}, "writr", "given 'writr'; allowed: writer"),
        ({}, "", "allowed: none, it has no natural clients"),
    ],
)
def test_a_key_that_is_not_there_is_an_error_that_lists_those_that_are(keys, key, message):
    with pytest.raises(UserError, match=f"letters cannot be divided.*{message}"):
        federate(pool(**keys), Key(key=key), clients=2, seed=0)


def test_a_minimum_that_nobody_reaches_is_an_error():
    with pytest.raises(UserError, match="letters: a federation needs at least one client"):
        federate(pool(writer="a" * 16), Key(minimum=17), clients=2, seed=0)


def test_keys_for_another_number_of_samples_are_an_error():
    with pytest.raises(UserError):
        federate(pool(writer="a" * 12), Key(), clients=2, seed=0)


def test_a_spread_beyond_all_numbers_is_refused_as_that():
    with pytest.raises(UserError, match="sigma"):
        parse_partition("lognormal:1e9")
