"""How much each layer of a network changed: the similarity of its outputs before and after."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import UserError
from manyheads.metrics.representation import linear_cka

__all__ = ["layer_cka", "layer_outputs"]


def layer_outputs(module: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """The output of every layer that has parameters of its own, by its name, in the order in which they are called.

    >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> {name: tuple(out.shape) for name, out in layer_outputs(net, torch.zeros(5, 3)).items()}
    {'0': (5, 4), '2': (5, 2)}
    """
    found: dict[str, Tensor] = {}

    def keeps(name: str) -> Any:
        def keep(layer: nn.Module, given: Any, out: Any) -> None:
            found[name] = (
                (out[0] if isinstance(out, tuple) else out).detach().clone()
            )  # the next layer may work in place

        return keep

    layers = {name: m for name, m in module.named_modules() if any(True for _ in m.parameters(recurse=False))}
    hooks = [layer.register_forward_hook(keeps(name)) for name, layer in layers.items()]
    training = module.training
    try:
        module.eval()
        with torch.no_grad():
            module(x)
    finally:
        module.train(training)
        for hook in hooks:
            hook.remove()
    return found


def layer_cka(before: nn.Module, after: nn.Module, x: Tensor) -> dict[str, float]:
    """Linear CKA of each layer's outputs for the same inputs: 1 where fine-tuning changed nothing that matters.

    >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> {name: round(value, 6) for name, value in layer_cka(net, net, torch.randn(20, 3)).items()}
    {'0': 1.0, '2': 1.0}

    Reference: Collins et al. 2022, Figure 2; Kornblith et al. 2019.
    """
    first, second = layer_outputs(before, x), layer_outputs(after, x)
    if first.keys() != second.keys():
        raise UserError("the two networks have different layers", given=", ".join(second), allowed=", ".join(first))
    return {name: linear_cka(first[name].flatten(1), second[name].flatten(1)) for name in first}
