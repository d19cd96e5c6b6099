"""The configuration of a run, and what it builds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from torch import nn

from manyheads.core.contract import ALGORITHMS, Algorithm
from manyheads.core.errors import UserError
from manyheads.core.registry import Registry
from manyheads.core.settings import as_dict, build, settings
from manyheads.data import ClassSplit, Federation, Key, federate, parse_partition, source_of
from manyheads.models import MODELS, Model, ModelSpec, build_model
from manyheads.run.kinds import code_of
from manyheads.run.training import Training

__all__ = [
    "Config",
    "GivenModel",
    "assemble",
    "federation_of",
    "merged",
    "model_from",
    "model_spec",
    "placed",
    "prepare",
    "with_code",
]

Table = dict[str, Any]
GivenModel = Model | nn.Module | str | ModelSpec
"""the forms in which a user may give a model"""
PLACES = ("path", "words", "vectors")
"""settings of data and of models that name a file or a folder"""


@settings
class Config(Training):
    """Everything about a run. ``data``, ``model`` and ``algorithm`` are tables: a name and that thing's own settings."""

    data: Table = Field(default_factory=lambda: {"name": "digits"})
    """where the samples come from"""
    partition: str | Table = ""
    """how they are divided: iid, classes:3, shards:2, dirichlet:0.6, dirichlet-shares:0.6, lognormal:1, key:NAME or just NAME
    (writer, user), femnist-recipe, fallah, class-split; in a file also a table (mixture)"""
    clients: Annotated[int, Field(ge=0)] = 0
    """number of clients; 0: 20, or the data's own number"""
    new_clients: Annotated[float, Field(ge=0)] = 0.0
    """clients kept out of training: a fraction, or a number if 1 or more; with new data, how many of them"""
    augment: bool = False
    """crop and mirror training images at random"""
    new_data: str | Table = ""
    """other data for the new clients, such as cifar10 for a model of cifar100; in a file also a table with its settings"""
    new_samples: Annotated[int, Field(ge=1)] = 500
    """training samples of each new client from other data, equally many of each class"""
    validation: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """part of each client's training samples that is set aside"""
    model: Table = Field(default_factory=dict)
    """the model; without a name, the one that goes with the data"""
    algorithm: Table = Field(default_factory=lambda: {"name": "fedavg"})
    """the method"""

    def training(self) -> Training:
        """The settings that the round loop needs."""
        return Training(**{f.name: getattr(self, f.name) for f in fields(Training)})


def assemble(config: Config) -> tuple[Algorithm, Model, Federation, Table]:
    """Build what a configuration names; the table holds the settings of data and model, including all defaults."""
    algorithm = _named(ALGORITHMS, config.algorithm, "algorithm")
    model, federation, table = prepare(config)
    return algorithm, model(config.seed), federation, table


def prepare(config: Config) -> tuple[Callable[[int], Model], Federation, Table]:
    """As :func:`assemble` without the algorithm, and with a function that makes the model from a seed."""
    config.engine.check()  # a device or a cluster that cannot be used is an error before anything is read or written
    source = source_of(config.data)
    spec = model_spec(config)
    federation, table = federation_of(config, source)
    model, made = model_from(spec, federation.sample_shape, federation.outputs, str(federation.train.x.dtype))
    return model, federation, merged(table, made)


def model_spec(config: Config) -> ModelSpec:
    """The specification of the model that a configuration names, or of the one that goes with its data."""
    spec: ModelSpec = _named(MODELS, {"name": source_of(config.data).model} | config.model, "model")
    return spec


def model_from(
    given: GivenModel, shape: tuple[int, ...], outputs: int, dtype: str
) -> tuple[Callable[[int], Model], Table]:
    """A function that makes the given model from a seed, and the table of the model's settings.

    A model or a module is used as it is, with its present weights; a name or a specification is built.
    """
    if isinstance(given, Model | nn.Module):
        return partial(_as_it_is, Model(given) if isinstance(given, nn.Module) else given), {}
    spec: ModelSpec = MODELS.find(given, where="model")() if isinstance(given, str) else given
    if isinstance(spec, type) or not callable(getattr(spec, "build", None)):
        raise UserError(
            "this is no model",
            where="model",
            given=given,
            allowed="a Model, an nn.Module, a name, or a specification with build(shape, outputs), such as MLP()",
        )
    named = isinstance(getattr(spec, "name", None), str) and hasattr(spec, "__pydantic_fields__")
    made = with_code({"model": _table(spec)}, model=[spec]) if named else {}
    return partial(build_model, spec, shape, outputs, dtype=dtype), made


