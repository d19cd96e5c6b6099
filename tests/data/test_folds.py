"""Folds: every sample is tested once, classes are spread, groups stay whole, and nobody trains on the future."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from manyheads import Federation, UserError
from manyheads.data import Classes, Digits, LinearTasks, federate
from manyheads.data.sites.source import Sites

SIZES = (1, 2, 3, 8, 41)


def arrays(sizes=SIZES, classes=2, **how) -> Federation:
    """Samples that tell who they are: the input is (client, number)."""
    clients = [
        (np.array([[c, i] for i in range(n)], np.float32).reshape(n, 2), (c + np.arange(n)) % classes)
        for c, n in enumerate(sizes)
    ]
    return Federation.from_clients(clients, outputs=classes, **how)


def known(federation: Federation, **values) -> Federation:
    """With groups or times, given for each client's samples in their order."""
    parts = {}
    for name in ("train", "test"):
        part = getattr(federation, name)
        parts[name] = replace(
            part,
            **{
                k: np.concatenate([np.asarray(v[c])[part.rows[part.span(c)]] for c in range(len(part))])
                for k, v in values.items()
            },
        )
    return replace(federation, **parts)


def rows_in(folds: list[Federation], client: int) -> list[list[int]]:
    """The numbers of a client's samples that each fold tests."""
    return [fold.test.client(client)[0][:, 1].astype(int).tolist() for fold in folds]


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_every_sample_is_tested_once_and_trained_on_otherwise(count):
    folds = arrays().folds(count, seed=1)
    assert len(folds) == count
    for client, size in enumerate(SIZES):
        each = rows_in(folds, client)
        assert sorted([*chain(*each)]) == (list(range(size)) if size > 1 else [])
        sizes = [len(rows) for rows in each]
        assert max(sizes) - min(sizes) <= 1
        for fold, rows in zip(folds, each, strict=True):
            trained = fold.train.client(client)[0][:, 1].astype(int).tolist()
            assert trained == [i for i in range(size) if i not in rows]
            assert len(trained) >= 1


def test_the_places_of_the_tested_samples_put_the_predictions_together():
    federation = arrays()
    whole = np.full((len(SIZES), max(SIZES)), -1.0)
    for fold in federation.with_validation(0.3, seed=0).folds(4, seed=0):
        assert fold.validation is None
        owner = np.repeat(np.arange(len(fold)), fold.test.sizes)
        whole[owner, fold.test_rows] = fold.test.x[:, 1]
    for client, size in enumerate(SIZES[1:], start=1):
        assert whole[client, :size].tolist() == list(range(size))


def test_arrays_divided_before_are_counted_from_train_to_test():
    federation = LinearTasks(clients=3, samples=4, test_samples=2).federation(0)
    assert federation.test_rows.tolist() == [4, 5] * 3
    assert federation.with_validation(0.5, seed=0).test_rows.tolist() == [4, 5] * 3
    assert sorted(np.concatenate([fold.test_rows[: fold.test.sizes[0]] for fold in federation.folds(3, 0)])) == [
        *range(6)
    ]


@pytest.mark.parametrize("counts", [(50, 30, 10), (40, 3, 1), (7, 7, 7)])
def test_each_class_of_a_client_is_spread_over_the_folds(counts):
    y = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], counts))
    federation = Federation.from_clients([(np.arange(len(y), dtype=float)[:, None], y)] * 2)
    for seed in range(4):
        for client in range(2):
            found = [np.bincount(f.test.client(client)[1], minlength=3) for f in federation.folds(5, seed)]
            for label, total in enumerate(counts):
                assert {int(f[label]) for f in found} <= {total // 5, -(-total // 5)}


def test_folds_depend_on_the_seed_alone_and_differ_between_clients():
    federation = arrays((40, 40))
    assert (
        rows_in(federation.folds(5, 0), 0) == rows_in(federation.folds(5, 0), 0) != rows_in(federation.folds(5, 1), 0)
    )
    assert rows_in(federation.folds(5, 0), 0) != rows_in(federation.folds(5, 0), 1)


def test_targets_of_a_regression_are_divided_at_random():
    federation = LinearTasks(clients=2, samples=20, test_samples=5).federation(0)
    assert federation.division == "at random"
    sizes = np.array([fold.test.sizes for fold in federation.folds(5, 0)])
    assert (sizes == 5).all()


def test_one_fold_is_the_federation_and_none_is_an_error():
    federation = arrays()
    assert federation.folds(1, seed=0) == [federation]
    with pytest.raises(UserError, match="folds: no such number of folds; given 0; allowed: 1 or more"):
        federation.folds(0, seed=0)


# -- groups ------------------------------------------------------------------------------------------------------------


def patients(seed: int) -> tuple[Federation, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    groups = [rng.integers(0, most, n) for n, most in ((60, 20), (30, 4), (12, 12), (9, 1), (1, 1))]
    return known(arrays([len(g) for g in groups], test_fraction=0.3, seed=seed), groups=groups), groups


@pytest.mark.parametrize("seed", range(5))
def test_no_group_is_in_two_folds_nor_both_trained_on_and_tested(seed):
    federation, groups = patients(seed)
    folds = federation.folds(5, seed)
    for client in range(5):
        single = len(set(groups[client])) == 1
        assert sorted(chain(*rows_in(folds, client))) == ([] if single else list(range(len(groups[client]))))
        for fold in folds:
            own = [set(part.groups[part.span(client)]) for part in (fold.train, fold.test)]
            assert not own[0] & own[1]
            assert own[0]


def test_folds_of_groups_are_balanced_in_size_and_label():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), rng.integers(1, 6, 40))
    y = (rng.random(40) < 0.3).astype(int)[groups]  # all samples of a patient have one label
    federation = Federation.from_clients([(np.arange(len(y), dtype=float)[:, None], y)], outputs=2)
    found = [np.bincount(f.test.y, minlength=2) for f in known(federation, groups=[groups]).folds(5, 0)]
    assert np.ptp(found, axis=0).max() <= 3


