"""Flower's programs, as they are: where they keep things, how they are started, and what their commands say."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tomli_w

from manyheads.core.errors import UserError, first_line
from manyheads.core.files import write_text
from manyheads.federate.study import Study, StudyFolder

__all__ = ["CONNECTION", "Flower", "bundle_hash", "environment", "need_flower", "program"]

CONNECTION = "study"
"""the name under which Flower's commands know the server"""
BUNDLE = Path(__file__).parent / "bundle"
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.3",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""no telemetry, no look for updates, nothing installed at run time"""


def need_flower() -> None:
    """An error that says how to get Flower, if it is not installed."""
    if find_spec("flwr") is None:
        raise UserError("a federation of real sites needs Flower", fix="pip install 'manyheads[flower]'")


def environment(home: Path, **more: str) -> dict[str, str]:
    """The environment of Flower's processes, which keep their files in ``home``."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    return os.environ | QUIET | {"FLWR_HOME": str(home.resolve()), "PATH": path, "PYTHONUNBUFFERED": "1"} | more


def program(name: str) -> str:
    """The path of one of Flower's programs, beside the Python that runs this."""
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if found is None:
        raise UserError(f"{name} is not there", fix="pip install 'manyheads[flower]'")
    return found


def copy_bundle(place: Path) -> None:
    """The Flower app, which brings no code of its own: it calls the manyheads that is installed."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(BUNDLE, place, ignore=shutil.ignore_patterns("__pycache__"))


def bundle_hash(place: Path = BUNDLE) -> str:
    """The hash of the app as Flower sends it to the sites."""
    need_flower()
    from flwr.cli.build import build_fab_from_disk

    return hashlib.sha256(build_fab_from_disk(place)).hexdigest()


class Flower:
    """Flower's commands, given to the server of a study."""

    def __init__(self, folder: StudyFolder, study: Study) -> None:
        self.folder, self.study = folder, study

    @property
    def home(self) -> Path:
        return self.folder.server / "flower"

    def configure(self) -> None:
        """Write the file by which Flower's commands find the server."""
        self.home.mkdir(parents=True, exist_ok=True)
        connection = {
            "address": self.study.address,
            "root-certificates": str((self.folder.authority / "ca.crt").resolve()),
        }
        table = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
        write_text(self.home / "config.toml", tomli_w.dumps(table))

    def call(self, *words: str, seconds: float = 60.0) -> dict[str, Any]:
        """What a command of ``flwr`` answers, as JSON; an error with its own words if it fails."""
        command = [program("flwr"), *words, "--format", "json"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, env=environment(self.home), timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise UserError(f"Flower's {words[0]!r} does not answer", fix="is the server there?") from None
        found = _json_in(done.stdout)
        if done.returncode or found is None or found.get("success") is False:
            said = str((found or {}).get("error-message") or done.stderr or done.stdout).strip()
            reason = said.split("\n\n")[-1]  # what comes before tells what was tried
            raise UserError(f"Flower: {first_line(Exception(reason))}", where=" ".join(words[:2]))
        return found

    def register(self, site: str, key: Path) -> int:
        """Make a site's public key known to the server; gives the number by which the server knows the site."""
        return int(self.call("supernode", "register", str(key), CONNECTION, "--name", site)["node-id"])

    def unregister(self, node: int) -> None:
        """Make the server forget a site's key; an error if it never knew it."""
        self.call("supernode", "unregister", str(node), CONNECTION)

    def nodes(self) -> list[dict[str, Any]]:
        """What the server knows of its sites."""
        found = self.call("supernode", "list", CONNECTION)
        return list(found.get("nodes", ()))

    def submit(self, job: str) -> int:
        """Start a job at the server; gives its number."""
        found = self.call("run", str(self.folder.bundle), CONNECTION, "-c", f'job="{job}"')
        return int(found["run-id"])

    def runs(self) -> list[dict[str, Any]]:
        return list(self.call("list", CONNECTION).get("runs", ()))

    def stop(self, run: int) -> None:
        self.call("stop", str(run), CONNECTION)


def _json_in(text: str) -> dict[str, Any] | None:
    """The last JSON object that a command has printed."""
    start = text.find("{")
    while start >= 0:
        try:
            found = json.loads(text[start:])
        except ValueError:
            start = text.find("{", start + 1)
        else:
            return found if isinstance(found, dict) else None
    return None


def superlink_command(study: Study, folder: StudyFolder, host: str, port: int) -> list[str]:
    """Flower's server, with certificates, and keys of sites required."""
    return [
        program("flower-superlink"),
        *("--host", host, "--port", str(port)),
        *("--ssl-certfile", str(folder.server / "server.pem"), "--ssl-keyfile", str(folder.server / "server.key")),
        *("--ssl-ca-certfile", str(folder.authority / "ca.crt")),
        "--enable-supernode-auth",
        "--disable-runtime-dependency-installation",
        *("--database", str(folder.server / "superlink.db")),
    ]


def supernode_command(kit: Path, address: str, key: Path, port: int) -> list[str]:
    """Flower's client, in the wrapper that lets only the approved app run."""
    return [
        sys.executable,
        *("-m", "manyheads.federate.supernode"),
        *("--superlink", address, "--root-certificates", str(kit / "ca.crt")),
        *("--auth-supernode-private-key", str(key)),
        *("--host", "127.0.0.1", "--port", str(port)),
    ]


def settings_of(kit: Path, data: Path) -> Mapping[str, str]:
    """What the processes at a site must know, in their environment."""
    return {"MANYHEADS_KIT": str(kit.resolve()), "MANYHEADS_TABLE": str(data.resolve())}
