"""Federations: every client's samples in their place, set aside without loss, saved, checked; and the built-in data."""

from dataclasses import replace

import numpy as np
import pytest

from manyheads import Federation, UserError
from manyheads.data import Classes, Digits, LinearTasks, Samples, federate
from manyheads.data.sources import source_named

SIZES = (1, 20, 7, 3, 2, 11, 5, 1, 9, 4)


def clients(sizes=SIZES):
    """Samples that tell who they are: the input is (client, number)."""
    return [
        (np.array([[c, i] for i in range(n)], np.float32).reshape(n, 2), (c + np.arange(n)) % 3)
        for c, n in enumerate(sizes)
    ]


def federation(sizes=SIZES, **how) -> Federation:
    return Federation.from_clients(clients(sizes), name="mine", outputs=3, **how)


def ids(samples: Samples) -> list[tuple[int, int]]:
    return [(int(c), int(i)) for c, i in samples.x]


def everything(fed: Federation) -> list[tuple[int, int]]:
    """The samples of all parts, each as often as it is there."""
    parts = [s for f in (fed, fed.new) if f for s in (f.train, f.test, f.validation) if s is not None]
    return sorted(i for part in parts for i in ids(part))


ALL = sorted((c, i) for c, n in enumerate(SIZES) for i in range(n))


def same(a: Federation, b: Federation) -> bool:
    facts = all(getattr(a, f) == getattr(b, f) for f in ("name", "task", "outputs", "client_names", "fingerprint"))
    return facts and (a.new is None) == (b.new is None) and (a.new is None or same(a.new, b.new))


# -- samples -----------------------------------------------------------------------------------------------------------


def test_clients_of_unequal_sizes_keep_their_order_and_rows():
    samples = Samples.of(clients())
    assert len(samples) == len(SIZES)
    assert samples.sizes.tolist() == list(SIZES)
    for client, (x, y) in enumerate(clients()):
        mine = samples.client(client)
        assert (mine[0] == x).all()
        assert (mine[1] == y).all()


def test_select_gives_clients_in_the_order_asked_even_none():
    samples = Samples.of(clients())
    picked = samples.select([5, 0, 2])
    assert picked.sizes.tolist() == [11, 1, 7]
    assert [int(c) for c in dict.fromkeys(picked.x[:, 0])] == [5, 0, 2]
    none = samples.select([])
    assert len(none) == 0
    assert none.x.shape == (0, 2)
    assert none.y.dtype == samples.y.dtype


def test_deal_gives_each_client_the_rows_named_for_it():
    x, y = np.arange(6.0)[:, None], np.arange(6)
    dealt = Samples.deal(x, y, [np.array([4, 1]), np.array([], int), np.array([0, 5, 2])])
    assert dealt.sizes.tolist() == [2, 0, 3]
    assert dealt.client(0)[1].tolist() == [4, 1]
    assert dealt.client(2)[0][:, 0].tolist() == [0, 5, 2]


# -- setting samples and clients aside ---------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0, 0.2, 0.5, 0.99])
def test_the_test_part_takes_its_share_of_each_client_and_never_all(fraction):
    fed = federation(test_fraction=fraction)
    assert everything(fed) == ALL
    for part in (fed.train, fed.test):
        owners = np.repeat(np.arange(len(SIZES)), part.sizes)
        assert [c for c, _ in ids(part)] == owners.tolist()
    expected = [min(round(fraction * n), n - 1) for n in SIZES]
    assert fed.test.sizes.tolist() == expected


def test_validation_comes_from_the_training_part_alone_and_never_takes_all():
    fed = federation()
    split = fed.with_validation(0.9, seed=1)
    assert split.train.sizes.min() >= 1
    assert split.validation.sizes.sum() > 0
    assert everything(split) == ALL
    assert ids(split.test) == ids(fed.test)
    assert fed.with_validation(0.0, seed=1) is fed


