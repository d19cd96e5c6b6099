"""``manyheads federate``: the same trainings and comparisons across real sites that cannot pool their data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.cli.federate_jobs import compare, describe, run
from manyheads.cli.federate_processes import check, demo, server, site, status
from manyheads.cli.output import Plain
from manyheads.core.errors import UserError
from manyheads.core.plain import to_json
from manyheads.core.settings import as_dict
from manyheads.federate.flower import need_flower
from manyheads.federate.rules import Policy, Rules
from manyheads.federate.study import Study, StudyFolder

__all__ = ["federate_app"]

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")]
StudyPath = Annotated[Path, typer.Argument(help="folder of the study", show_default=False)]


def federate_app(arguments: Sequence[str]) -> typer.Typer:
    """Return the subcommands of ``federate``."""
    app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
    for command in (init, add, server, site, check, describe, run, compare, status, demo):
        app.command()(command)
    return app


def init(
    study: StudyPath,
    *,
    sites: Annotated[str, typer.Option(help="names of the sites: a,b,c", show_default=False)],
    address: Annotated[str, typer.Option(help="HOST:PORT at which the sites reach the server")] = "127.0.0.1:9092",
    label: Annotated[str, typer.Option(help="the label column; of survival TIME,EVENT")] = "label",
    algorithm: Annotated[str, typer.Option(help="the method that federate run trains")] = "fedrep",
    rounds: Annotated[int, typer.Option(help="communication rounds", min=1)] = 30,
    min_count: Annotated[int, typer.Option(help="no count of fewer rows leaves a site", min=1)] = 5,
    as_json: AsJson = False,
) -> None:
    """Make the folder of a study: its settings, certificates, and a start-up kit for each site.

    Everything about the study is in STUDY/study.toml: edit it. Send each site its folder STUDY/kits/SITE over a safe way,
    and then remove the private key there (STUDY/kits/SITE/SITE.key), or let the site make its own: the kit's page says how.

    Example:

      manyheads federate init heart --sites cleveland,budapest,zurich --label num --address hub.example.org:9092
    """
    need_flower()
    from manyheads.federate.kit import init_study
    from manyheads.federate.serve import address_of

    host, _ = address_of(address)
    made = Study(
        name=study.resolve().name,
        sites=tuple(name.strip() for name in sites.split(",") if name.strip()),
        address=address,
        data={"label": label},
        algorithm={"name": algorithm},
        training=_training(rounds),
        rules=Rules(min_sites=min(2, len(sites.split(",")))),
    )
    if not made.sites:
        raise UserError("no site is named", where="sites", fix="name them: --sites a,b,c")
    folder = init_study(study, made, list(dict.fromkeys([host, "localhost", "127.0.0.1"])), Policy(min_count=min_count))
    facts = {"study": str(study), "kits": {name: str(folder.kits / name) for name in made.sites}, **as_dict(made)}
    if as_json:
        typer.echo(to_json(facts))
        return
    console = Plain()
    console.print(f"{folder.file}: the settings of the study; edit them")
    for name, kit in facts["kits"].items():
        console.print(f"{kit}: for {name}; it holds a private key")
    console.print(f"\nnext: manyheads federate server {study}")


def _training(rounds: int) -> Any:
    from manyheads.run.protocol import Evaluate
    from manyheads.run.training import Training

    return Training(rounds=rounds, evaluate=Evaluate(every=5))  # each evaluation is a message of its own


def add(
    study: StudyPath,
    name: Annotated[str, typer.Argument(help="name of the new site", show_default=False)],
    *,
    min_count: Annotated[int, typer.Option(help="no count of fewer rows leaves the site", min=1)] = 5,
    as_json: AsJson = False,
) -> None:
    """Add a site to a study, with a kit of its own; the others notice nothing. A server that runs registers it by itself.

    Example:

      manyheads federate add heart longbeach
    """
    need_flower()
    from manyheads.federate.kit import add_site

    folder = StudyFolder(study)
    made = add_site(folder, name, Policy(min_count=min_count))
    facts = {"study": str(study), "site": name, "kit": str(folder.kits / name), "sites": list(made.sites)}
    if as_json:
        typer.echo(to_json(facts))
        return
    Plain().print(f"{facts['kit']}: for {name}; it takes part in the next run")
