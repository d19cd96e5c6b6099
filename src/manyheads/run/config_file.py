"""Reads configurations: the user's own files, and those that runs and comparisons keep in their folders."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from manyheads.core.contract import ALGORITHMS, Algorithm
from manyheads.core.errors import Damaged, UserError
from manyheads.core.files import content
from manyheads.core.sealed import read_toml, write_toml
from manyheads.core.settings import as_dict, build, settings
from manyheads.data import Federation
from manyheads.metrics import METRICS
from manyheads.models import MODELS, Model, ModelSpec
from manyheads.monitors import MONITORS
from manyheads.run.config import GivenModel, model_from, placed, with_code
from manyheads.run.kinds import Code, require_imported
from manyheads.run.training import Training

__all__ = [
    "COMPARISON",
    "CUSTOM",
    "RUN",
    "SCHEMA",
    "TUNING",
    "Facts",
    "RunConfig",
    "read_kept_settings",
    "read_run_config",
    "read_settings",
]

SCHEMA = 1
RUN, COMPARISON, TUNING = "config.toml", "compare.toml", "tune.toml"
"""names of the configuration file in the folder of a run, of a comparison, and of a search for settings"""
CUSTOM = "custom"
"""the name of data and models that were given as objects"""
CHANGEABLE = ("rounds", "checkpoint_seconds", "engine")
"""settings that a resume may change, besides the path of the data"""
ADDED_TO = ("evaluate", "finetune", "class_weights")
"""settings that, in part or as a whole, runs of earlier versions do not have"""
Table = dict[str, Any]


def read_settings(path: Path) -> Table:
    """The settings in a user's file, which may also be a file kept by a run or a comparison, edited or not."""
    try:
        table = tomllib.loads(content(path).decode())
    except FileNotFoundError:
        raise UserError(f"{path} is not there", where="config") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}", where="config") from None
    except RecursionError:
        raise UserError(f"{path} is nested too deeply", where="config") from None
    except ValueError as error:  # bad TOML, or a number with thousands of digits
        raise UserError(f"{path} is not valid TOML: {error}", where="config") from None
    return _settings(table)


def read_kept_settings(path: Path) -> Table:
    """The settings that a run or a comparison keeps in its folder, to resume it; an error if they were altered."""
    table = _read_sealed(path)
    methods = table.get("compare", {}).get("methods", ())
    require_imported(table.get("facts", {}).get("code", {}), str(path.parent), methods)
    return _settings(table)


def read_run_config(folder: Path) -> RunConfig:
    """The configuration of the run in a folder; an error if the file was altered."""
    path = folder / RUN
    if not path.exists():
        raise UserError(f"{folder} is not a run directory", fix=f"it has no {RUN}")
    table = _read_sealed(path)
    named = all(isinstance(table.get(key), dict) and "name" in table[key] for key in ("algorithm", "model", "data"))
    if not named or "rounds" not in table or not all(isinstance(table.get(key), dict) for key in ("engine", "facts")):
        raise Damaged(f"{path} is not that of a run")
    return RunConfig(_settings(table), build(Facts, table["facts"], where=f"{path}: facts"))


def _read_sealed(path: Path) -> Table:
    kinds = {COMPARISON: ("comparison", "compare"), TUNING: ("search", "tune METHOD")}
    kind, command = kinds.get(path.name, ("run", "run"))
    table = read_toml(
        path, fix=f"undo the change; as another {kind}, start it elsewhere: manyheads {command} FILE --out NEW"
    )
    schema = table.get("schema", SCHEMA)
    if not isinstance(schema, int) or schema > SCHEMA:
        raise UserError(
            f"{path.parent} was written by a newer manyheads",
            given=f"schema {schema}",
            allowed=f"up to {SCHEMA}",
            fix="upgrade manyheads to read it",
        )
    return table


def _settings(table: Table) -> Table:
    return {k: v for k, v in table.items() if k not in ("schema", "facts")}


@settings
class Facts:
    """Facts about a run's federation, kept so that the run can be loaded without its data."""

    fingerprint: str
    """a hash of all samples and of their division"""
    clients: int
    """number of clients"""
    sample_shape: tuple[int, ...]
    """shape of one input"""
    outputs: int
    """number of classes, or length of the targets"""
    task: str
    """classification or regression"""
    dtype: str
    """number type of the inputs"""
    loss: str | None = None
    """what the loss means, if that is not the usual one of the task"""
    code: Code | None = None
    """import paths of classes that are not part of this package, by kind and name"""

    @classmethod
    def of(cls, federation: Federation, code: Code | None = None) -> Facts:
        return cls(
            fingerprint=federation.fingerprint,
            clients=len(federation),
            sample_shape=federation.sample_shape,
            outputs=federation.outputs,
            task=federation.task,
            dtype=str(federation.train.x.dtype),
            loss=federation.encoding.loss or None,
            code=code or None,
        )

    def origin(self, kind: str, name: str) -> str | None:
        """The import path of a class that is not part of this package; otherwise None."""
        return (self.code or {}).get(kind, {}).get(name)