@pytest.mark.parametrize(("share", "count"), [(0.3, 3), (1, 1), (4, 4), (9, 9)])
def test_new_clients_are_whole_clients_apart_from_the_rest_and_nothing_is_lost(share, count):
    fed = federation().with_validation(0.25, seed=0).with_new_clients(share, seed=0)
    assert len(fed.new) == count
    assert len(fed) == len(SIZES) - count
    assert everything(fed) == ALL
    for one in (fed, fed.new):
        for client in range(len(one)):
            number = int(one.client_name(client).removeprefix("client "))
            for part in (one.train, one.test, one.validation):
                assert set(part.client(client)[0][:, 0]) <= {number}
    assert not set(fed.client_names) & set(fed.new.client_names)


def test_who_is_set_aside_depends_on_the_seed_alone():
    def chosen(seed):
        return federation().with_new_clients(3, seed).new.client_names

    def split(seed):
        return ids(federation().with_validation(0.3, seed).train)

    assert chosen(0) == chosen(0) != chosen(1)
    assert split(0) == split(0) != split(1)
    assert ids(federation(seed=0).test) == ids(federation(seed=0).test) != ids(federation(seed=1).test)


@pytest.mark.parametrize("share", [-0.5, 0.01, 10, 11])
def test_an_impossible_number_of_new_clients_is_an_error(share):
    with pytest.raises(
        UserError, match=r"new_clients: no such number of new clients; given .*; allowed: 1 to 9 clients"
    ):
        federation().with_new_clients(share, seed=0)


@pytest.mark.parametrize("fraction", [-0.1, 1.0, 2])
def test_an_impossible_fraction_is_an_error(fraction):
    with pytest.raises(UserError, match="allowed: 0 <= fraction < 1"):
        federation(test_fraction=fraction)
    with pytest.raises(UserError, match="allowed: 0 <= fraction < 1"):
        federation().with_validation(fraction, seed=0)


# -- saving ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fed",
    [
        federation(),
        federation(test_fraction=0),
        federation(client_names=[f"writer {c}" for c in range(len(SIZES))]),
        federation().with_new_clients(3, seed=0).with_validation(0.3, seed=0),
        LinearTasks(clients=3, dtype="float64").federation(0),
    ],
    ids=["plain", "without test", "named", "new and validation", "regression"],
)
def test_a_loaded_federation_is_the_saved_one_mapped_into_memory(fed, tmp_path):
    back = Federation.load(fed.save(tmp_path / "a" / "b"))
    assert same(back, fed)
    assert isinstance(back.train.x, np.memmap)
    assert not back.train.x.flags.writeable
    for client in range(len(fed)):
        assert (back.train.client(client)[0] == fed.train.client(client)[0]).all()


def test_loading_what_is_no_federation_is_an_error(tmp_path):
    with pytest.raises(UserError, match="holds no federation"):
        Federation.load(tmp_path)
    federation().save(tmp_path)
    (tmp_path / "test.x.npy").unlink()
    with pytest.raises(UserError, match="lacks a part"):
        Federation.load(tmp_path)


def test_saving_over_an_older_federation_leaves_nothing_of_it(tmp_path):
    federation().with_validation(0.3, seed=0).save(tmp_path)
    federation().save(tmp_path)
    assert Federation.load(tmp_path).validation is None


# -- checks ------------------------------------------------------------------------------------------------------------


def test_an_empty_client_is_an_error_that_names_it():
    with pytest.raises(UserError, match="mine: client 1 has no training data; 2 of 4 clients are empty"):
        federation(sizes=(3, 0, 2, 0))
    with pytest.raises(UserError, match="mine: Zoe has no training data"):
        federation(sizes=(3, 0), client_names=["Al", "Zoe"])


def test_no_clients_at_all_is_an_error():
    with pytest.raises(UserError, match="mine: a federation needs at least one client"):
        federation(sizes=())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_input_that_is_not_finite_is_an_error_that_names_split_client_and_sample(value):
    fed = federation()
    x = fed.train.x.copy()
    x[fed.train.offsets[5] + 2, 1] = value
    with pytest.raises(UserError, match="mine: train inputs of client 5 .its sample 2. hold NaN or infinity"):
        replace(fed, train=replace(fed.train, x=x))
    x = fed.test.x.copy()
    x[0] = value
    with pytest.raises(UserError, match="mine: test inputs of client 1 .* hold NaN"):
        replace(fed, test=replace(fed.test, x=x))


