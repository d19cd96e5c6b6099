"""A search over step size and further settings of a method, by Optuna, with a budget of rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

from manyheads.core.errors import UserError
from manyheads.core.sealed import fingerprint_of
from manyheads.experiments.candidates import Candidate
from manyheads.experiments.curves import FIRST
from manyheads.experiments.race import Attempt, Place, Racing

__all__ = ["require_optuna", "search"]

HALVED = 2
"""of the settings that get so far, one in this many is trained for twice as many rounds"""
REPEATS = 50
"""suggestions of settings that were tried already, after which there is nothing left to try"""
RATE = "step size"


def require_optuna() -> None:
    """An error if Optuna is not installed."""
    if find_spec("optuna") is None:
        raise UserError("a search needs Optuna", where="search", fix="pip install 'manyheads[tune]'")


def search(place: Place, rates: Sequence[float], budget: int) -> Racing:
    """Try settings that a sampler suggests, with all seeds, for ``budget`` rounds in all.

    It begins with the step sizes ``rates`` and the method's own settings; further step sizes are drawn from the range of
    these, further settings from the values that the algorithm declares. Trainings are compared at a first round, and at each
    doubling of it; one that is not in the better half there is pruned. No state is kept but the runs: a search that is
    done again suggests the same, and finds what was trained.
    """
    space, attempts, repeats = _Space(place, rates), dict[Candidate, Attempt](), 0
    study = _study(place, space)
    while repeats < REPEATS:
        trial = study.ask(space.distributions)
        candidate = space.candidate(trial.params)
        if candidate in attempts:
            study.tell(trial, attempts[candidate].standing[0])
            repeats += 1
            continue
        attempt = Attempt(place, candidate)
        for number, until in enumerate(_rungs(place)):
            cost = sum(until - done for done in attempt.until.values())
            if cost > budget:
                return list(attempts.values())
            budget -= cost
            attempts[candidate] = attempt
            yield attempt.ask(place.seeds, until)
            attempt.look(place.seeds)
            trial.report(attempt.standing[0], HALVED**number)
            if attempt.diverged or attempt.over or trial.should_prune():
                break
        study.tell(trial, attempt.standing[0])
    return list(attempts.values())


def _rungs(place: Place) -> Iterator[int]:
    """The rounds after which trainings are compared."""
    until = place.rung(FIRST)
    while until < place.limit:
        yield until
        until *= HALVED
    yield place.limit


class _Space:
    """The settings to choose from."""

    def __init__(self, place: Place, rates: Sequence[float]) -> None:
        optuna, algorithm = import_module("optuna"), place.method.algorithm
        own = {path: attrgetter(path)(algorithm) for path in algorithm.knobs}
        self.knobs = {path: sorted({*values, own[path]}) for path, values in algorithm.knobs.items()}
        self.distributions: dict[str, Any] = {
            path: optuna.distributions.IntDistribution(0, len(values) - 1) for path, values in self.knobs.items()
        }
        start = {path: values.index(own[path]) for path, values in self.knobs.items()}
        self.starts: list[dict[str, Any]] = [start]
        if place.method.has_rate(len(place.study.folds[place.fold].tuning)):
            self.distributions[RATE] = optuna.distributions.FloatDistribution(min(rates), max(rates), log=True)
            self.starts = [start | {RATE: rate} for rate in rates]

    def candidate(self, params: dict[str, Any]) -> Candidate:
        """The candidate of suggested parameters; two digits of a step size are enough."""
        rate = float(f"{params[RATE]:.2g}") if RATE in params else None
        return Candidate(rate, tuple((path, values[params[path]]) for path, values in self.knobs.items()))


def _study(place: Place, space: _Space) -> Any:
    """A study of Optuna in memory, whose suggestions depend on the seed, the method, the fold and what it is told alone."""
    optuna = import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    where = {"method": place.method.label, "fold": place.fold, "pooled": place.pooled, "seed": place.seeds[0]}
    sampler = optuna.samplers.TPESampler(seed=int(fingerprint_of(where)[:8], 16))
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=HALVED)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    for params in space.starts:
        study.enqueue_trial(params)
    return study
