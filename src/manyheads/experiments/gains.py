"""Gains of a method over the best that a site can do alone: per site, and on average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from manyheads.core.records import Interval, Real

__all__ = ["Counts", "Gain", "MeanGain", "SiteAdvice", "SiteGain", "Use", "Verdict"]

Verdict = Literal["gains", "loses", "unclear"]
Use = Literal["alone", "shared", "personal"]
"""the model for a site: its own, the one that all sites share, or its personal one of a federated method"""


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
    """The mean gain over all sites."""

    verdict: Verdict
    clients: Counts


@dataclass(frozen=True, kw_only=True)
class SiteGain(Gain):
    """The gain of one site, on its test samples."""

    client: int
    name: str
    samples: int
    alone: Real
    """score of the best model that the site has alone"""
    score: Real
    """score of the method's model"""
    verdict: Verdict
    """by a test that holds the false discovery rate among the sites below 5 %"""


@dataclass(frozen=True, kw_only=True)
class SiteAdvice:
    """The model that a site should use, and why."""

    client: int
    name: str
    samples: int
    """test samples, over all folds"""
    use: Use
    method: str
    """label of the model: a federated method, or the model trained alone (majority, linear, trees, local)"""
    alone_model: str
    """the model that is best alone, by validation, in most folds"""
    alone: Real
    """score of the best model alone"""
    federated: Real
    """score with the method that the answer is about"""
    gain: Real
    interval: Interval
    verdict: Verdict
    text: str
    """the advice in a sentence"""
    samples_needed: int | None = None
    """test samples that would decide an unclear gain, if it is as large as estimated; None if samples alone would not"""
    seeds_needed: int | None = None
    """seeds, likewise"""
