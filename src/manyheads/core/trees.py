"""Trees of tensors: the values that algorithms compute with.

A :class:`Tree` holds named tensors (a model, its head, a gradient) and adds, scales and joins like a vector.
A :class:`State` names a few of them: what the server holds, what a client keeps, what an upload carries.

A tree that belongs to a *cohort* carries a leading client dimension on every leaf; a server's tree does not, and
broadcasts against it, so the same lines of an algorithm serve one client and a thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor

from manyheads.core.products import Leaf, Product, formed, plus, scaled

__all__ = ["Params", "State", "Tree", "Value", "aligned"]


def aligned(value: Tensor) -> Tensor:
    """The same values in memory aligned as torch aligns its own: the last bit of a product may depend on that."""
    return value.clone() if value.data_ptr() % 64 else value


def _received(array: np.ndarray) -> Tensor:
    """The tensor of an array that was sent; one in shared memory may not be written to, and is copied."""
    return aligned(torch.from_numpy(array)) if array.flags.writeable else torch.tensor(array)


class Tree(Mapping[str, Tensor]):
    """Named tensors with the arithmetic of a vector. Immutable; operations give new trees.

    >>> w = Tree({"a": torch.tensor([1.0, 2.0]), "b": torch.tensor(3.0)})
    >>> (w - 0.5 * w)["a"]
    tensor([0.5000, 1.0000])
    """

    __slots__ = ("_scale", "_stored")

    def __init__(self, leaves: Mapping[str, Tensor] | Mapping[str, Leaf] | None = None) -> None:
        self._stored: dict[str, Leaf] = dict(leaves or {})
        self._scale: float | Tensor | None = None

    @property
    def terms(self) -> dict[str, Leaf]:
        """The leaves; those that are products stay unformed."""
        if self._scale is not None:
            self._stored, self._scale = {k: scaled(v, self._scale) for k, v in self._stored.items()}, None
        return self._stored

    @property
    def _leaves(self) -> dict[str, Tensor]:
        """The leaves. A multiple or a product is computed when it is first read; a sum adds it in one pass instead."""
        if any(isinstance(v, Product) for v in self.terms.values()):
            self._stored = {k: formed(v) for k, v in self._stored.items()}
        return cast("dict[str, Tensor]", self._stored)

    def __getitem__(self, name: str) -> Tensor:
        leaf = self.terms[name]
        if isinstance(leaf, Product):
            leaf = self._stored[name] = formed(leaf)
        return leaf

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __getstate__(self) -> dict[str, np.ndarray]:  # sent to workers as plain bytes, not as shared memory
        return {k: v.detach().cpu().numpy() for k, v in self._leaves.items()}

    def __setstate__(self, arrays: dict[str, np.ndarray]) -> None:
        self._stored, self._scale = {k: _received(v) for k, v in arrays.items()}, None

    def __repr__(self) -> str:
        return f"Tree({ {k: tuple(v.shape) for k, v in self.items()} })"

    def map(self, fn: Callable[..., Tensor], *others: Tree) -> Tree:
        """Apply ``fn`` leaf by leaf, to this tree and to others with the same names."""
        if any(o.keys() != self.keys() for o in others):
            raise KeyError(f"trees with different names: {[sorted(t) for t in (self, *others)]}")
        return Tree({k: fn(v, *(o[k] for o in others)) for k, v in self._leaves.items()})

    def __add__(self, other: Tree) -> Tree:
        return self._plus(other, 1)

    def __sub__(self, other: Tree) -> Tree:
        return self._plus(other, -1)

    def _plus(self, other: Tree, sign: int) -> Tree:
        if other.keys() != self.keys():
            raise KeyError(f"trees with different names: {[sorted(t) for t in (self, other)]}")
        scale = sign if other._scale is None else sign * other._scale
        return Tree({k: plus(v, other._stored[k], scale) for k, v in self.terms.items()})

    def __mul__(self, scale: float | Tensor) -> Tree:
        """Scale by a number, or by one number per client (shape [C])."""
        single = isinstance(scale, Tensor) and scale.ndim != 1
        if single or not all(isinstance(v, Product) or v.is_floating_point() for v in self._stored.values()):
            return self.map(lambda v: v * scale)
        multiple = Tree(self.terms)
        multiple._scale = scale if isinstance(scale, Tensor) else float(scale)
        return multiple

    __rmul__ = __mul__

    def lerp(self, other: Tree, share: Tensor) -> Tree:
        """``(1 - share) self + share other``; ``share`` is a number, or one per client (shape [C])."""
        return self.map(lambda a, b: torch.lerp(a, b, share.to(b).reshape(-1, *[1] * (b.ndim - 1) * share.ndim)), other)

    def __or__(self, other: Mapping[str, Tensor]) -> Tree:
        return Tree({**self._leaves, **other})

    def select(self, names: Mapping[str, Any] | Set[str]) -> Tree:
        """The leaves whose names are in ``names``, in this tree's order."""
        return Tree({k: v for k, v in self._leaves.items() if k in names})

    def clone(self) -> Tree:
        return self.map(torch.clone)

    def dot(self, other: Tree) -> Tensor:
        """Inner product of each client's values, [C]."""
        return torch.stack([(v * other[k]).flatten(1).sum(dim=1) for k, v in self.items()]).sum(dim=0)

    def last_layers(self, count: int) -> Tree:
        """The parameters of the last ``count`` layers: names that differ in their last part only are one layer."""
        layers = list(dict.fromkeys(k.rpartition(".")[0] for k in self))
        return Tree({k: v for k, v in self.items() if k.rpartition(".")[0] in layers[-count:]})

    def to(self, device: torch.device | str) -> Tree:
        return self.map(lambda v: v.to(device))

    @property
    def numel(self) -> int:
        return sum(v.numel() for v in self._leaves.values())

    @property
    def nbytes(self) -> int:
        return sum(v.numel() * v.element_size() for v in self._leaves.values())


