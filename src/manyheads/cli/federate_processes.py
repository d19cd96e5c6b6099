"""``manyheads federate server``, ``site``, ``check``, ``status`` and ``demo``."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from manyheads.cli.output import Plain
from manyheads.cli.stops import check as check_stop
from manyheads.core.errors import UserError
from manyheads.core.plain import to_json
from manyheads.federate.study import StudyFolder

__all__ = ["check", "demo", "server", "site", "status"]

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")]
StudyPath = Annotated[Path, typer.Argument(help="folder of the study", show_default=False)]
KitPath = Annotated[Path, typer.Argument(help="folder of the site's kit", show_default=False)]
Data = Annotated[Path, typer.Option(help="the site's table: CSV, Excel, Parquet or NPZ", show_default=False)]
LOOK = 2.0
"""seconds between looks at keys of new sites"""


def server(
    study: StudyPath,
    *,
    host: Annotated[
        str, typer.Option(help="address to listen on; 0.0.0.0: reachable from other machines")
    ] = "127.0.0.1",
) -> None:
    """Run the server of a study until Ctrl-C. It listens on this machine alone unless --host says otherwise.

    Sites need the certificate of their kit, and a key that the study knows. Flower's open build lets anybody who can reach
    the port submit jobs: put a proxy that passes only /v1/fleet/, or a private network, in front of it.

    Examples:

      manyheads federate server heart

      manyheads federate server heart --host 0.0.0.0
    """
    from manyheads.federate.flower import Flower
    from manyheads.federate.serve import server as serving
    from manyheads.federate.serve import watch_keys

    folder, console = StudyFolder(study), Plain(stderr=True)
    with serving(folder, host, console.print) as child:
        made = folder.read()
        console.print(f"the server of {made.name} is at {made.address}; Ctrl-C ends it")
        flower, doubt = Flower(folder, made), ""
        while child.running:
            check_stop()
            time.sleep(LOOK)
            try:
                watch_keys(folder, flower, console.print)
                doubt = ""
            except UserError as error:  # as of a file that is being edited: the sites stay connected
                if str(error) != doubt:
                    console.print(f"warning: no keys are registered: {error}")
                doubt = str(error)
        console.print(f"error: Flower's server has ended: {child.last_words()}; see {child.log}")
        raise typer.Exit(2)


def site(
    kit: KitPath,
    *,
    data: Data,
    yes: Annotated[bool, typer.Option("--yes", help="approve the program of the study without being asked")] = False,
) -> None:
    """Connect a site to its server and answer what it asks, until Ctrl-C; a server that is away is tried again.

    The first time, the hash of the only program that may run is shown and asked about. Every message and all that leaves is
    in KIT/audit.jsonl.

    Example:

      manyheads federate site kits/cleveland --data cleveland.csv
    """
    from manyheads.federate.kit import Kit, approve
    from manyheads.federate.serve import stay_connected

    console, own = Plain(stderr=True), Kit(kit)
    approve(own, console.print, (lambda words: True) if yes else _confirmed)
    console.print("Ctrl-C ends it; what happens is in " + str(own.audit))
    stay_connected(own, data, console.print, check_stop)


def _confirmed(words: str) -> bool:
    """The owner's answer; no, if there is nobody to ask."""
    try:
        return typer.confirm(words, err=True)
    except typer.Abort:
        return False


def check(kit: KitPath, *, data: Data, as_json: AsJson = False) -> None:
    """Look through everything that a site needs, before it connects: a line each, with what to do. Exit code 2 if not all is well.

    Example:

      manyheads federate check kits/cleveland --data cleveland.csv
    """
    from manyheads.federate.kit import Kit
    from manyheads.federate.preflight import preflight

    found = preflight(Kit(kit), data)
    if as_json:
        typer.echo(to_json({"ok": all(each.ok for each in found), "checks": [each.__dict__ for each in found]}))
    else:
        console = Plain()
        for each in found:
            fix = f"; {each.fix}" if each.fix and not each.ok else ""
            console.print(f"{'ok   ' if each.ok else 'NOT  '}{each.what}: {each.found}{fix}")
    if not all(each.ok for each in found):
        raise typer.Exit(2)


def status(study: StudyPath, *, as_json: AsJson = False) -> None:
    """Show the sites of a study, whether they are connected, and how far its last job is.

    Example:

      manyheads federate status heart --json
    """
    from manyheads.federate.state import state_of_study

    facts = state_of_study(StudyFolder(study))
    if as_json:
        typer.echo(to_json(facts))
        return
    console = Plain()
    console.print(f"server at {facts['address']}: {'there' if facts['server'] else 'not there'}")
    table = Table("site", "", "last seen", box=None, pad_edge=False)
    for each in facts["sites"]:
        table.add_row(each["site"], each["status"], _ago(each["last_seen"]))
    console.print(table)
    job = facts["job"]
    if job:
        rounds = f"round {job['round']} of {job['rounds']}" if job["kind"] == "run" else ""
        far = "; ".join(words for words in (rounds, job["words"]) if words)
        console.print(f"{job['kind']}, {job['state']}" + (f": {far}" if far else ""))
        for site, why in job["late"].items():
            console.print(f"  {site}: {why}")


def _ago(when: str | None) -> str:
    if when is None:
        return "never"
    seconds = (datetime.now(UTC) - datetime.fromisoformat(when)).total_seconds()
    return f"{seconds:.0f} s ago" if seconds < 120 else f"{seconds / 60:.0f} min ago"


def demo(
    *,
    out: Annotated[
        Path | None, typer.Option(help="folder to keep everything in  \\[default: removed at the end]")
    ] = None,
    rounds: Annotated[int, typer.Option(help="most rounds of the comparison", min=1)] = 3,
    as_json: AsJson = False,
) -> None:
    """Try it all on this machine: a server and three sites of embedded data, a short comparison, its report; then clean up.

    Example:

      manyheads federate demo --out demo
    """
    from manyheads.federate.demo import demonstrate

    facts: dict[str, Any] = demonstrate(out, rounds, Plain(stderr=True).print)
    if as_json:
        typer.echo(to_json(facts))
    else:
        Plain(wrap=True).print(facts["text"])
