"""One round of federated learning, as two functions: what clients do, and what the server does.

There are no files, processes or clocks in them. The simulator, the theory's experiments and a real federation call the
same two, and differ in who carries the values from one to the other::

    download = algorithm.download(server, round) | algorithm.download_each(server, clients, round)
    done     = client_round(algorithm, cohort, download, kept)            # at the clients; done.kept stays there
    after    = server_round(algorithm, server, [done.reply, ...], round)  # at the server

Replies are checked at the server. A simulator that has many clients in a worker process may check and average their
replies there (:mod:`manyheads.core.replies`), which gives the same numbers and sends less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

import numpy as np

from manyheads.core.contract import Algorithm, Cohort, Round
from manyheads.core.errors import Diverged, UserError
from manyheads.core.replies import NOT_FINITE, Accepted, Reply, accepted, different_names, finite_clients, gathered
from manyheads.core.trees import State

__all__ = [
    "LOCAL",
    "ClientRound",
    "NoUploads",
    "ServerRound",
    "Weighting",
    "client_round",
    "likely_cause",
    "server_round",
    "weights_of",
]

Weighting = Literal["samples", "equal"]
LOCAL = "local model"
"""entry of a client's state under which its model after the last local update is kept, if that is asked for"""


@dataclass(frozen=True)
class ClientRound:
    """The result of a round at the clients."""

    reply: Reply
    """what is sent to the server"""
    kept: State
    """what stays with each client, [C, ...]"""
    losses: np.ndarray
    """mean training loss of each client over its local steps, [C]; NaN without any"""


@dataclass(frozen=True)
class ServerRound:
    """The result of a round at the server."""

    server: State
    """the next state"""
    dropped: dict[int, str]
    """the reason why a client's reply could not be used, by address"""


class NoUploads(UserError):
    """None of a round's replies can be used."""

    def __init__(self, round: Round, dropped: Mapping[int, str]) -> None:
        self.round, self.dropped = round, dropped
        why = next(iter(dropped.values()), "no client replied")
        super().__init__(f"round {round.index}: none of the {round.cohort} uploads can be used ({why})")

    def explained(self, algorithm: Algorithm, saved: str) -> UserError:
        """The error for the user, with the likely cause; ``saved`` says what of the run is saved."""
        if all(why == NOT_FINITE for why in self.dropped.values()):
            return Diverged(f"{self}; {saved}", fix=likely_cause(algorithm, self.round.population))
        own = type(algorithm).expects is not Algorithm.expects
        fix = "the algorithm's local() does not give what its expects() announces"
        every = "by default clients must send all that the server state has: override expects() to say what they send"
        return UserError(f"{self}; {saved}", fix=fix if own else every)


def client_round(
    algorithm: Algorithm,
    cohort: Cohort,
    download: State,
    kept: State,
    *,
    weighting: Weighting | None = None,
    keep_local: bool = False,
) -> ClientRound:
    """Local training of a cohort (of one client, at a real site), from what was downloaded and what its clients keep.

    ``weighting`` is the algorithm's own unless given. ``keep_local`` adds the model after the last local step to the
    personal state.
    """
    update = algorithm.local(cohort, download, kept)
    stays = update.client
    if keep_local and update.model is not None:
        stays = stays | State(**{LOCAL: update.model})
    weights = weights_of(algorithm, cohort.samples.cpu().numpy(), weighting)
    finite = finite_clients(stays, len(weights)).tolist()
    failed = {c: NOT_FINITE for c, ok in zip(cohort.addresses, finite, strict=True) if not ok}
    return ClientRound(Reply(cohort.addresses, weights, update.upload, failed), stays, cohort.train_loss)


def weights_of(algorithm: Algorithm, samples: np.ndarray, weighting: Weighting | None = None) -> np.ndarray:
    """The weights of clients with so many training samples, by the algorithm's own rule unless another is given."""
    return np.ones(len(samples)) if (weighting or algorithm.weighting) == "equal" else samples.astype(float)


def server_round(algorithm: Algorithm, server: State, replies: Sequence[Reply | Accepted], round: Round) -> ServerRound:
    """Check the replies that are not checked yet, merge what can be used, and check the result."""
    expected = algorithm.expects(server, round)
    parts = [accepted(reply, expected) if isinstance(reply, Reply) else reply for reply in replies]
    dropped = {client: why for part in parts for client, why in part.dropped.items()}
    uploads = gathered(parts, algorithm.reads_each)
    if uploads is None:
        raise NoUploads(round, dropped)
    merged = algorithm.merge(server, uploads, round)
    _check_merged(algorithm, merged, server)
    if not finite_clients(merged.map(lambda v: v.unsqueeze(0)), 1).all():
        raise Diverged(
            f"round {round.index}: the merged model is not finite: training diverged",
            fix=likely_cause(algorithm, round.population),
        )
    return ServerRound(merged, dropped)


def _check_merged(algorithm: Algorithm, merged: State, server: State) -> None:
    """Check that the merged state has the names and shapes of the server's state before."""
    got, want = merged.flat, server.flat
    if got.keys() != want.keys():
        default = type(algorithm).merge is Algorithm.merge
        fix = "by default the mean of the uploads is the next state: override merge()" if default else None
        raise UserError(
            f"the server state that {algorithm.name}'s merge() gives {different_names(got, want)}; "
            "it must have what init_server() gives",
            fix=fix,
        )
    for name, value in got.items():
        if value.shape != want[name].shape:
            raise UserError(
                f"the server state that {algorithm.name}'s merge() gives has another shape of {name}",
                given=tuple(value.shape),
                allowed=str(tuple(want[name].shape)),
            )


def likely_cause(algorithm: Algorithm, population: int) -> str:
    """Advice for the user about values that are not finite."""
    paths = algorithm.step_sizes(1.0, population)
    named = ", ".join(f"{path} = {attrgetter(path)(algorithm)}" for path in paths)
    return f"likely the step size is too large ({named}): try a tenth of it" if named else "training diverged"
