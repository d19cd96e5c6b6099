"""Monitors: quantities recorded during a run, one file each."""

from manyheads.monitors.cka import CKA
from manyheads.monitors.drift import Drift, LocalDrift, LocalDriftSquare
from manyheads.monitors.head_diversity import HeadDiversity
from manyheads.monitors.monitor import MONITORS, Monitor, Monitors, leaves
from manyheads.monitors.principal_angle import PrincipalAngle

__all__ = [
    "CKA",
    "MONITORS",
    "Drift",
    "HeadDiversity",
    "LocalDrift",
    "LocalDriftSquare",
    "Monitor",
    "Monitors",
    "PrincipalAngle",
    "leaves",
]
