"""Cox's partial likelihood, with Efron's treatment of ties."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["cox_losses"]


def cox_losses(log_risk: Tensor, time: Tensor, event: Tensor) -> Tensor:
    """What each sample adds to the negative log partial likelihood, [B]; 0 without an event (``event`` 0).

    With ``d`` events at one time, the k-th of them (k from 0) adds ``log(S - k/d T) - log_risk``, where S is the sum of
    the risks of all who were seen at that time or later, and T that of the d.

    >>> risk, time = torch.tensor([1.0, 2.0, 1.0]).log(), torch.tensor([5.0, 3.0, 3.0])
    >>> cox_losses(risk, time, torch.tensor([0.0, 1.0, 1.0])).exp()  # 4 / 2, and (4 - 3/2) / 1
    tensor([1.0000, 2.0000, 2.5000])

    References: Cox, Regression Models and Life-Tables, 1972; Efron, The Efficiency of Cox's Likelihood Function for
    Censored Data, 1977.
    """
    order = torch.argsort(event, stable=True)
    order = order[torch.argsort(time[order], descending=True, stable=True)]  # of one time, the events come last
    o, events = log_risk[order], event[order].nonzero().squeeze(1)
    _, tie, d = torch.unique_consecutive(time[order][events], return_inverse=True, return_counts=True)
    first = d.cumsum(0) - d
    k = torch.arange(len(events), dtype=o.dtype, device=o.device) - first[tie]
    seen_later = torch.cat([o.new_full((1,), -torch.inf), o.logcumsumexp(0)])
    others = seen_later[events[first]][tie]  # log(S - T)
    tied = _logsumexp(o[events], tie, len(d))[tie]  # log T
    # not torch.logaddexp, whose second derivative at minus infinity is NaN
    highest = torch.maximum(others, tied).detach()
    at_risk = highest + ((others - highest).exp() + (1 - k / d[tie]) * (tied - highest).exp()).log()
    return torch.zeros_like(o).index_add(0, order[events], at_risk - o[events])


def _logsumexp(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """The logarithm of the sum of exponentials in each group."""
    fixed = values.detach()
    highest = fixed.new_zeros(groups).scatter_reduce(0, group, fixed, "amax", include_self=False)
    return highest + values.new_zeros(groups).index_add(0, group, (values - highest[group]).exp()).log()
