"""Flower's SuperNode, with one thing added: it runs only the app whose hash the site's owner has approved.

A server may send any program to its SuperNodes. Flower calls ``_verify_fab`` before a program is stored or run, and answers
the server with an error if that says no; here it compares the hash with the one in ``site.toml``.
"""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from manyheads.federate.audit import Audit
from manyheads.federate.kit import Kit

__all__ = ["main"]

NEEDED = ("_verify_fab", "_init_connection", "start_client_internal")


def main() -> None:
    """Start the SuperNode with the arguments of the command line."""
    program: Any = import_module("flwr.supernode.cli.flower_supernode")
    inside: Any = import_module("flwr.supernode.start_client_internal")

    lacks = [name for name in NEEDED if not hasattr(inside, name)]
    if lacks:
        sys.exit(f"this version of Flower cannot be made to check what it runs ({lacks[0]} is gone): install flwr<1.44")
    kit = Kit(Path(os.environ["MANYHEADS_KIT"]))
    approved, audit = kit.read().bundle, Audit(kit.audit)

    def verified(fab: Any, entities: Any) -> bool:
        found = hashlib.sha256(fab.content).hexdigest()
        audit.write("bundle", sha256=found, approved=found == approved)
        if found != approved:
            sys.stderr.write(f"refused: a program of hash {found}, and {approved} is approved\n")
        return found == approved

    connect = inside._init_connection

    @contextmanager
    def connected(*args: Any, **kwargs: Any) -> Any:
        with connect(*args, **kwargs) as connection:
            node, receive, send, get_run, get_fab, *rest = connection

            def marked(*given: Any) -> Any:
                fab = get_fab(*given)
                return replace(fab, verifications={**fab.verifications, "valid_license": "checked by the site"})

            yield (node, receive, send, get_run, marked, *rest)

    start = program.start_client_internal

    def started(**options: Any) -> None:
        start(**options | {"trusted_entities": {"site": "by hash"}})

    inside._verify_fab = verified
    inside._init_connection = connected
    program.start_client_internal = started
    program.flower_supernode()


if __name__ == "__main__":
    main()
