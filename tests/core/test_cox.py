"""The loss of a Cox model: Efron's formula term by term, its derivatives, and what must not change it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from manyheads.core.cox import cox_losses
from manyheads.core.tasks import task_named


def by_definition(risk: torch.Tensor, time: torch.Tensor, event: torch.Tensor) -> torch.Tensor:
    """Efron's negative log partial likelihood, as it stands in the textbook."""
    total = torch.zeros((), dtype=risk.dtype)
    for at in time[event == 1].unique():
        tied = (time == at) & (event == 1)
        S, T, d = risk[time >= at].exp().sum(), risk[tied].exp().sum(), int(tied.sum())
        total = total + sum(torch.log(S - k / d * T) for k in range(d)) - risk[tied].sum()
    return total


def drawn(seed: int, count: int = 25, times: int = 6) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Samples with many ties, also of events with censored times."""
    rng = np.random.default_rng(seed)
    draws = rng.normal(size=count), rng.integers(1, times + 1, count), rng.integers(0, 2, count)
    return tuple(torch.tensor(v, dtype=torch.float64) for v in draws)


@pytest.mark.parametrize("times", [2, 6, 1000])
def test_it_is_efrons_formula(times):
    for seed in range(10):
        risk, time, event = drawn(seed, times=times)
        torch.testing.assert_close(cox_losses(risk, time, event).sum(), by_definition(risk, time, event))


def test_first_and_second_derivatives_against_differences():
    risk, time, event = drawn(0, count=12)
    risk.requires_grad_()
    assert torch.autograd.gradcheck(lambda r: cox_losses(r, time, event), risk)
    assert torch.autograd.gradgradcheck(lambda r: cox_losses(r, time, event).sum(), risk)


def test_without_events_there_is_nothing_to_learn():
    risk, time, _ = drawn(1)
    risk.requires_grad_()
    loss = cox_losses(risk, time, torch.zeros_like(time)).sum()
    assert loss == 0
    assert torch.autograd.grad(loss, risk)[0].eq(0).all()
    assert len(cox_losses(risk[:0], time[:0], time[:0])) == 0


def test_only_events_have_a_loss():
    risk, time, event = drawn(2)
    assert (cox_losses(risk, time, event)[event == 0] == 0).all()


def test_what_does_not_change_it():
    """The order of samples, the unit of time, any increasing function of time, a constant added to all log risks."""
    risk, time, event = drawn(3)
    total = cox_losses(risk, time, event).sum()
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(risk)))
    for same in (
        (risk[order], time[order], event[order]),
        (risk, 365 * time, event),
        (risk, time.log() - 9, event),
        (risk + 50, time, event),
    ):
        torch.testing.assert_close(cox_losses(*same).sum(), total)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_risks_far_apart(dtype):
    """Sums of exponentials would overflow, or underflow to a logarithm of 0."""
    risk = torch.tensor([0.0, 900.0, -900.0], dtype=dtype, requires_grad=True)
    time, event = torch.tensor([3.0, 1.0, 2.0], dtype=dtype), torch.ones(3, dtype=dtype)
    loss = cox_losses(risk, time, event)
    assert loss.tolist() == [0, 0, 900]  # the last alone, the first of all, and the second against a risk of 1
    assert torch.autograd.grad(loss.sum(), risk)[0].tolist() == [1, 0, -1]


def test_a_sample_of_each_client_is_compared_with_its_own_only():
    """Padding (weight 0) and other clients do not matter; weights do."""
    task = task_named("survival")
    risk, time, event = drawn(4, count=9)
    labels = torch.stack([time, event], dim=1)
    weight = torch.tensor([[1 / 5] * 5 + [0.0], [1 / 4] * 4 + [0.0] * 2], dtype=torch.float64)
    rows = torch.tensor([[0, 1, 2, 3, 4, 8], [5, 6, 7, 8, 0, 0]])
    found = task.client_losses(risk[rows].unsqueeze(2), labels[rows], weight)
    own = [task.losses(risk[r], labels[r]).mean() for r in (slice(0, 5), slice(5, 9))]
    torch.testing.assert_close(found, torch.stack(own))
    together = task.losses(risk, labels).sum()
    assert abs(float(together - 5 * own[0] - 4 * own[1])) > 1
