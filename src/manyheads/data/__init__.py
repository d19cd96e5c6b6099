"""Federations, and where they come from: published datasets, partitions, a user's own tables."""

from manyheads.data.encoding import Encoding, Scaling
from manyheads.data.federation import Federation
from manyheads.data.partitions.federate import class_split_federation, federate
from manyheads.data.partitions.partitioners import (
    PARTITIONERS,
    Classes,
    Dirichlet,
    Iid,
    Key,
    LogNormal,
    Mixture,
    Shards,
    parse_partition,
    partition,
)
from manyheads.data.partitions.recipes import ClassSplit, DirichletShares, Fallah, FemnistRecipe
from manyheads.data.pool import Pool
from manyheads.data.public.digits import Digits
from manyheads.data.samples import Samples
from manyheads.data.sources import SOURCES, name_of_path, source_of
from manyheads.data.synthetic import LinearTasks, Truth

__all__ = [
    "PARTITIONERS",
    "SOURCES",
    "ClassSplit",
    "Classes",
    "Digits",
    "Dirichlet",
    "DirichletShares",
    "Encoding",
    "Fallah",
    "Federation",
    "FemnistRecipe",
    "Iid",
    "Key",
    "LinearTasks",
    "LogNormal",
    "Mixture",
    "Pool",
    "Samples",
    "Scaling",
    "Shards",
    "Truth",
    "class_split_federation",
    "federate",
    "name_of_path",
    "parse_partition",
    "partition",
    "source_of",
]
