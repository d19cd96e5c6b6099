"""What runs in the actors of a cluster, Ray's name for its worker processes."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

import manyheads
from manyheads.core.errors import UserError
from manyheads.engines.workers import portable

__all__ = ["Begun", "Holder", "Setting", "actor_class", "code_here"]

VERSIONS = ("manyheads", "torch", "numpy")
"""packages that must be the same everywhere, besides Python and Ray, about which Ray complains itself"""


class Begun(NamedTuple):
    """What a new actor says."""

    node: str
    versions: dict[str, str | None]
    error: Exception | None = None


@dataclass(frozen=True)
class Setting:
    """What an actor takes over from the process that started it."""

    variables: Mapping[str, str]
    """of the environment"""
    folder: str
    """the current one"""
    paths: tuple[str, ...]
    """where modules are looked for, as code of a user's own"""
    mark: Path | None
    """a file that every node must see, if tasks write files"""
    code: str
    """see :func:`code_here`"""


def actor_class() -> type[Any]:
    """The class of the actors. As it is made in a function, it travels as code: a node may lack this package, and says so."""

    class Actor:
        def begin(self, wanted: dict[str, str], *arguments: Any) -> Any:
            """Make what is held, if the versions of packages here are as wanted."""
            from importlib.metadata import PackageNotFoundError, version
            from socket import gethostname

            found: dict[str, str | None] = {}
            for name in wanted:
                try:
                    found[name] = version(name)
                except PackageNotFoundError:
                    found[name] = None
            if found != wanted:
                return gethostname(), found, None
            from manyheads.engines.ray_actor import Holder

            self.holder = Holder()
            return gethostname(), found, self.holder.begin(*arguments)

        def run(self, *arguments: Any) -> Any:
            return self.holder.run(*arguments)

    return Actor


class Holder:
    """What an actor holds, and the argument common to the tasks of the call that it is working on."""

    def __init__(self) -> None:
        self._held: Any = None
        self._told = -1
        self._job: Any = None
        self._common: Any = None

    def begin(self, setting: Setting, made: list[Any]) -> Exception | None:
        """Make what is held; returns the error, if there is one."""
        try:
            _settle(setting)
            _take_device()
            make, arguments = _of(made)
            self._held = make(*arguments)
        except Exception as error:
            return portable(error, _place())
        return None

    def run(self, call: int, common: list[Any], task: Any) -> tuple[Exception | None, Any]:
        """The error of a task, or its result; ``common`` is fetched with the first task of a call."""
        try:
            if call != self._told:
                self._job, self._common = _of(common)
                self._told = call
            return None, self._job(self._held, self._common, task)
        except Exception as error:
            return portable(error, _place()), None


def _of(reference: list[Any]) -> Any:
    """The object of a reference, which is in a list so that Ray does not fetch it for every task."""
    import ray

    try:
        return ray.get(reference[0])
    except Exception as error:
        said = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        raise UserError(
            f"{socket.gethostname()} cannot read what it is sent: {said[0]}",
            where="engine.executor",
            fix="code of your own must be importable on all nodes: install it there, or keep it in a shared folder",
        ) from error


def _settle(setting: Setting) -> None:
    torch.set_num_threads(1)
    os.environ.update(setting.variables)
    sys.path += [path for path in setting.paths if path not in sys.path]
    if setting.code != code_here():
        raise UserError(
            f"{socket.gethostname()} has another state of manyheads than this machine, of the same version",
            where="engine.address",
            fix="install the same one on all nodes",
        )
    if setting.mark is not None:
        try:
            os.chdir(setting.folder)
            setting.mark.read_bytes()
        except OSError:
            raise UserError(
                f"{socket.gethostname()} does not see {setting.mark.parent}, where runs are kept",
                where="out",
                fix="use a folder, and start the command in one, that all nodes have under the same path",
            ) from None


def _take_device() -> None:
    """Let torch see the GPUs that Ray has given to this actor, and no others."""
    import ray

    given = ray.get_gpu_ids()
    if not given:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the others are somebody else's
    elif not torch.cuda.is_available():
        raise UserError(
            f"Ray has given a GPU of {socket.gethostname()} that torch cannot use",
            where="engine.device",
            fix="use --device cpu, or a torch that fits the GPU",
        )


def code_here() -> str:
    """A hash of the code of this package."""
    root, found = Path(manyheads.__file__).parent, hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        found.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes())
    return found.hexdigest()


def _place() -> str:
    return f"actor {os.getpid()} on {socket.gethostname()}"
