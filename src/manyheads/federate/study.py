"""A study: what is learnt, by which sites, and how; the file ``study.toml`` of the coordinator."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.files import write_text
from manyheads.core.sealed import fingerprint_of
from manyheads.core.settings import as_dict, build, other_than, settings
from manyheads.data.sites.source import Sites
from manyheads.experiments.plan import Comparison
from manyheads.federate.rules import Rules
from manyheads.run.config_file import read_settings
from manyheads.run.training import Training

__all__ = ["STUDY", "Study", "StudyFolder"]

STUDY = "study.toml"
SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
Table = dict[str, Any]


@settings
class Study:
    """Everything that all sites of a study have in common."""

    name: str
    """of the study"""
    sites: tuple[str, ...]
    """names of the sites; their order gives each its number, so new ones are added at the end"""
    address: str = "127.0.0.1:9092"
    """host and port at which sites reach the server"""
    data: Table = Field(default_factory=dict)
    """how the sites' tables are read: label, task, categories, ignore, and the other settings of ``data sites``"""
    model: Table = Field(default_factory=lambda: {"name": "mlp"})
    """the model"""
    algorithm: Table = Field(default_factory=lambda: {"name": "fedrep"})
    """the method that ``federate run`` trains"""
    training: Training = Training()
    """rounds, seed, participation, evaluation"""
    compare: Comparison = Comparison()
    """the comparison that ``federate compare`` makes"""
    rules: Rules = Rules()
    """deadlines and bounds"""

    def __post_init__(self) -> None:
        for site in self.sites:
            if not SITE_NAME.fullmatch(site):
                raise UserError("not a name of a site", where="sites", given=site, allowed="letters, digits, . _ -")
        if len(set(self.sites)) < len(self.sites):
            raise UserError("two sites have the same name", where="sites", given=", ".join(self.sites))
        for name in ("path", "client"):
            if name in self.data:
                raise UserError("each site has its own", where=f"data.{name}", fix="leave it out")
        if self.training.class_weights == "balanced":
            raise UserError(
                "would need the labels of all sites in one place",
                where="training.class_weights",
                given="balanced",
                allowed="none, client",
            )
        self.reading("")

    def reading(self, path: str) -> Sites:
        """How the table of a site at ``path`` is read."""
        return build(Sites, {**self.data, "path": path}, where="data")

    @cached_property
    def identity(self) -> str:
        """A hash of what the states of sites depend on: the study's name and how tables are read."""
        return fingerprint_of({"name": self.name, "data": as_dict(self.reading(""))})


class StudyFolder:
    """The coordinator's folder of a study."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def file(self) -> Path:
        return self.path / STUDY

    @property
    def authority(self) -> Path:
        """certificate and key of the study's own certificate authority"""
        return self.path / "authority"

    @property
    def server(self) -> Path:
        """certificate and key of the server, its database and logs"""
        return self.path / "server"

    @property
    def keys(self) -> Path:
        """public keys of the sites"""
        return self.path / "keys"

    @property
    def kits(self) -> Path:
        return self.path / "kits"

    @property
    def bundle(self) -> Path:
        """the Flower app"""
        return self.path / "bundle"

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @property
    def audit(self) -> Path:
        return self.path / "audit.jsonl"

    def read(self) -> Study:
        if not self.file.is_file():
            raise UserError(f"{self.path} holds no study", fix="make one: manyheads federate init STUDY --sites a,b,c")
        return build(Study, read_settings(self.file), where=str(self.file))

    def write(self, study: Study) -> None:
        """Write ``study.toml``, with only the settings that differ from the defaults, and the usual ones to edit."""
        usual, own = as_dict(Study(name=study.name, sites=study.sites)), as_dict(study)
        shown: Table = {
            "name": study.name,
            "sites": list(study.sites),
            "address": study.address,
            "data": {"label": "label"} | study.data,
            "model": study.model,
            "algorithm": study.algorithm,
            "training": {"rounds": study.training.rounds, "seed": study.training.seed},
            "compare": {"methods": list(study.compare.methods), "seeds": study.compare.seeds},
            "rules": {k: getattr(study.rules, k) for k in ("min_sites", "wait", "deadline")},
        }
        for name in ("training", "compare", "rules"):
            shown[name] = other_than(usual[name], own[name]) | shown[name]
        write_text(self.file, tomli_w.dumps(shown))
