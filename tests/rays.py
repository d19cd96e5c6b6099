"""Ray in tests: jobs for actors, which import this module, and the processes of an instance."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from processes import until

from manyheads.algorithms import L2GD, FedMTL, FedRep, Scaffold
from manyheads.core.errors import InUse
from manyheads.core.round_end import RoundEnd
from manyheads.core.trees import Tree
from manyheads.engines.ray_keeper import MARK, marked
from manyheads.engines.workbench import Workbench

METHODS = {"fedrep": FedRep(), "scaffold": Scaffold(), "fedmtl": FedMTL(), "l2gd": L2GD()}


class Bench:
    """What the actors hold."""

    def __init__(self, base: int, data: Any = None) -> None:
        self.base, self.data = base, data


def add(bench: Bench, common: None, task: int) -> int:
    return bench.base + task


def where(bench: Bench, common: None, task: int) -> int:
    time.sleep(0.1)
    return os.getpid()


def told(bench: Bench, common: list[int], task: int) -> tuple[int, int, int]:
    return os.getpid(), id(common), common[0] + task


def first_waits_for_last(bench: Bench, folder: Path, task: int) -> int:
    """Task 0 ends after task 9 has, so all others have to be done elsewhere in the meantime."""
    if task == 0:
        until((folder / "9").exists)
    (folder / str(task)).touch()
    return task


def double(bench: Bench, common: None, values: Tree) -> Tree:
    values["w"].add_(0)  # may be written to
    return 2 * values


def fail(bench: Bench, common: None, error: Exception) -> None:
    raise error


def die_until(bench: Bench, folder: Path, task: tuple[int, int]) -> int:
    """Kill the process, the first few times."""
    number, times = task
    died = len(list(folder.glob(f"{number}-*")))
    if died < times:
        (folder / f"{number}-{died}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_at_once(*arguments: Any) -> Bench:
    """In place of what is to be held."""
    os.kill(os.getpid(), signal.SIGKILL)
    return Bench(0)


def locked_after_death(bench: Bench, folder: Path, task: int) -> int:
    """Die, then find the folder locked for a moment, as on network storage."""
    died = len(list(folder.iterdir()))
    (folder / str(died)).touch()
    if died == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if died < 3:
        raise InUse("the folder is in use by another process")
    return died


def shared_memory(bench: Bench, common: None, task: int) -> tuple[bool, bool]:
    """Whether the samples of a federation may be written to, and are a copy."""
    flags = bench.data[task].train.x.flags
    return flags.writeable, flags.owndata


def device(bench: Workbench, common: None, task: int) -> tuple[str, str, int, int]:
    found = next(iter(bench.model.module.parameters())).device
    return str(bench.device), str(found), torch.get_num_threads(), torch.cuda.device_count()


def variable(bench: Bench, name: str, task: int) -> str | None:
    return os.environ.get(name)


def children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(entry.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(entry.parent.name))
    return found


def mark_of_instance(driver: int) -> str:
    """The mark of a driver's own instance."""
    found = []
    for process in children(driver):
        with suppress(OSError):
            words = Path(f"/proc/{process}/environ").read_text().split("\0")
            found += [word.partition("=")[2] for word in words if word.startswith(f"{MARK}=")]
    return found[0]


def title(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    return ""


def busy_actors(driver: int) -> list[int]:
    """The actors of a driver's own instance that are doing a task."""
    ours = [actor for raylet in children(driver) for actor in children(raylet)]
    return [process for process in ours if title(process).startswith("ray::Actor.run")]


@contextmanager
def killing_an_actor(driver: int) -> Iterator[Callable[[RoundEnd], None]]:
    """A function for each round's end: after the first round, an actor in the middle of a task is killed by -9."""
    killed: list[int] = []

    def kill() -> None:
        while not killed:
            for actor in busy_actors(driver)[:1]:
                os.kill(actor, signal.SIGKILL)
                killed.append(actor)

    thread = threading.Thread(target=kill, daemon=True)
    yield lambda end: thread.start() if end.record["round"] == 1 else None
    assert killed


class Cluster:
    """Nodes on this machine, each started by ``ray start``, as on machines of their own.

    All but the head have addresses of their own, 127.0.0.2 and so on: a driver is on the node with this machine's address.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.marks = folder, {}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.environment = os.environ | {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(16),
        }

    def start(self, name: str, *options: str, **variables: str) -> None:
        """Start a node with one CPU; the first one is the head."""
        head = ["--head", "--port", self.address.rpartition(":")[2], "--include-dashboard", "false"]
        own = f"127.0.0.{len(self.marks) + 1}"
        here = head if not self.marks else ["--address", self.address, "--node-ip-address", own]
        self.marks[name] = secrets.token_hex(8)
        command = [Path(sys.executable).with_name("ray"), "start", *here, "--num-cpus", "1", *options]
        environment = self.environment | {MARK: self.marks[name]} | variables
        with open(self.folder / f"{name}.log", "ab") as log:
            subprocess.run(command, env=environment, stdout=log, stderr=log, check=True, start_new_session=True)

    def processes(self, name: str) -> list[int]:
        return marked(self.marks[name])

    def busy(self, name: str) -> bool:
        """Whether an actor of the node is doing a task."""
        return any(title(process).startswith("ray::Actor.run") for process in self.processes(name))

    def kill(self, name: str) -> None:
        """End a node as if its power had failed."""
        while left := self.processes(name):
            for process in left:
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.05)

    def end(self) -> None:
        for name in self.marks:
            self.kill(name)


def listening(processes: list[int]) -> set[str]:
    """The addresses on which processes accept connections, as hexadecimal words of the kernel."""
    sockets = set()
    for process in processes:
        with suppress(OSError):
            sockets |= {os.readlink(file) for file in Path(f"/proc/{process}/fd").iterdir()}  # noqa: PTH115
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                found.add(words[1].rpartition(":")[0])
    return found
