"""The methods of a comparison: an algorithm, and whether its models are fine-tuned before they are scored."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, NamedTuple

from manyheads.core.contract import ALGORITHMS, Algorithm
from manyheads.core.errors import UserError
from manyheads.core.plain import to_json
from manyheads.core.settings import as_dict, build, changed, walk
from manyheads.experiments.candidates import Candidate

__all__ = ["LOCAL", "TUNED", "USUAL", "Given", "Method", "Methods", "methods_of", "written"]

TUNED, ALL = "+ft", "all"
LOCAL = "local"
"""label of the network that each client trains alone; a comparison always has it"""
USUAL = (LOCAL, "fedavg", "fedavg+ft", "fedprox", "scaffold", "fedper", "fedrep", "perfedavg", "ditto", "apfl")
_OPTIONS: dict[str, dict[str, Any]] = {"scaffold": {"server_lr": 1.0}}
"""settings that differ from a method's defaults: SCAFFOLD's server step size as in its paper"""
Options = Mapping[str, Mapping[str, Any]]
Given = str | Algorithm | type[Algorithm]
"""a method: its name (NAME+ft: after fine-tuning), an algorithm with its settings, or its class"""
Methods = Iterable[Given | tuple[str, Given] | Mapping[str, Given]] | Mapping[str, Given]
"""several methods, with or without labels"""


@dataclass(frozen=True)
class Method:
    """A method of a comparison: an algorithm with a label."""

    label: str
    algorithm: Algorithm
    finetuned: bool
    asked: bool = True
    """False if only ``all`` implied it; it is then left out if it does not fit the model or the data"""
    yardstick: bool = False
    """whether it is the training alone by which the others are measured"""

    def at(self, candidate: Candidate, population: int) -> Algorithm:
        """Return the algorithm with the step size and the settings of a candidate."""
        rate = candidate.rate
        sizes = {} if rate is None else self.algorithm.step_sizes(rate, population)
        return changed(self.algorithm, sizes | dict(candidate.knobs))

    def has_rate(self, population: int) -> bool:
        """Whether the algorithm declares a step size to tune."""
        return bool(self.algorithm.step_sizes(1.0, population))

    def candidates(self, rates: Sequence[float], population: int) -> tuple[Candidate, ...]:
        """Return one candidate for each step size; only one, with its own, if there is no step size to tune."""
        return tuple(map(Candidate, rates)) if self.has_rate(population) else (Candidate(None),)


def methods_of(given: Methods, batch: int | None = None, options: Options | None = None) -> dict[str, Method]:
    """Return the methods by label, training alone first.

    ``all`` stands for every registered algorithm, and FedAvg with fine-tuning. ``batch`` and ``options`` (by name) are
    for methods given by name or class; an algorithm object keeps its own settings. A pair, or an entry of a mapping,
    gives a method a label; the default is the algorithm's name, with its settings where several have the same name.

    >>> from manyheads.algorithms import FedRep
    >>> list(methods_of(["fedrep", FedRep(head_epochs=2), ("mine", FedRep(head_epochs=3))]))
    ['local', 'fedrep', 'fedrep(head_epochs=2)', 'mine']
    """
    make = _Maker(batch, options or {})
    asked = [make(item) for item in _items(given)]
    if not any(a.yardstick for a in asked):
        asked.append(make(_Item(None, LOCAL)))
    make.refuse_unused()
    if any(a.algorithm.alone and a.finetuned for a in asked):
        raise UserError(
            "training alone is trained to its end already",
            where="methods",
            given=LOCAL + TUNED,
            fix=f"leave it out; {LOCAL} is always compared",
        )
    first = next(a for a in asked if a.yardstick)
    variants: dict[str, set[str]] = {}
    for each in asked:
        if each.label is None and each is not first:
            variants.setdefault(each.algorithm.name, set()).add(each.key)
    found: dict[str, Method] = {}
    for each in [first, *asked]:
        alone = variants.get(each.algorithm.name, set()) <= {each.key}
        label = LOCAL if each.same(first) else each.label or _label(each, told_apart=not alone)
        if label in found and not each.same(_Asked(None, found[label].algorithm, found[label].finetuned)):
            raise UserError(
                f"two methods are called {label}", where="methods", fix='give one a label: {"my label": METHOD}'
            )
        found.setdefault(label, Method(label, each.algorithm, each.finetuned, each.asked, yardstick=each.same(first)))
    return found


class _Item(NamedTuple):
    """A method as the user gave it: a name, an algorithm or a class."""

    label: str | None
    thing: Given
    asked: bool = True


class _Asked(NamedTuple):
    """A method with its algorithm built."""

    label: str | None
    algorithm: Algorithm
    finetuned: bool
    asked: bool = True

    @property
    def key(self) -> str:
        """Identity of the algorithm: its class and settings except the step size, which is tuned."""
        tuned = changed(self.algorithm, self.algorithm.step_sizes(0.1, 2))
        return f"{type(tuned)} {to_json(as_dict(tuned))}"

    @property
    def yardstick(self) -> bool:
        return self.algorithm.alone and not self.finetuned and self.label in (None, LOCAL)

    def same(self, other: _Asked) -> bool:
        return (self.key, self.finetuned) == (other.key, other.finetuned)


def _items(given: Any) -> Iterator[_Item]:
    """Yield every method with its label, if it has one."""
    several: Iterable[Any] = [given] if isinstance(given, str | Mapping) else given
    for entry in several:
        if isinstance(entry, Mapping):
            yield from (_Item(*pair) for pair in entry.items())
        elif entry == ALL:
            yield from (_Item(None, name, asked=False) for name in (*USUAL, *ALGORITHMS.usable(warnings.warn)))
        elif isinstance(entry, tuple) and len(entry) == 2:
            yield _Item(*entry)
        else:
            yield _Item(None, entry)


class _Maker:
    """Builds algorithms from names and classes, and remembers which options were used."""

    def __init__(self, batch: int | None, options: Options) -> None:
        self.batch, self.options, self.used = batch, options, set[str]()

    def __call__(self, item: _Item) -> _Asked:
        label, thing, asked = item
        tuned = isinstance(label, str) and label.endswith(TUNED)
        if isinstance(thing, str):
            base = thing.removesuffix(TUNED)
            return _Asked(
                label, self._made(ALGORITHMS.find(base, where="methods"), base), tuned or base != thing, asked
            )
        if isinstance(thing, type) and issubclass(thing, Algorithm):
            return _Asked(label, self._made(thing, thing.name), tuned, asked)
        if not isinstance(thing, Algorithm):
            raise UserError(
                "not a method", where="methods", given=thing, allowed="a name, an algorithm such as FedRep(), its class"
            )
        return _Asked(label, thing, tuned, asked)

    def _made(self, cls: type[Algorithm], name: str) -> Algorithm:
        self.used |= {name, cls.name}
        given = _OPTIONS.get(name, {}) | {k: v for n in {name, cls.name} for k, v in self.options.get(n, {}).items()}
        if self.batch is not None and "batch" in cls.__dataclass_fields__:  # type: ignore[attr-defined]
            given = {"batch": self.batch} | given
        return build(cls, given, where=f"options.{name}")

    def refuse_unused(self) -> None:
        for name in self.options:
            if name not in self.used:
                raise UserError("settings for a method that is not compared", where="options", given=name)


def _label(method: _Asked, told_apart: bool) -> str:
    """Return the algorithm's name, followed by its non-default settings if ``told_apart``."""
    told = ""
    if told_apart:
        defaults = _usual(method.algorithm, _OPTIONS.get(method.algorithm.name))
        usual = {".".join(setting.path): setting.default for setting in walk(type(defaults), defaults=defaults)}
        own = _flat(as_dict(method.algorithm))
        told = ", ".join(f"{path}={value}" for path, value in own if usual.get(path) != value)
    return method.algorithm.name + (f"({told})" if told else "") + (TUNED if method.finetuned else "")