@pytest.mark.parametrize("fraction", [0.1, 0.3, 0.9])
def test_validation_takes_whole_groups_and_never_all(fraction):
    federation, _ = patients(0)
    divided = federation.with_validation(fraction, seed=0)
    for client in range(5):
        own = [set(part.groups[part.span(client)]) for part in (divided.train, divided.validation)]
        assert own[0]
        assert not own[0] & own[1]
    assert divided.validation.sizes[0] == pytest.approx(fraction * federation.train.sizes[0], abs=5)


# -- time --------------------------------------------------------------------------------------------------------------


def visits(seed: int) -> tuple[Federation, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    times = [
        rng.integers(0, most, n).astype(float) for n, most in ((60, 1000), (30, 5), (3, 10), (2, 9), (6, 1), (1, 1))
    ]
    return known(arrays([len(t) for t in times], test_fraction=0.3), times=times), times


@pytest.mark.parametrize("seed", range(5))
def test_a_fold_in_time_is_trained_on_the_past_alone(seed):
    federation, times = visits(seed)
    folds = federation.folds(4, seed)
    for client, own in enumerate(times):
        each = rows_in(folds, client)
        assert len({*chain(*each)}) == len([*chain(*each)])
        for fold, rows in zip(folds, each, strict=True):
            trained = fold.train.client(client)[0][:, 1].astype(int)
            assert len(trained)
            if rows:
                assert own[trained].max() < own[rows].min()
                assert set(trained) == set(np.flatnonzero(own < own[rows].min()))
    never = [len(own) - len([*chain(*rows_in(folds, c))]) for c, own in enumerate(times)]
    assert never[0] == 12  # of 60: the first of five blocks
    assert never[4:] == [6, 1]  # all at one time, and a single visit


@pytest.mark.parametrize("fraction", [0.2, 0.5, 0.9])
def test_validation_in_time_is_the_latest_part_of_the_training_samples(fraction):
    federation, _ = visits(1)
    divided = federation.with_validation(fraction, seed=0)
    assert divided.validation.sizes[0] == pytest.approx(fraction * federation.train.sizes[0], abs=1)
    for client in range(6):
        train, later = (part.times[part.span(client)] for part in (divided.train, divided.validation))
        assert len(train)
        assert train.max() < later.min(initial=np.inf)


# -- validation --------------------------------------------------------------------------------------------------------


def test_validation_of_arrays_is_stratified_where_asked():
    y = np.repeat([0, 1, 2], (50, 30, 10))
    federation = Federation.from_clients([(np.arange(90.0)[:, None], y)], test_fraction=0)
    for seed in range(5):
        divided = federation.with_validation(0.2, seed, by_label=True)
        assert np.bincount(divided.validation.y).tolist() == [10, 6, 2]


@pytest.mark.parametrize("new", [0, 2])
def test_without_validation_everything_is_as_before(new):
    federation = federate(Digits().pool(0), Classes(3), clients=6, seed=0).with_new_clients(new, seed=0)
    divided = federation.with_validation(0.25, seed=0)
    assert divided.validation is not None
    assert divided.fingerprint != federation.fingerprint
    back = divided.without_validation()
    assert back.fingerprint == federation.fingerprint
    assert back.validation is None
    assert federation.without_validation() is federation


# -- tables ------------------------------------------------------------------------------------------------------------


def table(folder, name, rows, seed, odd=None):
    rng = np.random.default_rng(seed)
    lines = ["age,ward,label"]
    for i in range(rows):
        age, ward = round(rng.normal(50 + 10 * seed, 9), 1), "ABC"[rng.integers(3)]
        lines.append(f"{1e9 if i == odd else age},{'odd' if i == odd else ward},{i % 2}")
    (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture
def hospitals(tmp_path):
    folder = tmp_path / "hospitals"
    folder.mkdir()
    for seed, (name, rows) in enumerate((("a", 40), ("b", 8), ("c", 3), ("d", 2), ("e", 1))):
        table(folder, name, rows, seed)
    return folder


@pytest.mark.parametrize("scaling", ["client", "federated"])
def test_tables_are_encoded_by_the_training_rows_of_each_fold(hospitals, scaling):
    source = Sites(path=str(hospitals), scaling=scaling)
    federation = source.federation(0)
    plain = federation.folds(5, seed=0)
    assert len({fold.columns.mean for fold in plain}) == 5
    where = next(k for k, fold in enumerate(plain) if 17 in fold.test_rows[: fold.test.sizes[0]])
    table(hospitals, "a", 40, 0, odd=17)
    odd = source.federation(0).folds(5, seed=0)
    for k, (fold, other) in enumerate(zip(plain, odd, strict=True)):
        same = np.array_equal(fold.train.x, other.train.x) and fold.columns == other.columns
        assert same == (k == where)
    assert odd[where].test.x.max() > 1e6
    assert "odd" not in odd[where].columns.categories["ward"]


def test_a_fold_of_tables_is_what_the_source_makes_of_these_rows(hospitals):
    """Scaled by hand, from the file."""
    ages = np.genfromtxt(hospitals / "a.csv", delimiter=",", skip_header=1, usecols=0)
    for fold in Sites(path=str(hospitals)).federation(0).folds(3, seed=2):
        test = fold.test_rows[: fold.test.sizes[0]]
        train = np.delete(ages, test)
        np.testing.assert_allclose(
            fold.test.client(0)[0][:, 0], (ages[test] - train.mean()) / train.std(), rtol=1e-5, atol=1e-6
        )
        assert fold.test.client(0)[1].tolist() == (test % 2).tolist()


def test_tables_with_validation_and_back(hospitals):
    federation = Sites(path=str(hospitals)).federation(0)
    divided = federation.with_validation(0.25, seed=0)
    assert divided.columns.mean != federation.columns.mean  # validation rows have no part in it
    own = divided.train.client(0)[0][:, 0]
    assert abs(float(own.mean())) < 1e-6
    back = divided.without_validation()
    assert back.fingerprint == federation.fingerprint
    assert back.columns == federation.columns
    assert np.array_equal(back.train.hashes, federation.train.hashes)


def test_new_clients_of_tables_are_encoded_as_the_others(hospitals):
    federation = Sites(path=str(hospitals), scaling="federated").federation(0).with_new_clients(2, seed=0)
    for one in (federation.with_validation(0.2, 0), *federation.folds(2, 0)):
        assert one.new.columns == one.columns
        assert one.new.train.sizes.tolist() == federation.new.train.sizes.tolist() or one.validation is not None


def test_saved_tables_are_divided_as_they_were_encoded_and_this_is_told(hospitals, tmp_path):
    federation = Federation.load(Sites(path=str(hospitals)).federation(0).save(tmp_path / "saved"))
    folds = federation.folds(5, seed=0)
    assert all(fold.columns == federation.columns for fold in folds)
    assert all(sum("columns stay scaled" in w for w in fold.with_validation(0.2, 0).doubts) == 1 for fold in folds)
    assert not any("columns stay scaled" in w for w in federation.doubts)
    again = Federation.load(folds[1].save(tmp_path / "fold"))
    assert again.test_rows.tolist() == folds[1].test_rows.tolist()
    assert sorted(np.concatenate([fold.test_rows[: fold.test.sizes[0]] for fold in folds])) == list(range(40))


# -- whose test part -------------------------------------------------------------------------------------------------


def test_a_test_part_of_its_own_is_known(tmp_path):
    assert LinearTasks(clients=2).federation(0).own_test
    digits = federate(Digits().pool(0), Classes(3), clients=4, seed=0)
    assert not digits.own_test
    own = federate(replace(Digits().pool(0), own_test=True), Classes(3), clients=4, seed=0)
    assert own.own_test
    assert Federation.load(own.with_validation(0.2, 0).save(tmp_path)).own_test