Value: TypeAlias = Tree | Tensor


class State(Mapping[str, Value]):
    """A few named trees or tensors, read as attributes: ``State(body=..., control=...).body``.

    ``flat`` and ``unflat`` turn it into ``{"body/0.weight": tensor, ...}`` and back, the form in which it is stored
    and sent.
    """

    __slots__ = ("_values",)
    _values: dict[str, Value]

    def __init__(self, **values: Value) -> None:
        object.__setattr__(self, "_values", values)

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"state has {sorted(self._values)}, not {name!r}") from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a State is a value; build a new one")

    def __getstate__(self) -> dict[str, Tree | np.ndarray]:
        return {k: v if isinstance(v, Tree) else v.detach().cpu().numpy() for k, v in self._values.items()}

    def __setstate__(self, values: dict[str, Tree | np.ndarray]) -> None:
        tensors = {k: v if isinstance(v, Tree) else _received(v) for k, v in values.items()}
        object.__setattr__(self, "_values", tensors)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __or__(self, other: State) -> State:
        return State(**{**self._values, **other._values})

    def __repr__(self) -> str:
        return f"State({', '.join(f'{k}={v!r}' for k, v in self._values.items())})"

    def map(self, fn: Callable[[Tensor], Tensor]) -> State:
        return State(**{k: v.map(fn) if isinstance(v, Tree) else fn(v) for k, v in self._values.items()})

    @property
    def flat(self) -> dict[str, Tensor]:
        leaves: dict[str, Tensor] = {}
        for name, value in self._values.items():
            if isinstance(value, Tree):
                leaves.update({f"{name}/{k}": v for k, v in value.items()})
            else:
                leaves[name] = value
        return leaves

    def unflat(self, leaves: Mapping[str, Tensor]) -> State:
        """A state with the structure of this one and the given leaves, the inverse of ``flat``."""
        return State(
            **{
                name: Tree({k: leaves[f"{name}/{k}"] for k in value}) if isinstance(value, Tree) else leaves[name]
                for name, value in self._values.items()
            }
        )

    @property
    def nbytes(self) -> int:
        return sum(v.numel() * v.element_size() for v in self.flat.values())


class Params(NamedTuple):
    """A model's trained parameters: the shared body and the personal head."""

    body: Tree
    head: Tree
    norms: frozenset[str] = frozenset()
    """names of those that belong to norm layers, running statistics included"""

    @property
    def all(self) -> Tree:
        return self.body | self.head
