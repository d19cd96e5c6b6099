"""The personal states of a site, on its own disk: of the last two rounds it took part in, by the run they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from manyheads.core.checkpoint import checkpoint_path, read_checkpoint, write_checkpoint
from manyheads.core.errors import UserError
from manyheads.core.trees import State

__all__ = ["SiteStates"]


@dataclass(frozen=True)
class SiteStates:
    """The states of a site in one trial. A server that goes back to its last checkpoint finds the state of that round."""

    folder: Path
    owner: str
    """identifies study, site, run and trial; a file of another owner is not read"""
    initial: State

    def read(self, round: int) -> State:
        """The state that was kept after a round; 0: the initial one."""
        if not round or not self.initial.flat:
            return self.initial
        if not checkpoint_path(self.folder, round).is_file():
            raise UserError(
                f"the state of round {round} is not there", where=str(self.folder), fix="restore it, or start a new run"
            )
        return self.initial.unflat(read_checkpoint(self.folder, round, self.owner))

    def write(self, round: int, state: State) -> None:
        """Keep a state, atomically; the last two are kept."""
        if self.initial.flat:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_checkpoint(self.folder, round, state.flat, self.owner)
