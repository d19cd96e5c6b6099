"""The clients' replies in a round: the server's check of them, and their weighted mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from manyheads.core.contract import Each, Mean, Uploads, weighted_mean
from manyheads.core.errors import UserError
from manyheads.core.trees import State
from manyheads.core.words import quoted

__all__ = [
    "NOT_FINITE",
    "Accepted",
    "Gathering",
    "Reply",
    "accepted",
    "check_upload",
    "different_names",
    "finite_clients",
    "gathered",
]

NOT_FINITE = "values are not finite"


@dataclass(frozen=True)
class Reply:
    """What clients send to the server, not checked yet."""

    clients: Sequence[int]
    """their addresses"""
    weights: np.ndarray
    """their weights in the weighted mean, [C]"""
    upload: State
    """the upload of each client, [C, ...]"""
    failed: Mapping[int, str]
    """clients that report their own result as unusable: the reason, by address"""


@dataclass(frozen=True)
class Accepted:
    """Replies that passed the server's check, and the reasons why others did not."""

    clients: list[int]
    weights: np.ndarray
    uploads: Each | Mean | None
    """None if no reply passed"""
    dropped: dict[int, str]
    """the reason why a client's reply cannot be used, by address"""

    def averaged(self) -> Accepted:
        """The same with only the weighted mean of the uploads."""
        return replace(self, uploads=Mean(_mean(self.uploads, self.weights))) if self.uploads else self


def accepted(reply: Reply, expected: State) -> Accepted:
    """The server's check: names, shapes and types must be as expected, values finite, and weights positive."""
    clients = list(reply.clients)
    faults = _faults(reply, expected)
    good = [i for i, client in enumerate(clients) if client not in faults]
    upload, weights = reply.upload, reply.weights
    if faults and good:
        upload, weights = upload.map(lambda v: v[good]), weights[good]
    return Accepted([clients[i] for i in good], weights[: len(good)], Each(upload) if good else None, faults)


def _faults(reply: Reply, expected: State) -> dict[int, str]:
    clients = list(reply.clients)
    try:
        check_upload(reply.upload, expected, len(clients))
    except UserError as error:
        return dict.fromkeys(clients, str(error))
    finite = finite_clients(reply.upload, len(clients)).tolist()
    faults = {c: NOT_FINITE for c, ok in zip(clients, finite, strict=True) if not ok} | dict(reply.failed)
    for client, weight in zip(clients, reply.weights.tolist(), strict=True):
        if not (np.isfinite(weight) and weight > 0):
            faults[client] = f"weight {weight} is not a positive number"
    return faults


class Gathering:
    """Replies that come part after part, always in the same order.

    Means are added up as they come, so that memory does not grow with the number of parts. ``weight`` is that of all
    clients that were asked; if some of them are dropped, the sum is scaled in the end.
    """

    def __init__(self, weight: float) -> None:
        self._weight = weight
        self._others: list[Accepted] = []
        self._means: list[Accepted] = []
        """without their uploads, except for a single one"""
        self._total: State | None = None
        """what the shares of several means add up to"""

    def add(self, part: Accepted) -> None:
        if not isinstance(part.uploads, Mean):
            self._others.append(part)
            return
        if len(self._means) == 1:  # only now: a single mean is taken as it is
            self._add(self._means.pop())
        if self._total is not None:
            self._add(part)
        else:
            self._means.append(part)

    def _add(self, part: Accepted) -> None:
        assert isinstance(part.uploads, Mean)
        mean, share = part.uploads.value, float(part.weights.sum() / self._weight)
        if self._total is None:
            self._total = mean.map(lambda v: share * v)
        else:
            total = self._total.flat
            for name, leaf in mean.flat.items():
                total[name].add_(leaf, alpha=share)
        self._means.append(replace(part, uploads=None))

    def parts(self) -> list[Accepted]:
        """All that was gathered, the means as one; only to be called when all have come."""
        if self._total is None:
            return self._others + self._means
        weights = np.concatenate([part.weights for part in self._means])
        if (weight := float(weights.sum())) != self._weight:
            self._total = self._total.map(lambda v: v.mul_(self._weight / weight))
            self._weight = weight
        clients = [client for part in self._means for client in part.clients]
        dropped = {client: why for part in self._means for client, why in part.dropped.items()}
        return [*self._others, Accepted(clients, weights, Mean(self._total), dropped)]


