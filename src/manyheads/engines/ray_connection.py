"""A connection to Ray: to an instance of our own on this machine, or to a cluster that is running already."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from manyheads.core.errors import UserError, first_line
from manyheads.core.interrupts import STOPS, noted
from manyheads.engines.ray_keeper import MARK

__all__ = ["AUTO", "LOCAL", "check_address", "connected"]

LOCAL, AUTO = "local", "auto"
"""an instance of our own on this machine; the cluster of which this machine is a node"""
SECONDS = 5.0
"""in which a cluster must accept a connection"""
LONGEST = 40
"""characters of a folder in which Ray can still make its sockets, whose paths have at most 107"""
USUAL = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_NUM_REDIS_GET_RETRIES": "5"}
"""no statistics to Ray's makers, and a few seconds until a connection has failed"""


def check_address(address: str) -> None:
    """Raise an error if Ray is not installed, there is no token for its cluster, or nobody answers at the address."""
    if find_spec("ray") is None:
        raise UserError(
            "Ray is not installed", where="engine.executor", given="ray", fix='pip install "manyheads[ray]"'
        )
    if address == LOCAL or _is_connected():
        return
    if os.environ.get("RAY_AUTH_MODE", "token") == "token" and not _has_token():
        raise UserError(
            "there is no token for the cluster",
            where="engine.address",
            given=address,
            fix="make one on one machine (ray get-auth-token --generate), and copy ~/.ray/auth_token to all, or name"
            " the file: RAY_AUTH_TOKEN_PATH",
        )
    place = os.environ.get("RAY_ADDRESS", AUTO) if address == AUTO else address
    if place != AUTO:  # otherwise Ray looks for it on this machine
        _check_answers(place)


def _is_connected() -> bool:
    """Whether this process is connected to Ray, be it by the user."""
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


def _has_token() -> bool:
    """Whether Ray will find a token, where it looks for one."""
    if os.environ.get("RAY_AUTH_TOKEN"):
        return True
    return Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token").is_file()


def _check_answers(address: str) -> None:
    """Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "//" in host:
        allowed = "local, auto, or HOST:PORT of ray start --head --port PORT"
        raise UserError("no such address", where="engine.address", given=address, allowed=allowed)
    try:
        socket.create_connection((host, int(port)), SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UserError(
            f"no cluster answers there ({first_line(error)})",
            where="engine.address",
            given=address,
            fix="start one (ray start --head --port PORT), or give the address that it printed",
        ) from None


@contextmanager
def connected(address: str, cpus: int) -> Iterator[None]:
    """Connect this process to Ray as long as the block lasts, unless it is connected already.

    An instance of our own has ``cpus`` CPUs and listens on 127.0.0.1 only; at the end, nothing is left of it.
    """
    check_address(address)
    if _is_connected():
        yield
        return
    with ExitStack() as stack:
        with noted():  # what is started must not escape the cleanup
            if address == LOCAL:
                _start(cpus, stack)
            else:
                _connect(address, USUAL | {"RAY_AUTH_MODE": os.environ.get("RAY_AUTH_MODE", "token")}, {}, stack)
        yield


def _start(cpus: int, stack: ExitStack) -> None:
    """Start an instance of our own, with a token of its own."""
    folder, mark = _folder(), secrets.token_hex(8)
    stack.callback(_end, _keeper(mark, folder))
    environment = {
        MARK: mark,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # by this it listens on 127.0.0.1 only
    }
    options = {"num_cpus": cpus, "include_dashboard": False, "_temp_dir": folder}
    _connect(LOCAL, USUAL | environment, options, stack)


def _connect(address: str, environment: Mapping[str, str], options: Mapping[str, Any], stack: ExitStack) -> None:
    with _environment(environment):
        import ray

        # these are kept from the time of the import, or from an earlier connection
        ray._private.ray_constants.ENABLE_RAY_CLUSTER = address != LOCAL
        ray._raylet.Config.initialize("")
        ray._raylet.AuthenticationTokenLoader.instance().reset_cache()
        logging.getLogger("ray").setLevel(logging.ERROR)
        stack.enter_context(_no_news(ray._private.worker))
        stack.callback(ray.shutdown)
        try:
            with _handlers_kept(), _apart(ray._private.services), _silent():
                ray.init(address, log_to_driver=False, configure_logging=False, **options)
        except Exception as error:
            raise _explained(address, error) from error


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Undo what Ray does to the handlers of signals."""
    ours = threading.current_thread() is threading.main_thread()
    before = {stop: handler for stop in STOPS if ours and (handler := signal.getsignal(stop)) is not None}
    try:
        yield
    finally:
        for stop, handler in before.items():
            signal.signal(stop, handler)


@contextmanager
def _apart(services: Any) -> Iterator[None]:
    """Put what Ray starts into process groups of its own: a signal to the command's group, as from a terminal or
    ``timeout``, must not reach Ray's processes, since Ray ends a driver that has lost them before it can clear up."""
    before, services.ConsolePopen = services.ConsolePopen, partial(services.ConsolePopen, process_group=0)
    try:
        yield
    finally:
        services.ConsolePopen = before


@contextmanager
def _no_news(worker: Any) -> Iterator[None]:
    """Without Ray's words about nodes that die: it prints them on standard output, where ``--json`` has its object."""
    before, worker.print_to_stdstream = worker.print_to_stdstream, lambda *words, **options: None
    try:
        yield
    finally:
        worker.print_to_stdstream = before


@contextmanager
def _silent() -> Iterator[None]:
    """Without what Ray's library writes to the terminal, which is not Python: our error says it in one line."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


def _explained(address: str, error: Exception) -> UserError:
    """Ray's error in one line."""
    from ray.exceptions import AuthenticationError

    words = " ".join(str(error).split())
    if "Version mismatch" in words:
        what, fix = words, "install the same versions of Python and Ray on all machines"
    elif isinstance(error, AuthenticationError) or "Failed to connect to Ray cluster" in words:
        what = "the cluster does not let this machine in"
        fix = "its token must be here too (~/.ray/auth_token, or RAY_AUTH_TOKEN_PATH), and the port be that of its head"
    elif "Could not find any running Ray instance" in words:
        what, fix = "this machine is not part of a cluster", "start one (ray start --head), join one, or use local"
    else:
        what = f"Ray cannot be used: {first_line(error)}"
        fix = "a command runs on a node of the cluster: join it first, ray start --address HOST:PORT"
    return UserError(what, where="engine.address", given=address, fix=fix)


def _folder() -> str:
    """A new folder for an instance's sockets and logs, in the usual place unless its path is too long for sockets."""
    usual = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="mh-", dir=usual if len(usual) <= LONGEST else "/tmp")


def _keeper(mark: str, folder: str) -> subprocess.Popen[bytes]:
    """A process that clears up after the instance when this one has ended, in any way."""
    command = [sys.executable, "-m", "manyheads.engines.ray_keeper", mark, folder]
    environment = {k: v for k, v in os.environ.items() if k != MARK}
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True)


def _end(keeper: subprocess.Popen[bytes]) -> None:
    with noted():
        keeper.communicate()


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process, which those that it starts inherit, and Ray reads."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
