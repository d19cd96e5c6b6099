"""Which samples of every client are for which part: evenly by label, in whole groups, or in the order of time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.randomness import Purpose, generator
from manyheads.data.samples import Samples

__all__ = ["Strata", "fold_numbers", "set_aside", "systematic_sample"]

Strata: TypeAlias = Callable[[np.ndarray], np.ndarray | None]
"""from labels to what each part must have its share of; None: of nothing"""
NEVER = -1
"""in place of the fold, for a sample that no fold tests"""


def set_aside(
    samples: Samples, fraction: float, seed: int, *address: int, strata: Strata = lambda y: None, first: int = 0
) -> np.ndarray:
    """A mask of the samples to set aside: ``fraction`` of each client's, never all. ``first`` is the first one's number.

    Samples with times: the latest. Samples with groups: whole groups, of which no group is split. Of strata, each gives
    its share, as exactly as possible.
    """
    if not 0 <= fraction < 1:
        raise UserError("fraction to hold out is out of range", given=fraction, allowed="0 <= fraction < 1")
    mask = np.zeros(len(samples.y), bool)
    for client in range(len(samples)):
        own = samples.span(client)
        y = samples.y[own]
        rng = generator(seed, Purpose.SPLIT, *address, first + client)
        count = min(round(fraction * len(y)), max(len(y) - 1, 0))
        if not count:
            continue
        if samples.times is not None:
            mask[own] = _latest(samples.times[own], count)
        elif samples.groups is not None:
            mask[own] = _whole_groups(samples.groups[own], strata(y), fraction, rng)
        else:
            mask[own] = _any(len(y), strata(y), count, rng)
    return mask


def fold_numbers(samples: Samples, count: int, seed: int, strata: Strata, first: int = 0) -> np.ndarray:
    """The fold that tests each sample. A client's only sample or group is never tested: nothing would be left to train on.

    Samples with times: a client's are cut into ``count + 1`` blocks in the order of time, and fold ``k`` tests block
    ``k + 1``; its training samples are those of the folds before it and of the first block, which is never tested.
    Otherwise each fold has its share of the samples and of each stratum, and groups stay whole.
    """
    numbers = np.full(len(samples.y), NEVER)
    for client in range(len(samples)):
        own = samples.span(client)
        if samples.times is not None:
            numbers[own] = _blocks(samples.times[own], count + 1) - 1
            continue
        rng = generator(seed, Purpose.SPLIT, 2, first + client)
        groups = samples.groups[own] if samples.groups is not None else np.arange(samples.sizes[client])
        if len(np.unique(groups)) < 2:
            continue
        labels = strata(samples.y[own])
        if samples.groups is not None:
            numbers[own] = _dealt_groups(groups, labels, np.full(count, 1 / count), rng)
        else:
            numbers[own] = _dealt(len(groups), labels, count, rng)
    return numbers


def systematic_sample(
    rows: np.ndarray, group: np.ndarray, expected: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Rows sorted by group, groups in random order, and a mask of those picked at even distances from a random start.

    ``expected[i]`` is how many of the first ``i`` rows are picked on average; every group gets its part of them, rounded
    up or down.
    """
    rows = rows[np.argsort(rng.permutation(group.max() + 1)[group[rows]], kind="stable")]
    return rows, np.diff(np.floor(rng.random() + expected)) > 0


def _latest(times: np.ndarray, count: int) -> np.ndarray:
    """About ``count`` of the latest; samples of one time stay together."""
    cut = np.sort(times)[-count]
    return min((times >= cut, times > cut), key=lambda late: (late.all(), abs(late.sum() - count)))


def _whole_groups(
    groups: np.ndarray, strata: np.ndarray | None, fraction: float, rng: np.random.Generator
) -> np.ndarray:
    aside = _dealt_groups(groups, strata, np.array([1 - fraction, fraction]), rng) == 1
    return aside & (groups != groups[-1]) if aside.all() else aside


def _any(rows: int, strata: np.ndarray | None, count: int, rng: np.random.Generator) -> np.ndarray:
    order = rng.permutation(rows)
    mask = np.zeros(rows, bool)
    if strata is None:
        mask[order[:count]] = True
        return mask
    _, stratum = np.unique(strata, return_inverse=True)
    order, picked = systematic_sample(order, stratum, np.arange(rows + 1) * count / rows, rng)
    mask[order[picked]] = True
    return mask


def _blocks(times: np.ndarray, count: int) -> np.ndarray:
    """Equal blocks in the order of time; samples of one time are in the block of the first of them."""
    return np.searchsorted(np.sort(times), times) * count // max(len(times), 1)


def _dealt(rows: int, strata: np.ndarray | None, count: int, rng: np.random.Generator) -> np.ndarray:
    """Folds dealt in turn, like cards: to one stratum after another, so that no fold gets two more of it than another."""
    order = rng.permutation(rows)
    if strata is not None:
        _, stratum = np.unique(strata, return_inverse=True)
        order = order[np.argsort(rng.permutation(stratum.max() + 1)[stratum[order]], kind="stable")]
    numbers = np.empty(rows, np.int64)
    numbers[order] = rng.permutation(count)[np.arange(rows) % count]
    return numbers


def _dealt_groups(
    groups: np.ndarray, strata: np.ndarray | None, shares: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The part that each sample falls to: whole groups, the largest first, each where it is missed the most.

    Parts get about their ``shares`` of the samples and of each stratum: a group falls to the part where the sum of squared
    counts, each over its share, grows the least.
    """
    _, group = np.unique(groups, return_inverse=True)
    _, stratum = np.unique(np.zeros(len(groups)) if strata is None else strata, return_inverse=True)
    counts = np.zeros((group.max() + 1, stratum.max() + 1))
    np.add.at(counts, (group, stratum), 1)
    counts = np.column_stack([counts, counts.sum(axis=1)])
    counts /= counts.sum(axis=0)  # a rare label counts as much as a frequent one
    order = rng.permutation(len(counts))
    held, part = np.zeros((len(shares), counts.shape[1])), np.empty(len(counts), np.int64)
    ties = rng.permutation(len(shares))
    for one in order[np.argsort(-counts[order, -1], kind="stable")]:
        growth = ((2 * held + counts[one]) * counts[one]).sum(axis=1) / shares
        part[one] = ties[np.argmin(growth[ties])]
        held[part[one]] += counts[one]
    return part[group]
