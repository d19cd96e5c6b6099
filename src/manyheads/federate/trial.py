"""What coordinator and sites both know of one training: algorithm, model, settings, and on which division of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from manyheads.core.contract import ALGORITHMS, Algorithm
from manyheads.core.errors import UserError
from manyheads.core.registry import Registry
from manyheads.core.sealed import fingerprint_of
from manyheads.core.settings import as_dict, build
from manyheads.data import Federation
from manyheads.engines.workbench import Keep, Workbench, tried_on
from manyheads.models import MODELS, Model
from manyheads.run.config import model_from
from manyheads.run.training import Training

__all__ = ["Trial"]

Table = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """One training. It travels as plain values, and has the same key wherever it is read."""

    algorithm: Algorithm
    spec: Any
    """of the model, a registered class of settings"""
    training: Training
    part: int
    """which of the federations of the division"""

    @cached_property
    def facts(self) -> Table:
        return {
            "algorithm": {"name": self.algorithm.name, **as_dict(self.algorithm)},
            "model": {"name": self.spec.name, **as_dict(self.spec)},
            "training": {k: v for k, v in as_dict(self.training).items() if k not in ("engine", "checkpoint_seconds")},
            "part": self.part,
        }

    @cached_property
    def key(self) -> str:
        return fingerprint_of(self.facts)

    @cached_property
    def states_key(self) -> str:
        """Identifies the states that a site keeps: they are found again by a run that is gone on with for more rounds."""
        kept = {name: value for name, value in self.facts["training"].items() if name != "rounds"}
        return fingerprint_of(self.facts | {"training": kept})

    @classmethod
    def of(cls, facts: Table, own_code: Sequence[str] = ()) -> Trial:
        """Read what was sent; ``own_code`` are import paths of classes besides manyheads' own that may be named."""
        for path in own_code:
            _imported(path)
        return cls(
            _named(ALGORITHMS, facts["algorithm"], "algorithm"),
            _named(MODELS, facts["model"], "model"),
            build(Training, facts["training"], where="training"),
            int(facts["part"]),
        )

    def model(self, federation: Federation) -> Model:
        """The model with its initial parameters, the same at all sites."""
        made, _ = model_from(self.spec, federation.sample_shape, federation.outputs, str(federation.train.x.dtype))
        return made(self.training.seed)

    def bench(self, federation: Federation) -> Workbench:
        """All that a site needs to train and evaluate its client."""
        tried = tried_on(self.model(federation), federation)
        keep = Keep(local=self.training.evaluate.model == "local", each=True)
        engine = self.training.engine
        return Workbench(
            self.algorithm, tried, federation, engine.mode, engine.resolved_device(), keep, self.training.class_weights
        )


def _imported(path: str) -> None:
    """Make a class of the site's own choice known by its name: an algorithm or a model."""
    try:
        ALGORITHMS.imported(path, where="own_code")
    except UserError:
        MODELS.imported(path, where="own_code")


def _named(known: Registry[type[Any]], table: Table, where: str) -> Any:
    values = dict(table)
    name = str(values.pop("name"))
    if name not in known:
        raise UserError(
            f"the study names a class that is not manyheads' own: {name}",
            where=where,
            fix="if it is to be trusted, name it in site.toml: own_code = ['package.module:Class']",
        )
    return build(known.find(name, where), values, where=where)
