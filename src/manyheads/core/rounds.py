"""One round of federated learning, as two functions: what clients do, and what the server does.

There are no files, processes or clocks in them. The simulator, the theory's experiments and a real federation call the
same two, and differ in who carries the values from one to the other::

    server   = first_state(algorithm, model.params, clients_in_all)        # before the first round
    download = algorithm.download(server, round) | algorithm.download_each(server, clients, round)
    done     = client_round(algorithm, cohort, download, kept)            # at the clients; done.kept stays there
    after    = server_round(algorithm, server, [done.reply, ...], round)  # at the server

Replies are checked at the server. A simulator that has many clients in a worker process may check and average their
replies there (:mod:`manyheads.core.replies`), which gives the same numbers and sends less.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

import numpy as np

from manyheads.core.contract import Algorithm, Cohort, Round, Uploads
from manyheads.core.errors import Diverged, UserError
from manyheads.core.replies import NOT_FINITE, Accepted, Reply, accepted, different_names, finite_clients, gathered
from manyheads.core.server import without_moments
from manyheads.core.settings import changed
from manyheads.core.trees import Params, State, Tree

__all__ = [
    "LOCAL",
    "ClientRound",
    "NoUploads",
    "ServerRound",
    "Weighting",
    "at_rate",
    "client_round",
    "first_state",
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
    update = at_rate(algorithm, cohort.round).local(cohort, download, kept)
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


def first_state(algorithm: Algorithm, params: Params, population: int) -> State:
    """The server's state before the first round: the algorithm's, and the moments of the server's optimizer."""
    server, optimizer = algorithm.init_server(params, population), algorithm.server_optimizer
    return server if optimizer is None else server | optimizer.init(_averaged(algorithm, server))


def at_rate(algorithm: Algorithm, round: Round) -> Algorithm:
    """The algorithm with the step sizes that it has in this round, by the run's schedule."""
    if round.rate == 1:
        return algorithm
    return changed(algorithm, {path: attrgetter(path)(algorithm) * round.rate for path in algorithm.scheduled()})


def server_round(
    algorithm: Algorithm,
    server: State,
    replies: Sequence[Reply | Accepted],
    round: Round,
    statistics: Collection[str] = (),
) -> ServerRound:
    """Check the replies that are not checked yet, merge what can be used, make the server's step, check the result.

    ``statistics`` names the parameters that are running statistics, along which no optimizer steps.
    """
    expected = algorithm.expects(server, round)
    parts = [accepted(reply, expected) if isinstance(reply, Reply) else reply for reply in replies]
    dropped = {client: why for part in parts for client, why in part.dropped.items()}
    uploads = gathered(parts, algorithm.reads_each)
    if uploads is None:
        raise NoUploads(round, dropped)
    merged = at_rate(algorithm, round).merge(without_moments(server), uploads, round)
    _check_merged(algorithm, merged, without_moments(server))
    merged = _stepped(algorithm, server, merged, uploads, statistics)
    if not finite_clients(merged.map(lambda v: v.unsqueeze(0)), 1).all():
        raise Diverged(
            f"round {round.index}: the merged model is not finite: training diverged",
            fix=likely_cause(algorithm, round.population),
        )
    return ServerRound(merged, dropped)


def _stepped(
    algorithm: Algorithm, server: State, merged: State, uploads: Uploads, statistics: Collection[str]
) -> State:
    """The merged state after the step of the server's optimizer, with its moments; without one, as it is."""
    optimizer = algorithm.server_optimizer
    if optimizer is None:
        return merged
    change = Tree(algorithm.change(server, merged, uploads).flat)
    means = [name for name in change if name.partition("/")[2] in statistics]
    step, moments = optimizer.step(change, server, means)
    after = (_averaged(algorithm, server) + step).items()
    return merged.unflat(merged.flat | dict(after)) | moments


def _averaged(algorithm: Algorithm, server: State) -> Tree:
    """The parameters that the server's optimizer steps, in one tree."""
    return Tree(State(**{name: server[name] for name in algorithm.averaged}).flat)


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
