"""Actors of a Ray cluster as an executor: imported only if a user asks for them."""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from manyheads.core.errors import InUse, UserError, first_line
from manyheads.core.machine import version_of
from manyheads.engines.engine import Engine
from manyheads.engines.ordered import in_order
from manyheads.engines.ray_actor import VERSIONS, Begun, Setting, actor_class, code_here
from manyheads.engines.ray_connection import LOCAL, connected

__all__ = ["Actors", "on_ray"]

H = TypeVar("H")
C = TypeVar("C")
T = TypeVar("T")
R = TypeVar("R")

DEATHS = 3
"""of actors, in a row, by which a task, or the start, is given up"""
PATIENCE = 180.0
"""seconds that are waited for a first actor, or for another when all have died"""
LOCK_OUTLASTS = 150.0
"""seconds by which the lock of a dead actor may outlast it on network storage"""


@dataclass(frozen=True)
class Share:
    """Actors, and what each of them has of the cluster."""

    actors: int
    gpus: float

    @classmethod
    def of(cls, engine: Engine, most: int, resources: dict[str, float]) -> Share:
        """An actor for each GPU or, without any, for each CPU; if more are asked for, they share the GPUs.

        >>> Share.of(Engine(executor="ray", workers=0), 100, {"CPU": 8})
        Share(actors=8, gpus=0)
        >>> Share.of(Engine(executor="ray", workers=0), 100, {"CPU": 64, "GPU": 4})
        Share(actors=4, gpus=1)
        >>> Share.of(Engine(executor="ray", workers=6), 100, {"CPU": 64, "GPU": 4})
        Share(actors=6, gpus=0.5)
        """
        gpus = 0 if engine.device == "cpu" else int(resources.get("GPU", 0))
        if engine.device == "cuda" and not gpus:
            raise UserError("the cluster has no GPU", where="engine.device", given="cuda", allowed="auto, cpu")
        cpus = int(resources.get("CPU", 1))
        actors = max(1, min(engine.workers or gpus or cpus, most, cpus if engine.address == LOCAL else most))
        return cls(actors, 1 / -(-actors // gpus) if actors > gpus > 0 else min(gpus, 1))


@contextmanager
def on_ray(
    engine: Engine, most: int, make: Callable[..., H], arguments: tuple[Any, ...], shared: Path | None
) -> Iterator[Actors[H]]:
    """Actors that each hold ``make(*arguments)``, at most ``most`` of them.

    ``shared`` is a folder to which tasks write, if they do: every node must have it.
    """
    with ExitStack() as stack:
        stack.enter_context(connected(engine.address, engine.cpus()))
        import ray

        mark = stack.enter_context(_mark(shared)) if shared else None
        variables = {name: value for name, value in os.environ.items() if name.startswith("MANYHEADS_")}
        paths = tuple(str(Path(path).absolute()) for path in sys.path)
        setting = Setting(variables, str(Path.cwd()), paths, mark, code_here())
        share = Share.of(engine, most, ray.cluster_resources())
        actors: Actors[H] = Actors(share, setting, make, arguments)
        stack.callback(actors.close)
        yield actors


@contextmanager
def _mark(folder: Path) -> Iterator[Path]:
    """A file by which nodes see whether they share the folder; its name is one that is swept if this process is killed."""
    mark = folder.absolute() / f".{secrets.token_hex(4)}.{os.getpid()}.tmp"
    mark.touch()
    try:
        yield mark
    finally:
        mark.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Call:
    """One call of ``map``: its job and the argument common to its tasks, as an object of Ray's."""

    number: int
    common: Any


class Actors(Generic[H]):
    """Actors that each hold the result of ``make(*arguments)`` and run jobs with it.

    A thread of this process waits for each of them. A task whose actor dies is given to another, and a new actor is
    started in place of the dead one, where there is room. That is safe, as a task's random draws do not depend on who
    does it, and states are written here, when its result has come.
    """

    def __init__(self, share: Share, setting: Setting, make: Callable[..., H], arguments: tuple[Any, ...]) -> None:
        import ray

        self._kind = ray.remote(num_cpus=1, num_gpus=share.gpus, max_restarts=0)(actor_class())
        self._wanted = {name: version_of(name) for name in VERSIONS}
        try:
            self._beginning = (self._wanted, setting, [ray.put((make, arguments))])
        except Exception as error:
            raise UserError(
                f"what is trained cannot be sent to other processes: {first_line(error)}", where="engine.executor"
            ) from error
        self._numbers, self._share = count(), share
        self._actors: list[Any] = []
        self._free: SimpleQueue[Any] = SimpleQueue()
        self._failure: Exception | None = None
        self._lock = threading.Lock()
        self._alive, self._starting, self._died_at_start, self._idle_since = 0, 0, 0, time.monotonic()
        self._starters, self._threads = ThreadPoolExecutor(share.actors), ThreadPoolExecutor(share.actors)
        for _ in range(share.actors):
            self._start()

    def map(self, job: Callable[[H, C, T], R], common: C, tasks: Sequence[T], large: bool = False) -> Iterator[R]:
        """The results of ``job(held, common, task)``, in the order of the tasks, each given to the next free actor."""
        import ray

        call = _Call(next(self._numbers), ray.put((job, common)))
        ahead = 2 * self._share.actors if large else None
        return in_order(lambda task: self._threads.submit(self._ask, call, task), tasks, ahead)

    def close(self) -> None:
        """Kill the actors, whatever they are doing."""
        import ray

        self._failure = UserError("the actors were closed")
        with self._lock:
            for actor in self._actors:
                with suppress(Exception):
                    ray.kill(actor)
        for threads in (self._starters, self._threads):
            threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, call: _Call, task: Any) -> Any:
        import ray
        from ray.exceptions import RayError, RayTaskError

        deaths, died = 0, 0.0
        while deaths < DEATHS:
            actor = self._next()
            try:
                error, result = ray.get(actor.run.remote(call.number, [call.common], task))
            except RayError as lost:
                if isinstance(lost, RayTaskError):  # what it did could not be sent
                    self._free.put(actor)
                    raise
                deaths, died = deaths + 1, time.monotonic()
                self._replace(actor)
                continue
            except BaseException:
                self._free.put(actor)
                raise
            self._free.put(actor)
            if error is None:
                return result
            if not (isinstance(error, InUse) and deaths and time.monotonic() - died < LOCK_OUTLASTS):
                raise error
            time.sleep(1)
        raise UserError(
            f"{DEATHS} actors that worked on the same task have died one after another",
            fix="perhaps memory ran out: use fewer --workers, or nodes with more; the run can be resumed with --resume",
        )

    def _next(self) -> Any:
        """The next free actor."""
        while True:
            if self._failure is not None:
                raise self._failure
            with suppress(Empty):
                return self._free.get(timeout=0.5)
            if self._alive == 0 and time.monotonic() - self._idle_since > PATIENCE:
                raise self._none()

    def _none(self) -> UserError:
        import ray

        has, free = ray.cluster_resources(), ray.available_resources()
        words = ", ".join(f"{free.get(kind, 0):g} of {has.get(kind, 0):g} {kind}s" for kind in ("CPU", "GPU"))
        return UserError(
            f"no actor could be started for {PATIENCE:.0f} seconds; free: {words}",
            where="engine.executor",
            fix="wait for other jobs, add nodes, or use fewer GPUs (--device cpu); runs can be resumed with --resume",
        )

    def _start(self) -> None:
        """Start an actor, which is free when it has what it holds; where there is no room, it waits for some."""
        actor = self._kind.remote()
        with self._lock:
            self._actors.append(actor)
            self._starting += 1
        with suppress(RuntimeError):  # closed
            self._starters.submit(self._begin, actor)

    def _begin(self, actor: Any) -> None:
        import ray
        from ray.exceptions import RayError, RayTaskError

        died, wrong = None, None
        try:
            begun = Begun(*ray.get(actor.begin.remote(*self._beginning)))
            wrong = begun.error or self._other_versions(begun)
        except RayTaskError as error:
            wrong = UserError(f"an actor cannot be started: {first_line(error.cause)}")
        except RayError as error:
            died = error
        with self._lock:
            self._starting -= 1
            self._failure = self._failure or wrong
            if died is None and wrong is None:
                self._alive, self._died_at_start = self._alive + 1, 0
                self._free.put(actor)
        if died is not None:
            self._begin_another(died)

    def _begin_another(self, died: Exception) -> None:
        """Start another actor in place of one that died before it could work, unless too many have."""
        self._died_at_start += 1
        if self._died_at_start < DEATHS and self._failure is None:
            self._start()
        elif not self._alive and not self._starting:
            self._failure = self._failure or UserError(
                f"all actors have died while they were started: {first_line(died)}",
                fix="perhaps memory ran out: use fewer --workers, or nodes with more; see Ray's logs",
            )

    def _other_versions(self, begun: Begun) -> UserError | None:
        for name, wanted in self._wanted.items():
            if begun.versions[name] != wanted:
                return UserError(
                    f"{begun.node} has {f'{name} {found}' if (found := begun.versions[name]) else f'no {name}'},"
                    f" and this machine {wanted}",
                    where="engine.address",
                    fix="install the same versions on all nodes",
                )
        return None

    def _replace(self, actor: Any) -> None:
        """Start another actor in place of one that has died, or does not answer."""
        import ray

        with suppress(Exception):
            ray.kill(actor)
        with self._lock:
            self._actors.remove(actor)
            self._alive, self._idle_since = self._alive - 1, time.monotonic()
        if self._failure is None:
            self._start()