def _as_it_is(model: Model, seed: int) -> Model:
    return model


def federation_of(config: Config, source: Any) -> tuple[Federation, Table]:
    """The federation of a configuration, and the table of the settings that it was made with."""
    federation, table = _clients(config, source)
    federation = federation.with_validation(config.validation, config.seed)
    if config.augment:
        new = replace(federation.new, augment=True) if federation.new else None
        federation = replace(federation, augment=True, new=new)
    facts = {"new_clients": config.new_clients, "validation": config.validation, "augment": config.augment}
    return federation, table | facts


def _clients(config: Config, source: Any) -> tuple[Federation, Table]:
    """A federation partitioned from a pool of samples, or one that the data come divided into."""
    if not hasattr(source, "pool"):
        own = hasattr(source, "clients")
        not_taken = {
            "partition": config.partition,
            "clients": 0 if own else config.clients,
            "new_data": config.new_data,
        }
        for name, given in not_taken.items():
            if given:
                raise UserError(f"{source.name} comes with its clients", where=name, given=given, fix="leave it out")
        source = replace(source, clients=config.clients) if own and config.clients else source
        federation = source.federation(config.seed).with_new_clients(config.new_clients, config.seed)
        return federation, with_code({"data": _table(source)}, data=[source])
    pool = source.pool(config.seed)
    named_key = isinstance(config.partition, str) and config.partition in pool.keys  # --partition writer
    lacks = getattr(source, "keys_need", {}).get(config.partition) if isinstance(config.partition, str) else None
    if lacks and not named_key:
        raise UserError(
            f"{source.name} was read without its {config.partition}s",
            where="partition",
            fix=f"they are in {lacks}: put them beside the images",
        )
    partition = Key(key=str(config.partition)) if named_key else parse_partition(config.partition or "iid")
    clients = config.clients or 20
    if isinstance(partition, Key):
        if config.clients:
            raise UserError(
                "the key decides how many clients there are", where="clients", given=config.clients, fix="leave it out"
            )
        clients = 0
    new_data = {"name": config.new_data} if isinstance(config.new_data, str) else config.new_data
    new_source = source_of(new_data) if config.new_data else None
    new_pool = new_source.pool(config.seed) if new_source else None
    own = new_pool is None or isinstance(partition, ClassSplit)  # new clients of the same data, or of the partition
    new = {} if own else {"new_clients": int(config.new_clients), "new_samples": config.new_samples}
    federation = federate(pool, partition, clients=clients, seed=config.seed, new_pool=new_pool, **new)
    if own:
        federation = federation.with_new_clients(config.new_clients, config.seed)
    table = {"data": _table(source), "partition": _table(partition), "clients": clients, "new_data": config.new_data}
    table |= {"new_samples": config.new_samples} if new else {}
    return federation, with_code(table, data=[source, *filter(None, [new_source])], partition=[partition])


def _named(known: Registry[type[Any]], table: Table, where: str) -> Any:
    values = getattr(Config(), where) | table
    return build(known.find(str(values.pop("name")), where), values, where=where)


def with_code(table: Table, **things: Iterable[Any]) -> Table:
    """The table of settings, with the import paths of those ``things`` whose classes are not part of this package."""
    code = code_of(**things)
    return merged(table, {"facts": {"code": code}}) if code else table


def _table(value: Any) -> Table:
    return placed({"name": value.name, **as_dict(value)})


def placed(table: Mapping[str, Any]) -> Table:
    """A table of settings in which the paths of existing files are absolute."""

    def found(value: str) -> str:
        place = Path(value).expanduser()
        return str(place.resolve()) if value and place.exists() else value

    return {k: found(v) if k in PLACES and isinstance(v, str) else v for k, v in table.items()}


def merged(table: Mapping[str, Any], flags: Mapping[str, Any]) -> Table:
    """``table`` updated with ``flags``, nested tables too. A new name drops the settings of the old one."""
    result = dict(table)
    for key, value in flags.items():
        below = result.get(key)
        if (
            isinstance(value, Mapping)
            and isinstance(below, Mapping)
            and value.get("name", below.get("name")) == below.get("name")
        ):
            result[key] = merged(below, value)
        else:
            result[key] = value
    return result
