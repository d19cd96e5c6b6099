"""Whose data a run is trained on: kept in the run's folder, so that its report can say so without the data."""

from __future__ import annotations

from manyheads.core.settings import settings
from manyheads.data import Federation

__all__ = ["About"]


@settings
class About:
    """A federation's name, sites and numbers of samples, and the warnings about its data."""

    name: str = ""
    """name of the federation; empty in the folder of an earlier version"""
    clients: int = 0
    """number of sites that are trained"""
    names: tuple[str, ...] = ()
    """their names, if they have any"""
    train: int = 0
    """training samples of all sites together"""
    validation: int = 0
    """validation samples of all sites together"""
    test: int = 0
    """test samples of all sites together"""
    warnings: tuple[str, ...] = ()
    """what can be used, but may be a mistake"""

    @classmethod
    def of(cls, federation: Federation) -> About:
        return cls(
            name=federation.name,
            clients=len(federation),
            names=federation.client_names or (),
            train=len(federation.train.y),
            validation=len(federation.validation.y) if federation.validation else 0,
            test=len(federation.test.y),
            warnings=federation.warnings,
        )

    def site(self, client: int) -> str:
        """The name of a site."""
        return self.names[client] if self.names else f"client {client}"
