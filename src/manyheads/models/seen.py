"""Finds out by watching one pass which layers a module consists of, whatever its class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from manyheads.models.chain import Chain

__all__ = ["chain_seen"]

_ACTIVATIONS: Mapping[str, type[nn.Module]] = {
    "relu": nn.ReLU, "relu_": nn.ReLU, "tanh": nn.Tanh, "tanh_": nn.Tanh, "sigmoid": nn.Sigmoid, "sigmoid_": nn.Sigmoid,
    "elu": nn.ELU, "elu_": nn.ELU, "gelu": nn.GELU, "silu": nn.SiLU, "leaky_relu": nn.LeakyReLU, "softplus": nn.Softplus,
}  # fmt: skip
"""by the name of the function, as torch.relu, functional.relu and Tensor.relu have in common"""
_FLATTEN = ("flatten", "view", "reshape")
_OF_SHAPE = (
    Tensor.size, Tensor.dim, Tensor.numel, Tensor.__len__, Tensor.is_floating_point,
    *(vars(torch._C.TensorBase)[name].__get__ for name in ("shape", "ndim", "dtype", "device")),
)  # fmt: skip
"""questions whose answer does not depend on the values"""


class _Watching(TorchFunctionMode):
    """Records every call of a function of torch in this thread."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Callable[..., Any], tuple[Any, ...], Any]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.calls.append((func, args, out))
        return out


def chain_seen(module: nn.Module, x: Tensor) -> Chain | None:
    """The chain of linear layers that a pass with these samples went through; None if it did anything else.

    What was seen once is a guess, to be verified on other parameters, in training, and on batches of other sizes.
    """
    with torch.no_grad(), _Watching() as watching:
        out = module(x)
    names = {id(p): name for name, p in module.named_parameters()}
    layers: list[tuple[str, nn.Module]] = []
    reached: Any = x
    for func, args, result in watching.calls:
        if func in _OF_SHAPE:
            continue
        if not args or args[0] is not reached:
            return None
        layer = _layer(module, names, func.__name__, args)
        if layer is None or (type(layer[1]) is nn.Flatten and (layers or result.ndim != 2)):
            return None
        layers.append(layer)
        reached = result
    chain = Chain.of_layers(layers)
    if chain is None or reached is not out:
        return None
    used = {id(p) for link in chain.links for p in link.linear.parameters()}
    return chain if used == names.keys() else None  # others are not trained, and yet may decay


def _layer(
    module: nn.Module, names: Mapping[int, str], function: str, args: tuple[Any, ...]
) -> tuple[str, nn.Module] | None:
    """The layer, with its name, that would make this call."""
    if function in _ACTIVATIONS:
        return "", _ACTIVATIONS[function]()
    if function in _FLATTEN:
        return "", nn.Flatten()
    if function != "linear":
        return None
    name = names.get(id(args[1]), "").removesuffix("weight")
    layer = module.get_submodule(name[:-1])
    weight, bias = (*args[1:], None)[:2]
    return (name, layer) if type(layer) is nn.Linear and layer.weight is weight and layer.bias is bias else None
