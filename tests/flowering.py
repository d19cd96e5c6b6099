"""Real federations on this machine: Flower's server and sites as processes, on free ports of the loopback interface."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from manyheads.federate.follow import followed
from manyheads.federate.kit import init_study
from manyheads.federate.processes import Child, free_port, owned
from manyheads.federate.rules import Policy
from manyheads.federate.serve import server
from manyheads.federate.study import Study, StudyFolder


class Flowering:
    """A study whose server and sites run."""

    def __init__(self, folder: StudyFolder, data: Path, stack: ExitStack) -> None:
        self.folder, self.data, self.stack = folder, data, stack
        self.sites: dict[str, Child] = {}
        self.server: Child | None = None

    def start_server(self) -> None:
        self.server = self.stack.enter_context(server(self.folder, "127.0.0.1", lambda words: None))

    def start_site(self, name: str) -> None:
        """As its owner would: the command in a process of its own."""
        kit = self.folder.kits / name
        words = ["federate", "site", str(kit), "--data", str(self.data / f"{name}.csv"), "--yes"]
        command = [sys.executable, "-m", "manyheads", *words]
        self.sites[name] = self.stack.enter_context(owned(command, os.environ, kit / "command.log"))

    def do(self, kind: Any, out: Path, resume: bool = False) -> dict[str, Any]:
        said: list[str] = []
        return followed(self.folder, kind, out, resume, said.append) | {"said": said}


def made_study(tmp: Path, study: Study) -> StudyFolder:
    """A study at a free port."""
    made = replace(study, address=f"127.0.0.1:{free_port()}")
    return init_study(tmp / "study", made, ["127.0.0.1", "localhost"], Policy(min_count=1))


@contextmanager
def flowering(tmp: Path, data: Path, study: Study, sites: Sequence[str] | None = None) -> Iterator[Flowering]:
    """Start the server and all or some sites; end everything with the block."""
    with ExitStack() as stack:
        made = Flowering(made_study(tmp, study), data, stack)
        made.start_server()
        for name in study.sites if sites is None else sites:
            made.start_site(name)
        yield made


def processes_of(folder: Path) -> list[str]:
    """The processes that know of a study."""
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in found.splitlines() if str(folder) in line]