def test_a_target_that_is_not_finite_is_an_error_that_names_the_client():
    fed = LinearTasks(clients=4, samples=5).federation(0)
    y = fed.train.y.copy()
    y[-1] = np.nan
    with pytest.raises(UserError, match="train targets of client 3 .its sample 4. hold NaN or infinity"):
        replace(fed, train=replace(fed.train, y=y))


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_out_of_range_is_an_error_that_tells_the_range(label):
    fed = federation()
    y = fed.train.y.copy()
    y[fed.train.offsets[2]] = label
    with pytest.raises(UserError, match=rf"mine: a train label of .* is out of range; given {label}; allowed: 0 to 2"):
        replace(fed, train=replace(fed.train, y=y))


def test_a_label_out_of_range_is_an_error_that_names_the_client():
    fed = federation()
    y = fed.train.y.copy()
    y[fed.train.offsets[2]] = 3
    with pytest.raises(UserError, match="client 2"):
        replace(fed, train=replace(fed.train, y=y))


def test_parts_for_other_clients_or_with_wrong_offsets_are_errors():
    fed = federation()
    with pytest.raises(UserError, match="test data is for another number of clients; given 2; allowed: 10"):
        replace(fed, test=fed.test.select([0, 1]))
    with pytest.raises(UserError, match="train data does not fit its offsets"):
        replace(fed, train=replace(fed.train, x=fed.train.x[:-1]))
    backwards = fed.train.offsets.copy()
    backwards[1] = backwards[2] + 1
    with pytest.raises(UserError, match="train data does not fit its offsets"):
        replace(fed, train=replace(fed.train, offsets=backwards))


@pytest.mark.parametrize(
    "shapes",
    [((3, 2), 2, (2, 2), 3), ((3, 2), 3, (3, 4), 3)],
    ids=["another number of labels than of inputs", "another shape than the other client's"],
)
def test_arrays_that_do_not_fit_together_are_an_error_that_names_the_client(shapes):
    x0, y0, x1, y1 = shapes
    with pytest.raises(UserError, match=r"client \d"):
        Federation.from_clients([(np.zeros(x0), np.zeros(y0, int)), (np.zeros(x1), np.zeros(y1, int))])


def test_offsets_that_do_not_begin_at_zero_are_an_error():
    fed = federation(sizes=(4, 5), test_fraction=0)
    with pytest.raises(UserError):
        replace(fed, train=replace(fed.train, offsets=np.array([1, 4, 9])))


def test_names_for_another_number_of_clients_are_an_error():
    with pytest.raises(UserError):
        federation(sizes=(3, 4), client_names=["Al"])


@pytest.mark.parametrize("part", ["train", "test", "validation"])
@pytest.mark.parametrize("array", ["x", "y", "offsets"])
def test_the_fingerprint_changes_with_any_value(part, array):
    fed = federation().with_validation(0.4, seed=0)
    samples = getattr(fed, part)
    values = getattr(samples, array).copy()
    values[2] = values[2] - 1 if array == "offsets" else (values[2] + 1) % 3
    assert values.tolist() != getattr(samples, array).tolist()
    changed = replace(fed, **{part: replace(samples, **{array: values})})
    assert changed.fingerprint != fed.fingerprint
    assert replace(fed).fingerprint == fed.fingerprint


def test_the_fingerprint_changes_with_the_new_clients():
    fed = federation().with_new_clients(3, seed=0)
    x = fed.new.test.x + 1
    changed = replace(fed, new=replace(fed.new, test=replace(fed.new.test, x=x)))
    assert changed.fingerprint != fed.fingerprint


def test_task_and_outputs_are_found_from_the_labels():
    x = np.zeros((4, 2), np.float32)
    assert Federation.from_clients([(x, np.array([0, 4, 1, 1]))]).outputs == 5
    flat, wide = (Federation.from_clients([(x, np.zeros((4, *shape), np.float32))]) for shape in ((), (3,)))
    assert (flat.task, flat.outputs, wide.outputs) == ("regression", 1, 3)


# -- digits ------------------------------------------------------------------------------------------------------------


