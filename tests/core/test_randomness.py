"""Draws depend on their address alone, and batch plans visit every sample."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.core.randomness import Purpose, batch_plan, generator, torch_seeded

EXAMPLES = settings(max_examples=100, deadline=None, derandomize=True)
ADDRESSES = [
    (seed, purpose, *rest)
    for seed in (0, 1)
    for purpose in Purpose
    for rest in ((), (0,), (1,), (1, 0), (0, 1), (1, 1, 0))
]


def test_the_same_address_gives_the_same_draws():
    for address in ADDRESSES:
        assert generator(*address).random(4).tolist() == generator(*address).random(4).tolist()


def test_another_seed_purpose_round_or_client_gives_other_draws():
    draws = {address: tuple(generator(*address).integers(2**63, size=2)) for address in ADDRESSES}
    assert len(set(draws.values())) == len(ADDRESSES)


def test_purposes_keep_their_numbers():
    """They are part of every recorded result."""
    first = ["MODEL", "DATA", "SPLIT", "PARTITION", "NEW_CLIENTS", "SAMPLING", "BATCHES", "NOISE", "COIN"]
    assert [Purpose(i).name for i in range(len(first))] == first


def test_a_recorded_draw_stays_what_it_was():
    """Should this ever fail, every recorded result can no longer be reproduced."""
    assert generator(0, Purpose.SAMPLING, 3).integers(1000, size=4).tolist() == [764, 450, 160, 519]


def test_torch_seeded_depends_on_its_address_alone():
    def draw(*address):
        with torch_seeded(*address):
            return torch.rand(3).tolist()

    torch.manual_seed(1)
    first = draw(0, Purpose.MODEL)
    torch.manual_seed(2)
    assert draw(0, Purpose.MODEL) == first
    others = [draw(1, Purpose.MODEL), draw(0, Purpose.NOISE), draw(0, Purpose.MODEL, 1)]
    assert all(a != b for a, b in itertools.combinations([first, *others], 2))


def test_global_generators_are_neither_read_nor_written():
    np.random.seed(5)  # noqa: NPY002 (it is about the global generator)
    torch.manual_seed(5)
    expected = np.random.rand(), torch.rand(1).item()  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    generator(0, Purpose.DATA).random(10)
    with torch_seeded(0, Purpose.MODEL):
        torch.rand(10)
    assert (np.random.rand(), torch.rand(1).item()) == expected  # noqa: NPY002


def test_torch_seeded_gives_the_global_generator_back_after_an_error():
    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), torch_seeded(0, Purpose.MODEL):
        _ = torch.rand(1) + 1 / 0
    assert torch.equal(torch.get_rng_state(), before)


@EXAMPLES
@given(st.integers(1, 60), st.integers(1, 70), st.integers(0, 4), st.integers(0, 9))
def test_every_epoch_visits_every_sample_once_in_batches_of_the_asked_size(samples, batch, epochs, seed):
    plan = batch_plan(np.random.default_rng(seed), samples, batch=batch, epochs=epochs)
    per_epoch = -(-samples // batch)
    assert len(plan) == epochs * per_epoch
    for start in range(0, len(plan), per_epoch):
        one_pass = plan[start : start + per_epoch]
        assert sorted(np.concatenate(one_pass)) == list(range(samples))
        assert all(len(rows) == min(batch, samples) for rows in one_pass[:-1])


@EXAMPLES
@given(st.integers(1, 60), st.integers(0, 70), st.integers(1, 50), st.integers(0, 9))
def test_steps_gives_exactly_so_many_from_passes_without_repetition(samples, batch, steps, epochs):
    plan = batch_plan(np.random.default_rng(0), samples, batch=batch, epochs=epochs, steps=steps)
    assert len(plan) == steps
    per_pass = -(-samples // batch) if batch else 1
    for start in range(0, steps, per_pass):
        seen = np.concatenate(plan[start : start + per_pass])
        assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("batch", [0, 7, 100])
def test_batch_zero_or_not_below_the_samples_means_all_of_them_in_every_step(batch):
    for plan in (
        batch_plan(np.random.default_rng(0), 7, batch=batch, epochs=3),
        batch_plan(np.random.default_rng(0), 7, batch=batch, steps=3),
    ):
        assert [sorted(rows) for rows in plan] == [list(range(7))] * 3


def test_epochs_are_shuffled_differently_and_plans_depend_on_the_generator():
    plan = batch_plan(np.random.default_rng(0), 50, batch=25, epochs=2)
    assert plan[0].tolist() != plan[2].tolist()
    again, other = (batch_plan(np.random.default_rng(s), 50, batch=25, epochs=2) for s in (0, 1))
    assert [r.tolist() for r in again] == [r.tolist() for r in plan]
    assert [r.tolist() for r in other] != [r.tolist() for r in plan]
