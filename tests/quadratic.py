"""A federation of least-squares problems, where everything is known: f_i(w) = 1/2 w^T A_i w - b_i^T w + const."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from manyheads import Federation, Model
from manyheads.data import Samples

SIZES = (12, 20, 9, 15)
DIM = 3


def problem(seed: int = 0, sizes: tuple[int, ...] = SIZES, alike: bool = False) -> Federation:
    """Clients with different designs and different answers (or all the same)."""
    rng = np.random.default_rng(seed)
    clients = []
    for n in sizes:
        x = rng.normal(size=(n, DIM)) * rng.uniform(0.7, 1.3, DIM)
        clients.append((x, x @ rng.normal(size=DIM) + 0.3 * rng.normal(size=n)))
    if alike:
        clients = [clients[0]] * len(clients)
    samples = Samples.of(clients)
    return Federation("quadratic", samples, samples, "regression", 1)


def model() -> Model:
    net = nn.Linear(DIM, 1, bias=False).double()
    with torch.no_grad():
        net.weight[:] = torch.tensor([[0.5, -1.0, 2.0]])
    return Model(net)


class Quadratic:
    """The answers, in closed form."""

    def __init__(self, federation: Federation) -> None:
        pairs = [federation.train.client(i) for i in range(len(federation))]
        self.sizes = np.array([len(y) for _, y in pairs])
        self.A = np.array([x.T @ x / len(y) for x, y in pairs])
        self.b = np.array([x.T @ y / len(y) for x, y in pairs])
        self.own = np.array([np.linalg.solve(A, b) for A, b in zip(self.A, self.b, strict=True)])
        """each client's own optimum"""

    def weights(self, kind: str) -> np.ndarray:
        w = self.sizes if kind == "samples" else np.ones(len(self.sizes))
        return w / w.sum()

    def optimum(self, kind: str) -> np.ndarray:
        """Of the weighted mean of the losses."""
        p = self.weights(kind)
        return np.linalg.solve(np.einsum("i,ijk->jk", p, self.A), p @ self.b)

    def balance(self, matrices: np.ndarray, p: np.ndarray) -> np.ndarray:
        """The w at which ``sum p_i M_i (w - w_i*) = 0``."""
        return np.linalg.solve(np.einsum("i,ijk->jk", p, matrices), np.einsum("i,ijk,ik->j", p, matrices, self.own))

    def fedavg(self, lr: float, steps: int, kind: str) -> np.ndarray:
        """Where FedAvg with full gradients stands still: sum p_i (I - (I - lr A_i)^tau)(w - w_i*) = 0."""
        eye = np.eye(DIM)
        moved = np.array([eye - np.linalg.matrix_power(eye - lr * A, steps) for A in self.A])
        return self.balance(moved, self.weights(kind))

    def near(self, lam: float, w: np.ndarray) -> np.ndarray:
        """Each client's optimum of f_i(v) + lam/2 |v - w|^2, for one w or one each."""
        w = np.broadcast_to(w, self.b.shape)
        return np.array(
            [np.linalg.solve(A + lam * np.eye(DIM), b + lam * a) for A, b, a in zip(self.A, self.b, w, strict=True)]
        )

    def l2gd(self, lam: float) -> np.ndarray:
        """min 1/n sum f_i(x_i) + lam/(2n) sum |x_i - mean x|^2: x_i = prox_i(mean x), and the mean is theirs."""
        inverse = [np.linalg.inv(A + lam * np.eye(DIM)) for A in self.A]
        pulled = np.mean([M @ b for M, b in zip(inverse, self.b, strict=True)], axis=0)
        return self.near(lam, np.linalg.solve(np.eye(DIM) - lam * np.mean(inverse, axis=0), pulled))
