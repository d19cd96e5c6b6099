"""The form of a linear layer that costs least."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from manyheads.core.optim import SGD
from manyheads.engines.descent import Descent, Pull
from manyheads.engines.dual import Dual
from manyheads.engines.layers import Direct, Layer, Start, Steps

__all__ = ["layer_for", "work"]


def layer_for(
    start: Start,
    steps: Steps,
    opt: SGD,
    prox: Pull | None,
    correction: Mapping[str, Tensor] | None,
    first: bool,
    lowest: bool,
) -> Layer:
    """The layer in the cheaper form."""
    if "weight" in start.into:
        shrinks, constant = bool(prox or opt.weight_decay), bool(prox or correction)
        costs = work(start, steps, opt, shrinks, constant, first, lowest)
        if min(costs, key=costs.__getitem__) == "dual":
            return Dual(start, opt, steps, prox, correction)
    return Direct(start, Descent(opt, start.into, prox, correction))


def work(
    start: Start, steps: Steps, opt: SGD, shrinks: bool, constant: bool, first: bool, lowest: bool
) -> dict[str, float]:
    """The cost of all steps in each form, in multiplications; ``lowest``: nothing is trained below this layer.

    Updating a weight in memory costs as much as 5 multiplications, and 30 more for each further pass over the weights:
    with momentum, with a constant, and with momentum if the weight shrinks.
    """
    (outputs, inputs), samples = start.weight.shape[-2:], int(steps.sizes.max())
    count, visits = len(steps.plans[0]), max(sum(map(len, plan)) for plan in steps.plans)
    products, move = 2 if lowest else 3, 35 if opt.momentum else 5
    passes = 30 * (constant + (shrinks and opt.momentum > 0))
    costs = {"direct": float(outputs * inputs * (products * visits + (move + passes) * count))}
    if first:
        once, shrunk = inputs * ((2 + constant) * outputs + samples), 30 * shrinks
        costs["dual"] = samples * (once + outputs * (visits + (move + shrunk) * count))
    return costs
