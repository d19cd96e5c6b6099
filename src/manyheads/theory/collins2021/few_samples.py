"""How few samples a client needs with a shared representation (Collins et al. 2021, Sections 4.2 and 5.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyheads.algorithms import FedRepLinear
from manyheads.core.randomness import Purpose, generator
from manyheads.data import LinearTasks
from manyheads.metrics import principal_angle_distance
from manyheads.models import LinearRepresentation, build_model
from manyheads.run import Evaluate, Run, simulate
from manyheads.theory.paper import Say

__all__ = ["newcomer_errors", "sample_sweep"]

NOISE = 1e-3
"""standard deviation of the labels' noise, as in the authors' notebook; the paper's N(., 1e-3) would be a variance"""
SAMPLES = (2, 3, 5, 10, 20, 40)
ROUNDS = 100
NEWCOMERS = 200


def sample_sweep(dim: int, rank: int, clients: int, seed: int, say: Say) -> list[dict[str, Any]]:
    """Each client has m samples for all rounds: FedRep's distance and error, and the error of local training.

    First the number of clients varies (a fifth, once, five times), then the dimension (half, twice). Errors are
    ``|beta_i - B_* w_i|^2``, the median over clients; locally, beta_i is the minimum-norm least-squares solution.
    """
    cells = [(n, dim) for n in (max(rank + 1, clients // 5), clients, 5 * clients)]
    cells += [(clients, d) for d in (max(rank + 1, dim // 2), 2 * dim)]
    rows = []
    for n, d in dict.fromkeys(cells):
        say(f"distance by samples per client: {n} clients, d = {d}")
        for m in SAMPLES:
            tasks = LinearTasks(clients=n, dim=d, rank=rank, samples=m, noise=NOISE, dtype="float64")
            train = tasks.federation(seed).train
            run, truth = _trained(tasks, seed), tasks.truth(seed)
            shared, alone = [], []
            for i in range(n):
                true = truth.body @ truth.heads[i]
                body, head = (v.numpy() for v in run.client_model(i).values())
                x, y = train.client(i)
                shared.append(np.square(body.T @ head[0] - true).sum())
                alone.append(np.square(np.linalg.pinv(x) @ y - true).sum())
            rows.append(
                {
                    "clients": n,
                    "dim": d,
                    "samples": m,
                    "dist": principal_angle_distance(_body(run), truth.body),
                    "error": float(np.median(shared)),
                    "error_local": float(np.median(alone)),
                }
            )
    return rows


def newcomer_errors(dim: int, rank: int, clients: int, seed: int) -> list[dict[str, Any]]:
    """New clients with 1 to 2 d samples: a head fitted on FedRep's representation, and local training (Figure 4)."""
    tasks = LinearTasks(clients=clients, dim=dim, rank=rank, samples=2 * dim, noise=NOISE, dtype="float64")
    truth, body = tasks.truth(seed).body, _body(_trained(tasks, seed))
    rng = generator(seed, Purpose.NEW_CLIENTS)
    heads = rng.normal(size=(NEWCOMERS, rank))
    x = rng.normal(size=(NEWCOMERS, 2 * dim, dim))
    y = np.einsum("cmd,cd->cm", x, heads @ truth.T) + NOISE * rng.normal(size=(NEWCOMERS, 2 * dim))
    rows = []
    for m in range(1, 2 * dim + 1):
        with_head = (np.linalg.pinv(x[:, :m] @ body) @ y[:, :m, None])[:, :, 0] @ body.T
        alone = (np.linalg.pinv(x[:, :m]) @ y[:, :m, None])[:, :, 0]
        head, local = (float(np.median(np.square(b - heads @ truth.T).sum(axis=1))) for b in (with_head, alone))
        rows.append({"samples": m, "head": head, "local": local})
    return rows


def _trained(tasks: LinearTasks, seed: int) -> Run:
    """FedRep on each client's fixed samples, with the largest step that Theorem 1 allows."""
    spectrum = np.linalg.svd(tasks.truth(seed).heads / np.sqrt(tasks.clients), compute_uv=False)
    model = build_model(LinearRepresentation(rank=tasks.rank), (tasks.dim,), 1, seed, tasks.dtype)
    algorithm = FedRepLinear(eta=float(1 / (4 * spectrum[0] ** 2)))
    return simulate(algorithm, model, tasks.federation(seed), rounds=ROUNDS, seed=seed, evaluate=Evaluate(every=ROUNDS))


def _body(run: Run) -> np.ndarray:
    (body,) = run.server.body.values()
    return body.numpy().T
