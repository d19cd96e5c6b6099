"""Which samples the clients of a cohort see in each local step, how images are cropped, and the noise of dropout.

Every draw has an address: seed, purpose, round, client and, since one round may train several parts in turn, the phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np

from manyheads.core.contract import Round
from manyheads.core.randomness import Purpose, batch_plan, generator, torch_seeded
from manyheads.engines.augment import draw_crops
from manyheads.engines.client_data import ClientBatch, ClientData
from manyheads.models import TriedModel

__all__ = ["Draws", "Plan"]

Plan = list[np.ndarray]
"""for each local step of one client, the rows of its batch"""
Croppers = dict[int, np.random.Generator]


class Draws:
    """The random draws of a cohort; ``purpose`` separates those of training from those of fine-tuning."""

    def __init__(
        self, model: TriedModel, data: ClientData, addresses: Sequence[int], round: Round, purpose: Purpose
    ) -> None:
        self._model, self._data, self.addresses = model, data, addresses
        self._round, self._purpose = round, purpose
        self._phase = -1
        self._noisy = False
        self.visits = np.zeros(len(addresses))
        """samples that each client was given in its batches so far, repeated ones counted each time"""

    def _generator(self, client: int, *more: int) -> np.random.Generator:
        return generator(self._round.seed, self._purpose, self._round.index, client, self._phase, *more)

    def plans(self, batch: int, epochs: int, steps: int) -> list[Plan]:
        """Start the next phase; a plan for each client, of shuffled passes over its samples."""
        self._phase += 1
        sizes = self._data.sizes
        if batch <= 0:  # full batches need no draw, and making generators takes time
            whole = np.arange(sizes.max())
            return self._counted([[whole[:size]] * (steps or epochs) for size in sizes])
        least = self._model.smallest_batch
        return self._counted(
            [
                batch_plan(self._generator(c), int(n), batch=batch, epochs=epochs, steps=steps, smallest=least)
                for c, n in zip(self.addresses, sizes, strict=True)
            ]
        )

    def streams(self, batches: tuple[int, ...], counts: np.ndarray, independent: bool) -> list[list[Plan]]:
        """Start the next phase; for each size in ``batches``, a plan of ``counts[c]`` steps for every client c."""
        self._phase += 1
        return [
            self._counted(
                [
                    batch_plan(self._generator(c, *address), int(n), batch=size, steps=int(t), independent=independent)
                    for c, n, t in zip(self.addresses, self._data.sizes, counts, strict=True)
                ]
            )
            for address, size in zip([(), *((i,) for i in range(1, len(batches)))], batches, strict=True)
        ]

    def _counted(self, plans: list[Plan]) -> list[Plan]:
        self.visits += [sum(map(len, plan)) for plan in plans]
        return plans

    def croppers(self, members: np.ndarray) -> Croppers:
        """The generator of each client's random crops; empty unless images are augmented."""
        if not self._data.augment:
            return {}
        address = (self._round.seed, Purpose.AUGMENT, int(self._purpose), self._round.index)
        return {int(m): generator(*address, self.addresses[m], self._phase) for m in members}

    def batch(self, rows: Plan, members: np.ndarray, croppers: Croppers) -> ClientBatch:
        """A batch that holds the given rows of each of the clients ``members``."""
        crops = [draw_crops(croppers[int(m)], len(r)) for m, r in zip(members, rows, strict=True)] if croppers else None
        return ClientBatch.of(self._data, rows, members, crops)

    def noise(self, client: int) -> AbstractContextManager[None]:
        """A context in which a random model (dropout) draws from the client's own seed; nested ones have no effect."""
        return self._seeded(client) if self._model.random and not self._noisy else nullcontext()

    @contextmanager
    def _seeded(self, client: int) -> Iterator[None]:
        address = (self._round.seed, Purpose.NOISE, self._round.index, self.addresses[client], self._phase)
        with torch_seeded(*address):
            self._noisy = True
            try:
                yield
            finally:
                self._noisy = False
