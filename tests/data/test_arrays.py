"""Federations from a user's own arrays: what the labels become."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from manyheads import FedAvg, simulate
from manyheads.core.errors import UserError
from manyheads.data import Federation

X = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)


def made(*labels, **how) -> Federation:
    return Federation.from_clients([(X, y) for y in labels], **how)


def classes_of(federation: Federation) -> list[int]:
    return sorted(set(np.concatenate([federation.train.y, federation.test.y]).tolist()))


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (np.array(["no", "yes"] * 5), ("no", "yes")),
        (np.array(["no", "yes"] * 5, object), ("no", "yes")),
        (np.array([b"no", b"yes"] * 5), ("no", "yes")),
        (["no", "yes"] * 5, ("no", "yes")),
        ([1, 2] * 5, ("1", "2")),
        (np.array([1, 2] * 5, object), ("1", "2")),
        (np.array([-1, 1] * 5, np.int8), ("-1", "1")),
        (np.array([[3], [7]] * 5), ("3", "7")),
        (["1", 2] * 5, ("1", "2")),
    ],
)
def test_labels_that_are_no_class_numbers_are_classes_with_names(labels, names):
    federation = made(labels, labels)
    assert (federation.task, federation.outputs, federation.label_names) == ("classification", 2, names)
    assert classes_of(federation) == [0, 1]
    assert federation.encoding.labels == names


@pytest.mark.parametrize("labels", [[0, 2] * 5, np.array([0, 2] * 5, np.uint8), np.array([0, 2] * 5, object)])
def test_whole_numbers_from_0_on_are_class_numbers(labels):
    federation = made(labels)
    assert (federation.task, federation.outputs, federation.label_names) == ("classification", 3, ())
    assert classes_of(federation) == [0, 2]


def test_class_numbers_stay_what_they_are_if_the_classes_are_counted():
    federation = made([1, 2] * 5, outputs=3)
    assert classes_of(federation) == [1, 2]
    with pytest.raises(UserError, match="out of range; given 2; allowed: 0 to 1"):
        made([1, 2] * 5, outputs=2)


def test_labels_of_all_clients_are_looked_at_together():
    federation = made(["a", "b"] * 5, ["b", "c"] * 5)
    assert federation.label_names == ("a", "b", "c")
    assert made([1] * 10, [0] * 10).outputs == 2


@pytest.mark.parametrize("labels", [[0.5, 1] * 5, np.array([0.0, 1.0] * 5), np.zeros((10, 4), np.float32)])
def test_other_numbers_are_a_regression(labels):
    assert made(labels).task == "regression"
    assert made(np.array([0.0, 1.0] * 5), task="classification").train.y.dtype == np.int64
    assert made([True, False] * 5).task == "classification"


def test_lists_and_tensors_are_arrays_and_can_be_trained_on():
    federation = Federation.from_clients([(X.tolist(), ["u", "v"] * 5), (torch.from_numpy(X), ["v", "u"] * 5)])
    assert federation.train.sizes.tolist() == [8, 8]
    assert simulate(FedAvg(), "mlp", federation, rounds=1).rounds == 1


@pytest.mark.parametrize(
    ("clients", "how", "words"),
    [
        ([], {}, "at least one client"),
        ([X], {}, "client 0 is not a pair of arrays"),
        ([3], {}, "client 0 is not a pair of arrays"),
        ([(X, [0, 1] * 5), ([[1, 2], [3]], [0, 1])], {}, "client 1 is not a pair of arrays"),
        ([(X, [0])], {}, "one row per sample"),
        ([(X, 0)], {}, "one row per sample"),
        ([(X.astype(str), [0, 1] * 5)], {}, "inputs that are not numbers"),
        ([(X, [0, None] * 5)], {}, "a label is missing"),
        ([(X, ["a", float("nan")] * 5)], {"task": "classification"}, None),
        ([(X, np.array(["a", np.nan] * 5, object))], {}, "a label is missing"),
        ([(X, np.zeros((10, 3), int))], {}, "one label per sample"),
        ([(X, ["tall", "small"] * 5)], {"task": "regression"}, "cannot be targets of a regression"),
        ([(X, np.array([0.5, 1] * 5))], {"task": "classification"}, "not whole numbers"),
        ([(X, np.zeros(10, complex))], {}, "unknown type"),
    ],
)
def test_what_is_no_federation_is_refused(clients, how, words):
    if words is None:  # numpy itself makes text of it
        assert Federation.from_clients(clients, **how).label_names == ("a", "nan")
        return
    with pytest.raises(UserError, match=words):
        Federation.from_clients(clients, **how)


def test_names_are_text_that_does_nothing_on_a_terminal():
    federation = made(["a\x1b[2J", "b"] * 5, [0, 1] * 5, client_names=["x\x1b[31m", 7], name="n\x07")
    assert federation.client_names == (r"x\x1b[31m", "7")
    assert federation.label_names[2] == r"a\x1b[2J"
    assert federation.name == r"n\x07"


def test_clients_that_cannot_be_measured_are_told():
    federation = Federation.from_clients([(X[:2], [0, 1]), (X, [0, 1] * 5)], client_names=["small", "large"])
    assert federation.warnings == ("1 of 2 clients have too few samples to set some aside for test: 'small'",)
    federation = federation.with_validation(0.2, seed=0)
    assert [w.split(" for ")[1] for w in federation.warnings] == ["test: 'small'", "validation: 'small'"]
    assert made([0, 1] * 5).warnings == ()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"splits": 3}', '{"name": "a", "splits": ["train"]}', "\xff"])
def test_a_saved_federation_that_was_damaged_is_one_line(tmp_path, text):
    made([0, 1] * 5).save(tmp_path / "saved")
    assert Federation.load(tmp_path / "saved").outputs == 2
    (tmp_path / "saved" / "federation.json").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match="is not a readable federation"):
        Federation.load(tmp_path / "saved")


# -- test parts, groups and times --------------------------------------------------------------------------------------


def numbers(first: int, count: int) -> np.ndarray:
    return np.arange(first, first + count, dtype=np.float32)[:, None]


def test_a_test_part_of_ones_own_is_kept_and_labels_are_named_over_both_parts():
    clients = [(numbers(0, 3), ["a", "b", "a"]), (numbers(10, 2), ["b", "b"])]
    test = [(numbers(3, 2), ["c", "a"]), (numbers(12, 0), np.array([], str))]
    federation = Federation.from_clients(clients, test=test)
    assert federation.own_test
    assert federation.label_names == ("a", "b", "c")
    assert federation.train.x[:, 0].tolist() == [0, 1, 2, 10, 11]
    assert federation.test.x[:, 0].tolist() == [3, 4]
    assert federation.test.y.tolist() == [2, 0]
    assert federation.test_rows.tolist() == [3, 4]
    assert not Federation.from_clients(clients).own_test
    folds = federation.folds(2, seed=0)
    assert sorted(x for fold in folds for x in fold.test.x[:, 0].tolist()) == [0, 1, 2, 3, 4, 10, 11]


def test_groups_are_not_divided_and_may_be_anything():
    clients = [(numbers(0, 30), np.arange(30) % 2), (numbers(0, 12), np.arange(12) % 2)]
    patients = [[f"patient {i // 3}" for i in range(30)], np.repeat([7, 900, -1], 4)]
    federation = Federation.from_clients(clients, groups=patients, seed=1)
    assert 0 < federation.test.sizes[0] < 30
    for client, names in enumerate(patients):
        train, test = (part.client(client)[0][:, 0].astype(int) for part in (federation.train, federation.test))
        assert not {names[i] for i in train} & {names[i] for i in test}


@pytest.mark.parametrize("kind", ["float", "datetime64[D]", "datetime64[ns]"])
def test_the_test_part_is_later_than_the_training_part(kind):
    days = np.random.default_rng(0).permutation(20)
    times = days.astype(float) if kind == "float" else (np.datetime64("2020-01-01") + days).astype(kind)
    federation = Federation.from_clients([(numbers(0, 20), np.arange(20) % 2)], times=[times])
    assert sorted(days[federation.test.x[:, 0].astype(int)]) == [16, 17, 18, 19]
    assert federation.with_validation(0.25, seed=0).validation.sizes.tolist() == [4]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"test": []}, "mine: not one test part for each client; given 0; allowed: 1"),
        ({"test": [(np.zeros((2, 1)), [0, 1, 1])]}, "mine: the test part of client 0: x and y need one row per sample"),
        ({"groups": [[1, 2]]}, r"mine: groups do not fit the samples; given 'shapes \(2,\)'"),
        ({"groups": [[1, 2, 3]], "test": [(np.zeros((1, 1)), [0])]}, "groups do not fit the samples"),
        ({"times": [["now", "then", "later"]]}, "mine: times that are not numbers or dates"),
        ({"times": [[1.0, np.nan, 2.0]]}, "mine: times that are not numbers or dates"),
        ({"times": [np.array(["2020-01-01", "NaT", "2020-01-02"], "datetime64[D]")]}, "times that are not numbers"),
        ({"times": [[1, 2, 3]], "groups": [[1, 2, 3]]}, "mine: samples are divided by group or by time, not by both"),
    ],
)
def test_parts_groups_and_times_that_do_not_fit_are_errors(how, message):
    with pytest.raises(UserError, match=message):
        Federation.from_clients([(numbers(0, 3), [0, 1, 1])], name="mine", **how)
