"""Similarity of representations: of subspaces, features of two networks, features of classes, layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from torch import Tensor

from manyheads.core.errors import UserError

__all__ = ["LinearCKA", "class_cosine_similarity", "layer_distances", "linear_cka", "principal_angle_distance"]

Array: TypeAlias = np.ndarray | Tensor


def principal_angle_distance(b1: Array, b2: Array) -> float:
    r"""The sine of the largest angle between the column spaces of two d x k matrices.

    ``dist(B1, B2) = || Q1_perp^T Q2 ||_2``, Q orthonormal bases; any bases may be given. It is computed as
    ``|| Q2 - Q1 Q1^T Q2 ||_2``, which resolves angles down to 1e-15; ``sqrt(1 - sigma_min(Q1^T Q2)^2)`` would lose
    everything below 1e-8.

    >>> b1 = np.eye(3)[:, :2]
    >>> round(principal_angle_distance(b1, np.array([[1.0, 0.0], [0.0, 0.8], [0.0, 0.6]])), 12)
    0.6

    Reference: Collins et al. 2021, Definition 1; Collins et al. 2022, Definition 2.
    """
    q1, q2 = (_orthonormal(b, name) for b, name in ((b1, "B1"), (b2, "B2")))
    if q1.shape != q2.shape:
        raise UserError("subspaces of different shapes", given=f"{q1.shape} and {q2.shape}", allowed="d x k, twice")
    return min(1.0, float(np.linalg.norm(q2 - q1 @ (q1.T @ q2), 2)))


def _orthonormal(basis: Array, name: str) -> np.ndarray:
    """An orthonormal basis of the column space of ``basis``; ``name`` is for errors."""
    eps = _eps(basis)
    b = _finite(basis, name)
    if b.ndim != 2 or not 1 <= b.shape[1] <= b.shape[0]:
        raise UserError(f"{name} is no basis", given=f"shape {b.shape}", allowed="(d, k) with 1 <= k <= d")
    largest = np.abs(b).max(axis=0)
    b = b / np.where(largest > 0, largest, 1)  # so that the scale of a column does not affect the rank
    smallest = np.linalg.svd(b, compute_uv=False)[-1]
    if smallest <= len(b) * eps:
        raise UserError(
            f"the columns of {name} are linearly dependent", given=f"smallest singular value {smallest:.1g}",
            allowed="full column rank",
        )  # fmt: skip
    return np.linalg.qr(b)[0]


def linear_cka(x: Array, y: Array, *, unbiased: bool = False) -> float:
    """Linear centered kernel alignment of the features of the same samples, [n, ...] each: 1 if alike, 0 if unrelated.

    ``CKA = HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L))`` with ``K = X X^T``, ``L = Y Y^T``. It does not change when the
    features are rotated or scaled. With ``unbiased``, HSIC is the estimator HSIC_1, whose mean does not depend on n;
    :class:`LinearCKA` accumulates that over minibatches.

    >>> x = np.random.default_rng(0).normal(size=(50, 4))
    >>> round(linear_cka(x, 3 * x[:, ::-1]), 6)
    1.0

    Reference: Kornblith et al., Similarity of Neural Network Representations Revisited, ICML 2019 (the biased form);
    Nguyen, Raghu, Kornblith, Do Wide and Deep Networks Learn the Same Things?, ICLR 2021 (unbiased, minibatches).
    """
    if unbiased:
        cka = LinearCKA()
        cka.update(x, y)
        return cka.value
    x, y = _features(x, y, least=2)
    if x.shape[1] * y.shape[1] <= len(x) ** 2:
        cross, own_x, own_y = (np.square(a.T @ b).sum() for a, b in ((x, y), (x, x), (y, y)))
    else:
        k, m = x @ x.T, y @ y.T
        cross, own_x, own_y = (k * m).sum(), np.square(k).sum(), np.square(m).sum()
    return _alignment(float(cross), float(own_x), float(own_y))


class LinearCKA:
    """Unbiased linear CKA, minibatch by minibatch: the means of HSIC_1 over the batches, then their ratio.

    >>> rng, cka = np.random.default_rng(0), LinearCKA()
    >>> for _ in range(10):
    ...     x = rng.normal(size=(20, 3))
    ...     cka.update(x, x @ np.diag([2.0, 2.0, 2.0]))
    >>> round(cka.value, 6)
    1.0
    """

    def __init__(self) -> None:
        self._sums = np.zeros(3)

    def update(self, x: Array, y: Array) -> None:
        """Add a minibatch of at least 4 samples: the features that two networks give them."""
        x, y = _features(x, y, least=4)
        k, m = x @ x.T, y @ y.T
        self._sums += [_hsic1(k, m), _hsic1(k, k), _hsic1(m, m)]

    @property
    def value(self) -> float:
        return _alignment(*self._sums.tolist())


def _hsic1(k: np.ndarray, m: np.ndarray) -> float:
    """The unbiased estimator of HSIC by Song et al. 2012, as Nguyen et al. 2021, equation 3."""
    n = len(k)
    k, m = (a - np.diag(np.diag(a)) for a in (k, m))
    sums_k, sums_m = k.sum(axis=1), m.sum(axis=1)
    middle = sums_k.sum() * sums_m.sum() / ((n - 1) * (n - 2))
    return float(((k * m).sum() + middle - 2 / (n - 2) * sums_k @ sums_m) / (n * (n - 3)))


def _alignment(cross: float, own_x: float, own_y: float) -> float:
    if not (own_x > 0 and own_y > 0):
        raise UserError(
            "CKA is not defined: the features do not vary", fix="give features that differ, or more samples"
        )
    return cross / math.sqrt(own_x) / math.sqrt(own_y)


def _features(x: Array, y: Array, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Both features centred, as [n, features]; neither form of HSIC depends on their means."""
    x, y = _finite(x, "X"), _finite(y, "Y")
    if x.ndim < 2 or y.ndim < 2 or len(x) != len(y) or len(x) < least:
        raise UserError(
            "features of the same samples are needed", given=f"shapes {x.shape} and {y.shape}",
            allowed=f"[n, ...] and [n, ...] with n >= {least}",
        )  # fmt: skip
    return _centred(x.reshape(len(x), -1)), _centred(y.reshape(len(y), -1))


