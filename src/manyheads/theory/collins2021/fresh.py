"""FedRep for linear regression with a fresh batch in every round, as Algorithm 2 of Collins et al. 2021 has it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from manyheads.algorithms import FedRepLinear
from manyheads.core.contract import Round
from manyheads.core.randomness import Purpose, generator
from manyheads.core.rounds import client_round, server_round
from manyheads.core.tasks import Regression
from manyheads.core.trees import State
from manyheads.data import Truth
from manyheads.engines.client_data import ClientData
from manyheads.engines.cohort import LocalCohort
from manyheads.models import LinearRepresentation, build_model
from manyheads.run.loop import sample_cohort
from manyheads.run.training import Training

__all__ = ["fresh_rounds"]


def fresh_rounds(
    algorithm: FedRepLinear, truth: Truth, *, cohort: int, samples: int, noise: float, seed: int
) -> Iterator[np.ndarray]:
    """B after each round, [d, k], without end; a client's samples are drawn anew each time that it takes part.

    Only the data differs from :func:`manyheads.simulate`: rounds and cohorts are the same.
    """
    (d, k), n = truth.body.shape, len(truth.heads)
    model = build_model(LinearRepresentation(rank=k), (d,), 1, seed, "float64")
    server = algorithm.init_server(model.params, n)
    personal = algorithm.init_client(model.params).map(lambda v: v.expand(n, *v.shape).clone())
    training = Training(cohort=cohort, seed=seed)
    index = 0
    while True:
        index += 1
        clients = sample_cohort(training, n, index, algorithm.everyone(index))
        data = _draw(truth, clients, samples, noise, generator(seed, Purpose.BATCHES, index))
        round = Round(index, seed, n, len(clients))
        trainees = LocalCohort(model.untried(), data, clients, round)
        done = client_round(algorithm, trainees, algorithm.download(server, round), _rows(personal, clients))
        server = server_round(algorithm, server, [done.reply], round).server
        for kept, new in zip(personal.flat.values(), done.kept.flat.values(), strict=True):
            kept[clients] = new
        (body,) = server.body.values()
        yield body.numpy().T


def _draw(truth: Truth, clients: list[int], samples: int, noise: float, rng: np.random.Generator) -> ClientData:
    x = rng.standard_normal((len(clients), samples, len(truth.body)))
    y = np.einsum("cmk,ck->cm", x @ truth.body, truth.heads[clients]) + noise * rng.standard_normal(x.shape[:2])
    offsets = np.arange(len(clients) + 1) * samples
    x_flat, y_flat = torch.from_numpy(x.reshape(-1, x.shape[2])), torch.from_numpy(y.reshape(-1))
    return ClientData(x_flat, y_flat, offsets, Regression(), torch.float64)


def _rows(personal: State, clients: list[int]) -> State:
    return personal.map(lambda v: v[clients])