def gathered(parts: Sequence[Accepted], each: bool) -> Uploads | None:
    """The uploads of all parts in client order: of ``each`` client if asked for and available, otherwise their mean.

    The mean is computed from the means of the parts, so it is the same whether these were taken at the workers or here.
    None if no reply can be used.
    """
    parts = [part for part in parts if part.uploads is not None]
    if not parts:
        return None
    clients = np.array([client for part in parts for client in part.clients])
    order = torch.from_numpy(np.argsort(clients, kind="stable"))
    weights = torch.from_numpy(np.concatenate([part.weights for part in parts]))[order]
    received = (_rows(parts, order) if each else None) or _mean_of_means(parts, float(weights.sum()))
    return Uploads(clients[order.numpy()].tolist(), weights, received)


def _rows(parts: Sequence[Accepted], order: Tensor) -> Each | None:
    """The uploads of each client; None if some were averaged already."""
    uploads = [part.uploads.rows for part in parts if isinstance(part.uploads, Each)]
    if len(uploads) < len(parts):
        return None
    leaves = [upload.flat for upload in uploads]
    return Each(uploads[0].unflat({k: torch.cat([part[k] for part in leaves])[order] for k in leaves[0]}))


def _mean_of_means(parts: Sequence[Accepted], weight: float) -> Mean:
    gathering = Gathering(weight)
    for part in parts:
        gathering.add(part.averaged())
    (found,) = gathering.parts()
    assert isinstance(found.uploads, Mean)
    return found.uploads


def _mean(uploads: Each | Mean, weights: np.ndarray) -> State:
    return uploads.value if isinstance(uploads, Mean) else weighted_mean(uploads.rows, torch.from_numpy(weights))


def check_upload(upload: State, expected: State, clients: int) -> None:
    """Raise unless ``upload``, for ``clients`` clients, has the names, shapes and types of ``expected``."""
    got, want = upload.flat, expected.flat
    if got.keys() != want.keys():
        raise UserError(f"wrong names in upload: it {different_names(got, want)}")
    for name, value in got.items():
        if value.shape != (clients, *want[name].shape):
            raise UserError(
                f"wrong shape of {name} in upload", given=tuple(value.shape), allowed=str((clients, *want[name].shape))
            )
        if value.dtype != want[name].dtype:
            raise UserError(f"wrong type of {name} in upload", given=value.dtype, allowed=str(want[name].dtype))


def different_names(got: Iterable[str], want: Iterable[str]) -> str:
    """The missing and the superfluous leaves of a state, in words; an entry that only one of the two has is named once.

    >>> different_names(["model/a", "step"], ["model/a", "momentum/a", "momentum/b"])
    "lacks 'momentum', has 'step'"
    """
    parts = (("lacks", set(want), set(got)), ("has", set(got), set(want)))
    told = [f"{verb} {quoted(*_entries(one - other, other))}" for verb, one, other in parts if one - other]
    return ", ".join(told)


def _entries(names: set[str], others: set[str]) -> list[str]:
    known = {name.partition("/")[0] for name in others}
    return sorted({n if (entry := n.partition("/")[0]) in known else entry for n in names})


def finite_clients(state: State, clients: int) -> Tensor:
    """Which clients' values are all finite, [C]."""
    ok = torch.ones(clients, dtype=torch.bool)
    for value in state.flat.values():
        rows = value.reshape(clients, -1)
        if not rows.sum(dim=1).isfinite().all():  # fast: a finite sum has finite terms only
            ok &= rows.isfinite().all(dim=1).cpu()
    return ok
