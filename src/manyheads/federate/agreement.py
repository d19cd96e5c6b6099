"""What all sites of a study agree on before they train, from what each tells about its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.settings import settings
from manyheads.core.words import quoted
from manyheads.data.sites.cleaning import task_told
from manyheads.data.sites.kinds import Kind, kind_told
from manyheads.data.sites.source import Sites
from manyheads.data.sites.survey import Agreed, Survey
from manyheads.data.sites.units import FACTOR
from manyheads.data.sites.values import ordered
from manyheads.federate.told import TableTold

__all__ = ["Agreement", "agreed_by", "doubts_about"]


@settings
class Agreement:
    """The kinds of columns, the task and its classes."""

    label: str
    kinds: dict[str, Kind]
    task: str
    labels: tuple[str, ...] = ()
    orders: dict[str, dict[str, str]] = Field(default_factory=dict)
    """of columns of dates: the order of day and month at each site"""

    @property
    def agreed(self) -> Agreed:
        return Agreed(dict(self.kinds), self.task, self.labels)

    def survey(self, reading: Sites) -> Survey:
        """As of tables in one place, but without any."""
        roles = {"group": reading.group, "time": reading.time, "split": reading.split}
        return Survey(
            "the sites' tables",
            (),
            (),
            self.task,
            self.label,
            dict(self.kinds),
            dict(self.orders),
            self.labels,
            **roles,
        )


def agreed_by(reading: Sites, sites: Mapping[str, TableTold]) -> Agreement:
    """Decide as for tables in one place; an error if the sites' columns differ."""
    first = next(iter(sites.values()))
    for name, told in sites.items():
        lacks, more = (
            sorted(set(a) - set(b)) for a, b in ((first.columns, told.columns), (told.columns, first.columns))
        )
        if lacks or more or told.label != first.label:
            parts = [f"lacks {quoted(*lacks)}"] * bool(lacks) + [f"has {quoted(*more)} besides"] * bool(more)
            parts += [f"has the label {quoted(told.label)}"] * (told.label != first.label)
            raise UserError(
                f"site {quoted(name)} {' and '.join(parts)}, unlike {quoted(next(iter(sites)))}",
                fix="name the columns alike, or leave some out: ignore = [...] in [data] of study.toml",
            )
    kinds: dict[str, Kind] = {
        column: "category"
        if column in reading.categories
        else kind_told([told.columns[column].evidence for told in sites.values()])
        for column in first.columns
        if column != reading.time
    }
    task = task_told(reading, [told.target.evidence for told in sites.values()])
    labels = (
        ordered({label for told in sites.values() for label in told.target.counts}) if task == "classification" else ()
    )
    if task == "classification" and len(labels) < 2:
        raise UserError(
            f"the sites tell of {len(labels)} classes in {quoted(first.label)}",
            fix="a class needs min_count rows at some site; or name another label column in study.toml",
        )
    orders = {c: {s: told.columns[c].order for s, told in sites.items()} for c, kind in kinds.items() if kind == "date"}
    return Agreement(label=first.label, kinds=kinds, task=task, labels=labels, orders=orders)


def doubts_about(sites: Mapping[str, TableTold], agreement: Agreement) -> list[str]:
    """What may be a mistake: other units, columns without values, classes that one site alone has."""
    found = [f"{site}: {problem}" for site, told in sites.items() for problem in told.problems]
    for column, kind in agreement.kinds.items():
        own = {site: told.columns[column] for site, told in sites.items()}
        empty = [site for site, told in own.items() if told.missing == sites[site].rows]
        if empty and len(empty) < len(own):
            found.append(f"column {quoted(column)}: no value at {quoted(*empty)}; filled in from the other sites")
        if kind == "number":
            found += _units(column, {site: told.mean for site, told in own.items() if told.mean is not None})
    owners = Counter(label for told in sites.values() for label in told.target.counts)
    for site, told in sites.items() if agreement.task == "classification" and len(sites) > 1 else ():
        alone = [label for label in told.target.counts if owners[label] == 1]
        if alone:
            found.append(f"{site} alone has the label {quoted(*alone)}: the other sites cannot help to learn it")
        if len(told.target.counts) == 1:
            found.append(f"{site} has only the label {quoted(*told.target.counts)}")
    return found


def _units(column: str, means: Mapping[str, float]) -> list[str]:
    """Whether the means have one sign, and fall into groups of sites far apart in size."""
    if min(means.values(), default=0) <= 0 <= max(means.values(), default=0):
        return []
    return [
        f"column {quoted(column)}: the mean is {means[small]:.3g} at {small}, {means[large]:.3g} at {large}: other units?"
        for small, large in pairwise(sorted(means, key=lambda site: abs(means[site])))
        if abs(means[large]) > FACTOR * abs(means[small])
    ]
