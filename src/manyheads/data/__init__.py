"""Federations, partitioners and data sources."""

from manyheads.data.federation import Federation, Samples, Scaling
from manyheads.data.partitioners import (
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
from manyheads.data.sources import SOURCES, Digits, Pool, federate, source_named
from manyheads.data.synthetic import LinearTasks, Truth

__all__ = [
    "PARTITIONERS",
    "SOURCES",
    "Classes",
    "Digits",
    "Dirichlet",
    "Federation",
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
    "federate",
    "parse_partition",
    "partition",
    "source_named",
]
