"""A site's start-up kit: certificate, key pair, ``site.toml``, and a page that says what to do with them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.files import fresh_folder, locked, write_text
from manyheads.core.settings import as_dict, build, settings
from manyheads.federate.audit import Audit
from manyheads.federate.rules import Policy
from manyheads.federate.study import Study, StudyFolder
from manyheads.run.config_file import read_settings

__all__ = ["Kit", "Site", "add_site", "approve", "init_study"]

SITE = "site.toml"
PAGE = """# Kit of {site} for the study {study}

What is here: `ca.crt` (certificate by which the server is known), `{site}.key` and `{site}.key.pub` (your key pair),
`site.toml` (who you are, and what you allow). Your table stays where it is; personal models and states are kept in this
folder, in `states`, `runs` and `models`. `audit.jsonl` tells of every message: what was asked, what left, how many bytes.

Three commands:

    pip install 'manyheads[flower]'
    manyheads federate check . --data my.csv     # before the first start: all that could go wrong, line by line
    manyheads federate site . --data my.csv      # stays connected until Ctrl-C

Your own key, which nobody else has ever had: `ssh-keygen -t ecdsa -b 384 -N "" -f {site}.key` in this folder, then send
`{site}.key.pub` to the coordinator, who puts it in the study's folder `keys` as `{site}.pub`.

`site.toml`, `[policy]`: `min_count` (no count of fewer rows leaves), `min_rows`, `label_counts`, `actions`. The program that the
server sends is run only if its hash is `bundle`; it brings no code of its own and calls the manyheads that you have
installed.
"""


@settings
class Site:
    """``site.toml``."""

    name: str
    """of the site"""
    study: str
    """name of the study"""
    address: str
    """host and port of the server"""
    bundle: str
    """SHA-256 of the only program that may be run"""
    versions: dict[str, str] = Field(default_factory=dict)
    """of the packages, at the coordinator"""
    data: dict[str, Any] = Field(default_factory=dict)
    """how the table is read, as the study said when the kit was made"""
    policy: Policy = Policy()
    """what the site allows"""


class Kit:
    """The folder of a kit."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Site:
        file = self.path / SITE
        if not file.is_file():
            raise UserError(f"{self.path} is no kit: it has no {SITE}", fix="the coordinator makes kits: federate init")
        return build(Site, read_settings(file), where=str(file))

    def write(self, site: Site) -> None:
        write_text(self.path / SITE, tomli_w.dumps(as_dict(site)))

    @property
    def key(self) -> Path:
        return self.path / f"{self.read().name}.key"

    @property
    def authority(self) -> Path:
        return self.path / "ca.crt"

    @property
    def connected(self) -> bool:
        """Whether a process keeps this site connected."""
        try:
            locked(self.path).close()
        except UserError:
            return True
        return False

    @property
    def audit(self) -> Path:
        return self.path / "audit.jsonl"

    @property
    def audit_log(self) -> Audit:
        return Audit(self.audit)


def init_study(path: Path, study: Study, hosts: list[str], policy: Policy | None = None) -> StudyFolder:
    """A folder with everything that a study needs: settings, certificates, the app, and a kit for each site."""
    from manyheads.federate.flower import copy_bundle
    from manyheads.federate.keys import make_authority, make_server_certificate

    fresh_folder(path)
    folder = StudyFolder(path)
    folder.write(study)
    make_authority(folder.authority, study.name)
    make_server_certificate(folder.authority, folder.server, hosts)
    copy_bundle(folder.bundle)
    for site in study.sites:
        make_kit(folder, study, site, policy or Policy())
    return folder


def add_site(folder: StudyFolder, site: str, policy: Policy | None = None) -> Study:
    """One more site, after all others; nothing of theirs is touched."""
    before = folder.read()
    if site in before.sites:
        raise UserError("the study has this site already", given=site)
    study = build(Study, as_dict(before) | {"sites": [*before.sites, site]}, where="study")
    make_kit(folder, study, site, policy or Policy())
    text = folder.file.read_text(encoding="utf-8")
    write_text(folder.file, _with_sites(text, study.sites))
    return study


def _with_sites(text: str, sites: tuple[str, ...]) -> str:
    """The study's file with another list of sites, and everything else as the user has written it."""
    listed = tomli_w.dumps({"sites": list(sites)}).strip()
    new, count = re.subn(r"^sites\s*=\s*\[.*?\]", listed, text, count=1, flags=re.MULTILINE | re.DOTALL)
    if not count:
        raise UserError("study.toml has no list of sites", fix='write it as sites = ["a", "b"]')
    return new


def make_kit(folder: StudyFolder, study: Study, site: str, policy: Policy) -> Kit:
    """The kit of one site; its public key is also put where the server looks for it."""
    from manyheads.federate.flower import bundle_hash
    from manyheads.federate.keys import make_key_pair

    kit = Kit(folder.kits / site)
    kit.path.mkdir(parents=True, mode=0o700)
    versions = {package: version(package) for package in ("manyheads", "flwr")}
    kit.write(Site(site, study.name, study.address, bundle_hash(folder.bundle), versions, study.data, policy))
    make_key_pair(kit.key)
    shutil.copyfile(folder.authority / "ca.crt", kit.authority)
    folder.keys.mkdir(exist_ok=True)
    shutil.copyfile(kit.key.with_name(f"{kit.key.name}.pub"), folder.keys / f"{site}.pub")
    write_text(kit.path / "README.md", PAGE.format(site=site, study=study.name))
    return kit


def approve(kit: Kit, say: Callable[[str], None], agrees: Callable[[str], bool]) -> None:
    """Ask the owner about the only program that may run, unless this very one was approved before."""
    wanted, file = kit.read().bundle, kit.path / "approved"
    if file.is_file() and file.read_text(encoding="utf-8").strip() == wanted:
        return
    say(f"the server of {kit.read().study} may run one program here, of SHA-256 {wanted};")
    say("it brings no code of its own, and calls the manyheads that is installed on this machine")
    if not agrees("approve it?"):
        raise UserError(
            "the program was not approved", fix="answer y, or say --yes; the coordinator can tell what it is"
        )
    write_text(file, wanted + "\n")
    kit.audit_log.write("approved", sha256=wanted)
