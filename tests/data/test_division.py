"""Divisions of any labels, groups and times: what must hold of each."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from manyheads.data.division import fold_numbers, set_aside
from manyheads.data.samples import Samples

LABELS = st.lists(st.integers(0, 3), min_size=1, max_size=40)


def of_one(labels, **known) -> Samples:
    y = np.array(labels)
    return Samples(np.zeros((len(y), 1)), y, np.array([0, len(y)]), **{k: np.array(v) for k, v in known.items()})


@given(LABELS, st.integers(2, 7), st.integers(0, 9))
def test_folds_differ_by_one_sample_and_by_one_of_each_label(labels, count, seed):
    numbers = fold_numbers(of_one(labels), count, seed, lambda y: y)
    if len(labels) == 1:
        assert numbers.tolist() == [-1]
        return
    for label in (slice(None), *(np.array(labels) == k for k in set(labels))):
        found = np.bincount(numbers[label], minlength=count)
        assert len(found) == count
        assert found.max() - found.min() <= 1


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 8)), min_size=1, max_size=40), st.integers(2, 6))
def test_a_group_is_in_one_fold_and_some_group_is_left_to_train_on(pairs, count):
    labels, groups = zip(*pairs, strict=True)
    numbers = fold_numbers(of_one(labels, groups=groups), count, 0, lambda y: y)
    folds = {group: set(numbers[np.array(groups) == group].tolist()) for group in set(groups)}
    assert all(len(found) == 1 for found in folds.values())
    if len(folds) == 1:
        assert folds[groups[0]] == {-1}
    else:
        assert len(set(numbers.tolist())) > 1
        assert numbers.min() >= 0


@given(st.lists(st.integers(0, 12), min_size=1, max_size=40), st.integers(2, 6))
def test_folds_follow_each_other_in_time(times, count):
    numbers = fold_numbers(of_one([0] * len(times), times=times), count, 0, lambda y: y)
    order = np.argsort(times, kind="stable")
    assert (np.diff(numbers[order]) >= 0).all()
    assert numbers[order[0]] == -1
    assert all(len(set(numbers[np.array(times) == t].tolist())) == 1 for t in times)
    assert numbers.max() < count


@given(
    LABELS,
    st.floats(0, 0.99),
    st.sampled_from(["", "groups", "times"]),
    st.lists(st.integers(0, 6), min_size=40, max_size=40),
)
def test_something_is_left_whatever_is_set_aside(labels, fraction, kind, values):
    known = {kind: values[: len(labels)]} if kind else {}
    aside = set_aside(of_one(labels, **known), fraction, 3, strata=lambda y: y)
    assert not aside.all()
    own = np.array(values[: len(labels)])
    if kind == "groups":
        assert not set(own[aside]) & set(own[~aside])
    elif kind == "times" and aside.any():
        assert own[~aside].max() < own[aside].min()
    elif not kind:
        assert aside.sum() == min(round(fraction * len(labels)), len(labels) - 1)