def test_digits_are_1797_samples_of_ten_classes_split_by_class_without_overlap():
    from sklearn.datasets import load_digits

    pool = Digits(test_fraction=0.25).pool(seed=3)
    whole = np.concatenate([pool.x, pool.x_test])
    assert whole.shape == (1797, 64)
    assert whole.min() == 0
    assert whole.max() == 1
    assert pool.classes == 10
    original = (load_digits().data / 16).astype(np.float32)
    assert sorted(map(bytes, whole)) == sorted(map(bytes, original))
    for label in range(10):
        n, n_test = (pool.y == label).sum(), (pool.y_test == label).sum()
        assert n_test == round(0.25 * (n + n_test))


def test_digits_keep_image_and_label_together():
    from sklearn.datasets import load_digits

    digits = load_digits()
    label = dict(zip(map(bytes, (digits.data / 16).astype(np.float32)), digits.target, strict=True))
    pool = Digits().pool(seed=0)
    for x, y in ((pool.x, pool.y), (pool.x_test, pool.y_test)):
        assert [label[bytes(row)] for row in x] == y.tolist()


def test_the_digits_split_depends_on_the_seed_alone():
    one, again, other = (Digits().pool(seed) for seed in (0, 0, 1))
    assert (one.x == again.x).all()
    assert one.y.tolist() != other.y.tolist()


def test_federated_digits_have_disjoint_train_and_test_of_the_same_classes():
    fed = federate(Digits().pool(seed=0), Classes(3), clients=10, seed=0)
    assert (fed.task, fed.outputs, fed.sample_shape) == ("classification", 10, (64,))
    assert not set(map(bytes, fed.train.x)) & set(map(bytes, fed.test.x))
    for client in range(10):
        assert set(fed.train.client(client)[1]) == set(fed.test.client(client)[1])
        assert len(set(fed.train.client(client)[1])) == 3


# -- linear tasks ------------------------------------------------------------------------------------------------------


def test_without_noise_linear_tasks_have_exactly_the_true_outputs():
    source = LinearTasks(clients=6, dim=9, rank=3, samples=8, test_samples=4, dtype="float64")
    fed, truth = source.federation(5), source.truth(5)
    np.testing.assert_allclose(truth.body.T @ truth.body, np.eye(3), atol=1e-12)
    assert (fed.task, fed.outputs) == ("regression", 1)
    for samples, each in ((fed.train, 8), (fed.test, 4)):
        assert samples.sizes.tolist() == [each] * 6
        for client in range(6):
            x, y = samples.client(client)
            np.testing.assert_allclose(y, x @ truth.body @ truth.heads[client], rtol=0, atol=1e-12)


def test_labels_of_linear_classification_tasks_are_the_largest_true_outputs():
    source = LinearTasks(clients=5, classes=4, rank=3, samples=30, dtype="float64")
    fed, truth = source.federation(1), source.truth(1)
    assert (fed.task, fed.outputs) == ("classification", 4)
    for client in range(5):
        x, y = fed.train.client(client)
        assert (y == (truth.heads[client] @ truth.body.T @ x.T).argmax(axis=0)).all()
        assert len(set(y)) > 1


def test_noise_has_the_asked_standard_deviation_and_leaves_the_inputs():
    quiet, loud = (LinearTasks(clients=50, samples=200, noise=n).federation(0) for n in (0.0, 0.3))
    assert (quiet.train.x == loud.train.x).all()
    assert np.std(loud.train.y - quiet.train.y) == pytest.approx(0.3, rel=0.03)


def test_linear_tasks_depend_on_the_seed_alone_and_train_is_not_test():
    source = LinearTasks(clients=3, samples=6, test_samples=6)
    one, again, other = (source.federation(seed) for seed in (0, 0, 1))
    assert one.fingerprint == again.fingerprint != other.fingerprint
    assert not set(map(bytes, one.train.x)) & set(map(bytes, one.test.x))
    assert one.train.x.dtype == np.float32


def test_a_rank_above_the_dimension_is_an_error():
    with pytest.raises(UserError, match="rank above the input dimension; given 5; allowed: 1 to 4"):
        LinearTasks(dim=4, rank=5).federation(0)


def test_an_unknown_source_is_an_error_with_the_nearest_name():
    with pytest.raises(UserError, match=r"unknown data .*given 'digit'; .*did you mean 'digits'\?"):
        source_named("digit")
