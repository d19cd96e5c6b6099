"""Plain chains: modules that are nothing but linear layers, each followed by an activation or none.

They are computed without calling the module: a stack of clients by batched matrix products and, if the derivatives of
the activations are known, training without autograd (:mod:`manyheads.engines.chain`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

__all__ = ["Chain", "Link"]

_ELEMENTWISE = (nn.ReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU, nn.Softplus)
"""elementwise activations, which a leading client dimension does not affect"""


@dataclass(frozen=True)
class Link:
    """A linear layer and the activation after it."""

    name: str
    """prefix of ``weight`` and ``bias`` in the names of the model's parameters"""
    linear: nn.Linear
    activation: nn.Module | None


@dataclass(frozen=True)
class Chain:
    """The layers of a plain chain."""

    links: tuple[Link, ...]
    flat: bool
    """whether samples are flattened first"""

    @classmethod
    def of(cls, module: nn.Module, prefix: str = "") -> Chain | None:
        """The module as a chain, with ``prefix`` before its parameters' names; None if it is not a plain chain.

        Layers must have exactly the known types, since a subclass may compute something else, and none may occur twice,
        since the gradients of all uses of a shared weight would have to be added.
        """
        return cls.of_layers(list(_layers(module, prefix)))

    @classmethod
    def of_layers(cls, layers: Sequence[tuple[str, nn.Module]]) -> Chain | None:
        """The layers, applied one after the other, as a chain; each has a prefix of its parameters' names."""
        flat = bool(layers) and repr(layers[0][1]) == repr(nn.Flatten())
        links: list[Link] = []
        for name, layer in layers[flat:]:
            if type(layer) is nn.Linear:
                links.append(Link(name, layer, None))
            elif type(layer) in _ELEMENTWISE and links and links[-1].activation is None:
                links[-1] = Link(links[-1].name, links[-1].linear, layer)
            elif type(layer) is not nn.Identity:
                return None
        parameters = [p for link in links for p in link.linear.parameters()]
        return cls(tuple(links), flat) if links and len(set(parameters)) == len(parameters) else None

    def within(self, module: nn.Module) -> Chain:
        """The same chain with the layers of a copy of its module."""
        linear = cast("list[nn.Linear]", [module.get_submodule(link.name[:-1]) for link in self.links])
        return Chain(
            tuple(Link(link.name, own, link.activation) for link, own in zip(self.links, linear, strict=True)),
            self.flat,
        )

    def reads(self, x: Tensor) -> bool:
        """Whether the chain can be applied to samples of this shape and type, [B, ...]."""
        return x.dtype == self.links[0].linear.weight.dtype and (x.ndim == 2 or self.flat)

    def stacked(self, params: Mapping[str, Tensor], x_CBI: Tensor) -> Tensor:
        """Outputs of C models; ``params`` are [C, ...], and parameters not among them are the module's own."""
        h = x_CBI
        for link in self.links:
            weight, bias = (self._of_each(link, kind, params, len(h)) for kind in ("weight", "bias"))
            assert weight is not None
            h = torch.bmm(h, weight.mT) if bias is None else torch.baddbmm(bias.unsqueeze(1), h, weight.mT)
            h = h if link.activation is None else link.activation(h)
        return h

    def _of_each(self, link: Link, kind: str, params: Mapping[str, Tensor], clients: int) -> Tensor | None:
        own: Tensor | None = getattr(link.linear, kind)
        return params.get(f"{link.name}{kind}", own if own is None else own.expand(clients, *own.shape))


def _layers(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """The layers with their names in the order of the computation, nested sequences flattened."""
    if type(module) is not nn.Sequential:
        yield name, module
        return
    for part, child in module._modules.items():  # not named_children(), which shows a shared layer only once
        assert child is not None
        yield from _layers(child, f"{name}{part}.")
