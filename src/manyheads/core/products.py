"""Leaves of trees that are known as products of two narrow matrices, as gradients of linear layers are.

The gradient of a weight [O, I] on a batch of B samples is ``dZ^T H``, of rank B. As a term of a sum it is added by the
product itself, and a sum of two is one of rank 2 B; so a step ``w - lr * gradient`` never forms the gradient.

Shapes: C clients, B the inner dimension, O x I the matrix.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

__all__ = ["Leaf", "Product", "add_times", "formed", "plus", "product_of", "scaled", "times"]


class Product(NamedTuple):
    """A stack of matrices ``left @ right``."""

    left_COB: Tensor
    right_CBI: Tensor

    @property
    def mT(self) -> Product:
        return Product(self.right_CBI.mT, self.left_COB.mT)


Leaf: TypeAlias = Tensor | Product


def product_of(left_COB: Tensor, right_CBI: Tensor) -> Leaf:
    """The product of two stacks; formed at once if the factors are larger than it."""
    (rows, inner), columns = left_COB.shape[-2:], right_CBI.shape[-1]
    if inner * (rows + columns) < rows * columns:
        return Product(left_COB, right_CBI)
    return torch.bmm(left_COB, right_CBI)


def formed(leaf: Leaf) -> Tensor:
    return torch.bmm(leaf.left_COB, leaf.right_CBI) if isinstance(leaf, Product) else leaf


def scaled(leaf: Leaf, scale: float | Tensor) -> Leaf:
    """A multiple; ``scale`` is a number, or one for each client, [C]."""
    narrow = leaf.left_COB if isinstance(leaf, Product) else leaf
    multiple = narrow * (_beside(scale, narrow) if isinstance(scale, Tensor) else scale)
    return Product(multiple, leaf.right_CBI) if isinstance(leaf, Product) else multiple


def plus(value: Leaf, term: Leaf, scale: float | Tensor) -> Leaf:
    """``value + scale * term`` in one pass; ``scale`` is a number, or one for each client, [C]."""
    if isinstance(term, Product) and isinstance(scale, Tensor):  # the narrow factor is the cheaper one to scale
        term, scale = scaled(term, scale), 1
    if isinstance(value, Product) and isinstance(term, Product):
        left = torch.cat([value.left_COB, term.left_COB * scale], 2)
        return product_of(left, torch.cat([value.right_CBI, term.right_CBI], 1))
    if isinstance(term, Product):
        assert isinstance(value, Tensor)
        assert not isinstance(scale, Tensor)
        return torch.baddbmm(value, *term, alpha=scale)
    if isinstance(scale, Tensor):
        return torch.addcmul(formed(value), term, _beside(scale, term))
    if isinstance(value, Product):
        return torch.baddbmm(term, *value, beta=scale)
    return torch.add(value, term, alpha=scale)


def times(h_CBO: Tensor, leaf: Leaf) -> Tensor:
    """``h @ leaf``, without forming the product."""
    return (h_CBO @ leaf.left_COB) @ leaf.right_CBI if isinstance(leaf, Product) else h_CBO @ leaf


def add_times(out_CBI: Tensor, h_CBO: Tensor, leaf: Leaf) -> None:
    """Add ``h @ leaf``, in place."""
    h_CBO, leaf = (h_CBO @ leaf.left_COB, leaf.right_CBI) if isinstance(leaf, Product) else (h_CBO, leaf)
    out_CBI.baddbmm_(h_CBO, leaf)


def _beside(scale_C: Tensor, value: Tensor) -> Tensor:
    """The scale, with a dimension for each of the value's, so that it multiplies client by client."""
    return scale_C.to(value.dtype).reshape(-1, *[1] * (value.ndim - 1))
