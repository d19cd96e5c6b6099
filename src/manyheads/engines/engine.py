"""How the work of a run is done: settings that a user chooses."""

from __future__ import annotations

import multiprocessing
import os
import sys
from dataclasses import replace
from functools import cache
from typing import Annotated, Literal

import torch
from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.settings import settings
from manyheads.engines.ways import Mode

__all__ = ["Engine"]

LEAST_BOUND = 16
"""number of workers that is allowed on any machine"""


@settings
class Engine:
    """How the work is done. Nothing here but ``mode`` and ``device`` can change a number."""

    mode: Mode = "auto"
    """clients one after another, stacked, or whichever is faster for what is trained"""
    workers: Annotated[int, Field(ge=0)] = 0
    """processes; 0: one for each core, started once there is work to divide; 1: none but this one; more than 16, or 4 a core, are not started. With ray, actors; 0: one for each GPU or, without any, each CPU"""
    start_method: Literal["auto", "fork", "spawn", "forkserver"] = "auto"
    """how processes are started; auto: fork on Linux, spawn elsewhere"""
    device: str = "auto"
    """cpu, cuda, ...; auto: a GPU if there is one"""
    executor: Literal["local", "ray"] = "local"
    """who does the work: processes of this machine, or actors of a Ray cluster"""
    address: str = "local"
    """of the Ray cluster, HOST:PORT; auto: the one that this machine belongs to; local: one on this machine, for this command"""

    def check(self) -> None:
        """Raise an error if the device or the cluster cannot be used."""
        if self.executor == "local":
            self.resolved_device()
            return
        if self.device not in ("auto", "cpu", "cuda"):
            raise UserError(
                "Ray decides which GPU it is", where="engine.device", given=self.device, allowed="auto, cpu, cuda"
            )
        from manyheads.engines.ray_connection import check_address

        check_address(self.address)

    def resolved_device(self) -> str:
        """The device of this process; that of an actor is what Ray gives it."""
        if self.device == "auto" or self.executor == "ray":
            return "cuda" if torch.cuda.is_available() else "cpu"
        if not _can_be_used(self.device):
            found = ["auto", "cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
            raise UserError(
                "there is no such device here", where="engine.device", given=self.device, allowed=", ".join(found)
            )
        return self.device

    def resolved_workers(self) -> int:
        """The number of processes on this machine."""
        if self.resolved_device() != "cpu":
            return 1
        if not self.workers and multiprocessing.parent_process() is not None:
            return 1  # one of many processes, which have the cores already
        return self.cpus()

    def cpus(self) -> int:
        """The number of CPUs of this machine that are used."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(self.workers or cores, max(LEAST_BOUND, 4 * cores))

    def of_a_task(self) -> Engine:
        """The settings of a whole run that is one task among others: it is done by the process that has the task."""
        given = replace(self, workers=1, executor="local")
        return replace(given, device="auto") if self.executor == "ray" else given  # it sees what Ray gives it

    def resolved_start_method(self) -> str:
        return self.start_method if self.start_method != "auto" else "fork" if sys.platform == "linux" else "spawn"


@cache
def _can_be_used(device: str) -> bool:
    """Whether a number can be stored on the device and read back."""
    try:
        return float(torch.ones(1, device=device).sum()) == 1
    except (RuntimeError, AssertionError, NotImplementedError):  # raised by different kinds of devices
        return False