def _usual(algorithm: Algorithm, options: Mapping[str, Any] | None = None) -> Algorithm:
    """Return the algorithm with default settings; fields without a default keep their values."""
    own = {f.name: getattr(algorithm, f.name) for f in fields(algorithm)}  # type: ignore[arg-type]
    needed = {f.name for f in fields(algorithm) if f.default is MISSING and f.default_factory is MISSING}  # type: ignore[arg-type]
    return type(algorithm)(**{k: own[k] for k in needed}, **(options or {}))


def _flat(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def written(method: Any) -> str:
    """Return a method, or a list or mapping of methods, as Python source, without settings at their defaults.

    >>> from manyheads.algorithms import FedRep
    >>> written(["fedavg", FedRep(head_epochs=2)])
    "['fedavg', FedRep(head_epochs=2)]"
    """
    if isinstance(method, Mapping):
        return "{" + ", ".join(f"{label!r}: {written(each)}" for label, each in method.items()) + "}"
    if isinstance(method, list | tuple):
        inside = ", ".join(map(written, method))
        return f"[{inside}]" if isinstance(method, list) else f"({inside})"
    if isinstance(method, Algorithm):
        usual = _usual(method)
        own = {f.name: getattr(method, f.name) for f in fields(method)}  # type: ignore[arg-type]
        told = (f"{k}={v!r}" for k, v in own.items() if v != getattr(usual, k))
        return f"{type(method).__name__}({', '.join(told)})"
    return method.__name__ if isinstance(method, type) else repr(method)
