"""What a site can find out before it connects: server, certificate, key, versions, table; each with its remedy."""

from __future__ import annotations

import ssl
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from manyheads.core.errors import UserError, first_line
from manyheads.federate.kit import Kit, Site
from manyheads.federate.processes import listening
from manyheads.federate.serve import address_of
from manyheads.federate.study import Study
from manyheads.federate.table import SiteTable

__all__ = ["Finding", "preflight"]

SECONDS = 10.0


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    ok: bool
    found: str
    fix: str = ""


def preflight(kit: Kit, data: Path) -> list[Finding]:
    """All findings; later ones that depend on a failed one are left out."""
    try:
        site = kit.read()
    except UserError as error:
        return [Finding("kit", False, str(error))]
    return [*_files(kit, site), *_versions(site), *_network(kit, site), *_table(kit, site, data)]


def _files(kit: Kit, site: Site) -> Iterator[Finding]:
    lacks = [file.name for file in (kit.authority, kit.key) if not file.is_file()]
    fix = "ask the coordinator for the kit again, or make your own key: see the kit's README.md"
    yield Finding("kit", not lacks, f"lacks {', '.join(lacks)}" if lacks else f"of {site.name} for {site.study}", fix)
    if kit.key.is_file():
        mode = stat.S_IMODE(kit.key.stat().st_mode)
        yield Finding("private key", not mode & 0o077, f"mode {mode:o}", f"chmod 600 {kit.key}")


def _versions(site: Site) -> Iterator[Finding]:
    for package, wanted in site.versions.items():
        try:
            own = version(package)
        except PackageNotFoundError:
            yield Finding(package, False, "not installed", "pip install 'manyheads[flower]'")
            continue
        same = own.split(".")[:2] == wanted.split(".")[:2]
        yield Finding(package, same, f"{own}, the coordinator has {wanted}", f"pip install '{package}=={wanted}'")


def _network(kit: Kit, site: Site) -> Iterator[Finding]:
    host, port = address_of(site.address)
    there = listening(host, port, SECONDS)
    yield Finding(
        "server",
        there,
        f"{site.address} {'is' if there else 'cannot be'} reached",
        "is it running, and may you pass the firewall?",
    )
    if not there or not kit.authority.is_file():
        return
    why = _tried(lambda: _handshake(host, port, kit.authority))
    yield Finding(
        "certificate",
        why is None,
        why or "is the study's own",
        "is ca.crt that of this study, and the address the one it is for?",
    )
    if why is None and find_spec("flwr") and kit.key.is_file():
        busy = kit.connected
        why = None if busy else _tried(lambda: _signed(kit, site.address))
        yield Finding(
            "key",
            why is None,
            why or ("this site is connected now" if busy else "is registered"),
            "send KIT/SITE.key.pub to the coordinator, for the study's folder keys",
        )


def _tried(attempt: Callable[[], None]) -> str | None:
    """Why something fails; None if it does not."""
    try:
        attempt()
    except Exception as error:
        return first_line(error)
    return None


def _handshake(host: str, port: int, authority: Path) -> None:
    import socket

    context = ssl.create_default_context(cafile=str(authority))
    with (
        socket.create_connection((host, port), timeout=SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=host),
    ):
        pass


def _signed(kit: Kit, address: str) -> None:
    """Connect for a moment, as the server lets only sites whose key it knows."""
    import httpx
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key
    from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes
    from flwr.supernode.fleet_http_client import FleetHttpClient
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

    key = load_ssh_private_key(kit.key.read_bytes(), password=None)
    assert isinstance(key, EllipticCurvePrivateKey)
    public = key.public_key()
    signs: list[Any] = [RuntimeVersionHttpInterceptor(component_name="SuperNode"), NodeAuthHttpInterceptor(key, public)]
    asked = ActivateNodeRequest(public_key=public_key_to_bytes(public), heartbeat_interval=SECONDS)
    with FleetHttpClient.from_server_address(address, False, str(kit.authority), interceptors=signs) as client:
        try:
            node = client.ActivateNode(asked).node_id
        except httpx.HTTPStatusError:
            raise UserError("the server does not know it") from None
        client.DeactivateNode(DeactivateNodeRequest(node_id=node))


def _table(kit: Kit, site: Site, data: Path) -> Iterator[Finding]:
    study = Study(name=site.study, sites=(site.name,), data=site.data)
    table = SiteTable(study, site.name, data, site.policy)
    try:
        told, errors = table.looked_at()
    except UserError as error:
        yield Finding("table", False, str(error))
        return
    yield Finding("table", True, f"{told.rows} rows, {len(told.columns)} columns, label {told.label!r}")
    enough = told.rows >= site.policy.min_rows
    yield Finding("rows", enough, f"{told.rows}, the policy asks for {site.policy.min_rows}", "min_rows in site.toml")
    for problem in errors:
        yield Finding("table", False, str(problem))
