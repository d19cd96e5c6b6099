"""``federate server`` and ``federate site``: Flower's programs, started right, watched, and ended with this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from manyheads.core.errors import UserError
from manyheads.core.files import locked, write_text
from manyheads.federate.flower import (
    Flower,
    environment,
    need_flower,
    settings_of,
    superlink_command,
    supernode_command,
)
from manyheads.federate.jobs import read_nodes, write_nodes
from manyheads.federate.kit import Kit
from manyheads.federate.processes import Child, free_port, listening, owned
from manyheads.federate.study import StudyFolder

__all__ = ["address_of", "server", "site", "stay_connected", "watch_keys"]

WAIT, LONGEST_WAIT, LOOK = 5.0, 60.0, 0.3
"""seconds until an ended client is started again, at first and at most; and between looks at it"""
START = 60.0
"""seconds that Flower's server has to start"""
Say = Callable[[str], None]


def address_of(address: str) -> tuple[str, int]:
    """Host and port."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise UserError("not an address", where="address", given=address, allowed="HOST:PORT")
    return host.strip("[]"), int(port)


@contextmanager
def server(folder: StudyFolder, host: str, say: Say) -> Iterator[Child]:
    """The server of a study, with the keys of its sites registered."""
    need_flower()
    study = folder.read()
    _, port = address_of(study.address)
    here = "127.0.0.1" if host == "0.0.0.0" else host
    if listening(here, port):
        raise UserError(
            "somebody listens there already", where="address", given=study.address, fix="end that server first"
        )
    flower = Flower(folder, study)
    flower.configure()
    env = environment(flower.home, MANYHEADS_STUDY=str(folder.path.resolve()))
    log = folder.server / "server.log"
    with owned(superlink_command(study, folder, host, port), env, log) as child:
        until = time.monotonic() + START
        while not listening(here, port):
            if not child.running or time.monotonic() > until:
                raise UserError(f"Flower's server did not start: {child.last_words()}", fix=f"see {log}")
            time.sleep(0.2)
        watch_keys(folder, flower, say)
        yield child


def watch_keys(folder: StudyFolder, flower: Flower, say: Say) -> None:
    """Register the sites whose keys are new; a site's new key takes the place of its old one."""
    nodes = read_nodes(folder)
    for site in folder.read().sites:
        key, registered = folder.keys / f"{site}.pub", folder.server / "keys" / f"{site}.pub"
        text = key.read_text() if key.is_file() else ""
        if not text or (site in nodes and registered.is_file() and registered.read_text() == text):
            continue
        before = nodes.get(site)
        nodes[site] = flower.register(site, key)
        write_nodes(folder, nodes)
        registered.parent.mkdir(exist_ok=True)
        write_text(registered, text)
        if before is not None:
            flower.unregister(before)
        say(f"{site} is registered")


def stay_connected(kit: Kit, data: Path, say: Say, check: Callable[[], None]) -> None:
    """Keep a site connected to its server until ``check`` raises an error; whatever ends Flower's client, it is started again.

    Flower's client itself tries again while the server is away. It ends if the server refuses it, as it does for a while
    after a site was killed; so the waits grow.
    """
    wait = WAIT
    with locked(kit.path):
        while True:
            with site(kit, data, say) as child:
                started = time.monotonic()
                while child.running:
                    check()
                    time.sleep(LOOK)
            wait = WAIT if time.monotonic() - started > 60 else min(2 * wait, LONGEST_WAIT)
            say(f"Flower's client has ended ({child.last_words(1)}); once more in {wait:.0f} s; see {child.log}")
            until = time.monotonic() + wait
            while time.monotonic() < until:
                check()
                time.sleep(LOOK)


@contextmanager
def site(kit: Kit, data: Path, say: Say) -> Iterator[Child]:
    """A site's connection to its server."""
    need_flower()
    described = kit.read()
    if not data.is_file():
        raise UserError(f"{data} is not there", where="data")
    if not kit.key.is_file():
        raise UserError(f"{kit.key} is not there", fix=f'make one: ssh-keygen -t ecdsa -b 384 -N "" -f {kit.key}')
    home = kit.path / "flower"
    home.mkdir(exist_ok=True, mode=0o700)
    command = supernode_command(kit.path.resolve(), described.address, kit.key.resolve(), free_port())
    env = environment(home, **settings_of(kit.path, data))
    with owned(command, env, kit.path / "site.log") as child:
        say(f"{described.name} connects to {described.address}")
        yield child