@dataclass(frozen=True)
class RunConfig:
    """Everything that a run's folder keeps about how it was made: settings, all defaults filled in, and facts."""

    settings: Table
    facts: Facts

    @classmethod
    def of(cls, algorithm: Algorithm, federation: Federation, training: Training, made: Table) -> RunConfig:
        """``made`` holds the settings of data and model; if empty, these are the user's own objects."""
        own = {"data": {"name": CUSTOM}, "model": {"name": CUSTOM}}
        method = {"algorithm": {"name": algorithm.name, **as_dict(algorithm)}}
        monitors = [MONITORS.find(name) for name in training.monitor]
        metrics = [METRICS.find(name) for name in training.evaluate.metrics]
        code = with_code(made, algorithm=[algorithm], monitor=monitors, metric=metrics).get("facts", {}).get("code")
        return cls(_settings(own | made | as_dict(training) | method), Facts.of(federation, code))

    def write(self, folder: Path) -> None:
        write_toml(folder / RUN, {"schema": SCHEMA, **self.table})

    @property
    def table(self) -> Table:
        return self.settings | {"facts": as_dict(self.facts)}

    @property
    def fixed(self) -> Table:
        """What a resume may not change: everything but rounds, checkpoints, workers, and the path of the data."""
        kept = {k: v for k, v in self.table.items() if k not in ("rounds", "checkpoint_seconds")}
        data = {k: v for k, v in kept["data"].items() if k != "path"}  # the fingerprint identifies the data
        facts = {k: v for k, v in kept["facts"].items() if k != "code"}  # a module may be renamed
        return kept | {"engine": {"mode": kept["engine"]["mode"]}, "data": data, "facts": facts}

    def require_same(self, now: RunConfig) -> None:
        """Raise an error if ``now`` differs from this configuration in settings that a resume may not change."""

        def found(config: RunConfig) -> Table:
            told = {k: v for k, v in as_dict(config.training("resume")).items() if k in ADDED_TO}
            places = {name: placed(config.fixed[name]) for name in ("data", "model")}
            return config.fixed | told | places  # settings added since the run have their defaults

        schedule = self.training("resume").schedule
        if schedule and schedule.ends_with_the_run and self.settings["rounds"] != now.settings["rounds"]:
            raise UserError(
                "the schedule of this run was made for its number of rounds",
                where="rounds",
                given=now.settings["rounds"],
                allowed=str(self.settings["rounds"]),
                fix="for a schedule that does not depend on it: --schedule.rounds",
            )
        old, new = found(self), found(now)
        for name in old.keys() | new.keys():
            if old.get(name) != new.get(name):
                raise UserError(
                    f"{name} is not what this run was started with",
                    where="resume",
                    given=new.get(name),
                    allowed=str(old.get(name)),
                )

    def resumed_as(self, now: RunConfig) -> RunConfig:
        """This configuration with the settings from ``now`` that a resume may change."""
        place = {k: v for k, v in now.settings["data"].items() if k == "path"}
        changes = {name: now.settings[name] for name in CHANGEABLE}
        return replace(self, settings=self.settings | changes | {"data": self.settings["data"] | place})

    def training(self, where: object) -> Training:
        """The settings of the round loop; ``where`` names the run in errors, here and below."""
        known = {f.name: self.settings[f.name] for f in fields(Training) if f.name in self.settings}
        return build(Training, known, where=str(where))

    def algorithm(self, where: object) -> Algorithm:
        table = dict(self.settings["algorithm"])
        name = table.pop("name")
        cls = ALGORITHMS.find(name, str(where), self.facts.origin("algorithm", name))
        return build(cls, table, where=f"{where}: algorithm")

    def model(self, where: object, given: GivenModel | None = None) -> Model:
        """The model with its initial parameters: the ``given`` one, or else built from the run's settings."""
        facts, seed = self.facts, self.training(where).seed
        given = self._spec(where) if given is None else given
        made, _ = model_from(given, facts.sample_shape, facts.outputs, facts.dtype)
        return made(seed)

    def _spec(self, where: object) -> ModelSpec:
        table = dict(self.settings["model"])
        name = table.pop("name")
        if name == CUSTOM:
            raise UserError(
                f"{where} was made with a model of your own", fix="give it again: manyheads.load(path, model=...)"
            )
        cls = MODELS.find(name, str(where), self.facts.origin("model", name))
        spec: ModelSpec = build(cls, table, where=f"{where}: model")
        return spec