def _centred(x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(axis=0)
    return centred if np.abs(centred).max(initial=0) > 1e-14 * np.abs(x).max(initial=0) else np.zeros_like(x)


def class_cosine_similarity(features: Array, labels: Array, n: int = 25, *, distinct: bool = False) -> np.ndarray:
    """Mean absolute cosine of the features of the first n samples of each two classes, [classes, classes].

    Entry (c, c') is ``1/n sum_i |<f_i^c, f_i^c'>| / (|f_i^c| |f_i^c'|)``. Classes are in ascending order of label.
    On the diagonal this formula compares every sample with itself and gives 1; with ``distinct`` the diagonal compares
    sample i with sample i + 1 of its class (the last with the first), which tells how alike a class is.

    >>> features = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [0.0, 1.0]])
    >>> class_cosine_similarity(features, np.array([0, 0, 1, 1]), n=2).round(3).tolist()
    [[1.0, 0.854], [0.854, 1.0]]

    Reference: Collins et al. 2022, Appendix C.2 (Figure 4).
    """
    f, y = _finite(features, "features"), _numpy(labels)
    if f.ndim != 2 or y.shape != (len(f),) or len(f) == 0:
        raise UserError(
            "features and labels do not fit", given=f"shapes {f.shape} and {y.shape}", allowed="[n, features] and [n]"
        )
    if n < (2 if distinct else 1):
        raise UserError("too few samples a class", where="n", given=n, allowed=f"{2 if distinct else 1} or more")
    rows = {c: np.flatnonzero(y == c)[:n] for c in np.unique(y).tolist()}
    for c, found in rows.items():
        if len(found) < n:
            raise UserError(f"class {c} has too few samples", given=len(found), allowed=f"{n} or more (n)")
    f = f[np.stack(list(rows.values()))]  # [classes, n, features]
    lengths = np.linalg.norm(f, axis=2, keepdims=True)
    if (lengths == 0).any():
        raise UserError("some features are all zero: they have no direction")
    f = f / lengths
    similarity = np.abs(np.einsum("cnf,enf->cen", f, f)).mean(axis=2)
    if distinct:
        np.fill_diagonal(similarity, np.abs((f * np.roll(f, -1, axis=1)).sum(axis=2)).mean(axis=1))
    return similarity


def layer_distances(before: Mapping[str, Array], after: Mapping[str, Array]) -> dict[str, float]:
    """The relative change of each layer of a model: ``|after - before| / |before|``, over all parameters of the layer.

    Names that differ in their last part only (``conv1.weight``, ``conv1.bias``) are one layer. If a layer was all zeros
    and changed, the result is infinite.

    >>> before = {"a.weight": np.ones((2, 2)), "a.bias": np.zeros(2), "b.weight": np.ones(4)}
    >>> layer_distances(before, before | {"a.bias": np.array([0.0, 1.0])})
    {'a': 0.5, 'b': 0.0}
    """
    if before.keys() != after.keys() or not before:
        raise UserError(
            "the two models have different parameters", given=", ".join(after) or "none", allowed=", ".join(before)
        )
    moved: dict[str, float] = {}
    length: dict[str, float] = {}
    for name in before:
        old, new = _finite(before[name], name), _finite(after[name], name)
        if old.shape != new.shape:
            raise UserError(f"{name} has two shapes", given=new.shape, allowed=str(old.shape))
        layer = name.rpartition(".")[0] or name
        moved[layer] = math.hypot(moved.get(layer, 0.0), float(np.linalg.norm(new - old)))
        length[layer] = math.hypot(length.get(layer, 0.0), float(np.linalg.norm(old)))
    return {k: moved[k] / length[k] if length[k] else (math.inf if moved[k] else 0.0) for k in moved}


def _numpy(value: Array) -> np.ndarray:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


def _eps(value: Array) -> float:
    """The machine epsilon of the value's number type."""
    kind = _numpy(value).dtype
    return float(np.finfo(kind).eps) if np.issubdtype(kind, np.floating) else float(np.finfo(float).eps)


def _finite(value: Array, name: str) -> np.ndarray:
    """The value as float64; an error if it holds NaN or infinity."""
    found = _numpy(value)
    if not np.issubdtype(found.dtype, np.number) or np.issubdtype(found.dtype, np.complexfloating):
        raise UserError(f"{name} holds no real numbers", given=str(found.dtype))
    found = found.astype(np.float64)
    if not np.isfinite(found).all():
        raise UserError(f"{name} holds values that are not finite", fix="did training diverge?")
    return found
