"""Synthetic multi-task problems: clients share a linear representation, which is known, and differ in their heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.randomness import Purpose, generator
from manyheads.core.settings import settings
from manyheads.data.federation import Federation
from manyheads.data.samples import Samples

__all__ = ["LinearTasks", "Truth"]


@dataclass(frozen=True)
class Truth:
    """The true parameters: ``y = heads[i] @ body.T @ x``."""

    body: np.ndarray
    """B*, [dim, rank], orthonormal columns"""
    heads: np.ndarray
    """w*, [clients, rank] or [clients, classes, rank]"""


@settings
class LinearTasks:
    """Clients with ``y = w_i^T B^T x``: one representation B for all, a head w_i for each (Collins et al. 2021, 2022).

    With ``classes`` of 2 or more, w_i has that many outputs and the label is the index of the largest.
    """

    name: ClassVar[str] = "linear-tasks"
    model: ClassVar[str] = "mlp"
    clients: Annotated[int, Field(ge=1)] = 100
    """number of clients"""
    dim: Annotated[int, Field(ge=1)] = 20
    """input dimension, d"""
    rank: Annotated[int, Field(ge=1)] = 2
    """dimension of the shared representation, k"""
    samples: Annotated[int, Field(ge=1)] = 10
    """training samples per client, m"""
    test_samples: Annotated[int, Field(ge=1)] = 20
    """test samples per client"""
    noise: Annotated[float, Field(ge=0)] = 0.0
    """standard deviation of the noise on the outputs"""
    classes: Annotated[int, Field(ge=0)] = 0
    """number of classes; 0: regression"""
    dtype: Literal["float32", "float64"] = "float32"
    """type of the numbers"""

    def truth(self, seed: int) -> Truth:
        if self.rank > self.dim:
            raise UserError(
                "rank above the input dimension", where="data linear-tasks", given=self.rank, allowed=f"1 to {self.dim}"
            )
        rng = generator(seed, Purpose.DATA)
        body, _ = np.linalg.qr(rng.normal(size=(self.dim, self.rank)))
        shape = (self.clients, self.classes, self.rank) if self.classes else (self.clients, self.rank)
        return Truth(body, rng.normal(size=shape))

    def federation(self, seed: int) -> Federation:
        truth = self.truth(seed)
        train, test = (self._samples(truth, n, seed, split) for split, n in ((1, self.samples), (2, self.test_samples)))
        task = "classification" if self.classes else "regression"
        return Federation(self.name, train, test, task, self.classes or 1, truth=truth.body, own_test=True)

    def _samples(self, truth: Truth, each: int, seed: int, split: int) -> Samples:
        rng = generator(seed, Purpose.DATA, split)
        x = rng.standard_normal((self.clients, each, self.dim), dtype=np.dtype(self.dtype))
        z = x @ truth.body.astype(self.dtype)
        heads = truth.heads.astype(self.dtype).reshape(self.clients, -1, self.rank)
        y = z @ heads.transpose(0, 2, 1)
        if self.noise:
            y += self.noise * rng.standard_normal(y.shape, dtype=y.dtype)
        labels = y.argmax(axis=2).reshape(-1) if self.classes else y.reshape(-1)
        offsets = np.arange(self.clients + 1, dtype=np.int64) * each
        return Samples(x.reshape(-1, self.dim), labels, offsets)
