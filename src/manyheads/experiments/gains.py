"""Gains of a method over training alone: per site, and on average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from manyheads.core.records import Interval, Real

__all__ = ["Counts", "Gain", "MeanGain", "SiteGain", "Verdict"]

Verdict = Literal["gains", "loses", "unclear"]


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A gain over training alone (positive is better), with its 95 % interval."""

    gain: Real
    interval: Interval


@dataclass(frozen=True)
class Counts:
    """Number of sites with each verdict."""

    gains: int
    loses: int
    unclear: int

    @property
    def total(self) -> int:
        return self.gains + self.loses + self.unclear


@dataclass(frozen=True, kw_only=True)
class MeanGain(Gain):
    """The mean gain over all sites, on test samples."""

    verdict: Verdict
    clients: Counts


@dataclass(frozen=True, kw_only=True)
class SiteGain(Gain):
    """The gain of one site, on its test samples."""

    client: int
    name: str
    samples: int
    alone: Real
    """score of the model trained alone"""
    score: Real
    """score of the method's model"""
    verdict: Verdict
