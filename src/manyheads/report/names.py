"""How methods are written and drawn: one name, one colour and one stroke each, the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

from manyheads.experiments.methods import TUNED
from manyheads.experiments.results import ALONE

__all__ = ["Look", "display", "looks", "spoken"]

# Okabe and Ito's colours for all kinds of colour vision, orange and blue a little darker for white paper, and a brown.
BLUE, SKY, GREEN, ORANGE, RED, PURPLE, BROWN = (
    "#0072b2", "#4ba3d8", "#009e73", "#dc9600", "#d55e00", "#c06c9b", "#86603a",
)  # fmt: skip
GREY = "#7d828a"
SOLID, DOTTED, DASHED = (), (8, 3, 2, 3), (10, 5)
TUNED_STROKES = {SOLID: (5, 3), DOTTED: (2, 2), DASHED: (1, 4)}
"""what a stroke becomes when the method's models are fine-tuned"""

VARIANTS = ((14, 4), (4, 4), (12, 3, 3, 3, 3, 3), (14, 3, 4, 3))
"""strokes of one method's variants"""

_METHODS: dict[str, tuple[str, str, tuple[int, ...]]] = {
    ALONE: ("Training alone", GREY, DASHED),
    "fedavg": ("FedAvg", BLUE, SOLID),
    "fedprox": ("FedProx", SKY, SOLID),
    "scaffold": ("SCAFFOLD", SKY, DOTTED),
    "fedper": ("FedPer", ORANGE, SOLID),
    "fedrep": ("FedRep", RED, SOLID),
    "fedrep-linear": ("FedRep (linear)", RED, DOTTED),
    "lg-fedavg": ("LG-FedAvg", ORANGE, DOTTED),
    "perfedavg": ("Per-FedAvg", GREEN, SOLID),
    "l2gd": ("L2GD", GREEN, DOTTED),
    "ditto": ("Ditto", PURPLE, SOLID),
    "apfl": ("APFL", PURPLE, DOTTED),
    "local-sgd": ("Local SGD", BROWN, SOLID),
    "fedmtl": ("Fed-MTL", BROWN, DOTTED),
    "dsgd": ("D-SGD", BLUE, DOTTED),
}


class Look(NamedTuple):
    """How a method is drawn."""

    colour: str
    stroke: tuple[int, ...]


def display(name: str) -> str:
    """A method's label as people write it.

    >>> display("fedavg+ft"), display("fedrep(head_epochs=2)"), display("my-own")
    ('FedAvg + fine-tuning', 'FedRep (head_epochs=2)', 'my-own')
    """
    base = name.removesuffix(TUNED)
    algorithm, _, settings = base.partition("(")
    written = f"{_METHODS[algorithm][0]} ({settings}".removesuffix(" (") if algorithm in _METHODS else base
    return written if base == name else f"{written} + fine-tuning"


def looks(names: Iterable[str]) -> dict[str, Look]:
    """Of each method. A variant has its method's colour; methods that are not ours get what ours leave free, then what is there."""
    names = list(names)
    bases = list(dict.fromkeys(name.removesuffix(TUNED) for name in names))
    used = {_METHODS[base][1:] for base in bases if base in _METHODS}
    free = sorted(
        product((BLUE, GREEN, RED, PURPLE, ORANGE, SKY, BROWN), (SOLID, DOTTED)), key=lambda look: look in used
    )
    strangers = [base for base in bases if base.partition("(")[0] not in _METHODS]
    found = {}
    for name in names:
        base = name.removesuffix(TUNED)
        algorithm = base.partition("(")[0]
        if base in _METHODS:
            colour, stroke = _METHODS[base][1:]
        elif algorithm in _METHODS:
            variants = [other for other in bases if other.startswith(f"{algorithm}(")]
            colour, stroke = _METHODS[algorithm][1], VARIANTS[variants.index(base) % len(VARIANTS)]
        else:
            colour, stroke = free[strangers.index(base) % len(free)]
        found[name] = Look(colour, stroke if base == name else TUNED_STROKES.get(stroke, (2, 3)))
    return found


def spoken(text: str, names: Iterable[str]) -> str:
    """A sentence with the methods' names as people write them.

    >>> spoken("Federate, with fedavg+ft: better than fedavg.", ["local", "fedavg", "fedavg+ft"])
    'Federate, with FedAvg + fine-tuning: better than FedAvg.'
    """
    known = sorted((n for n in names if n != ALONE), key=len, reverse=True)
    if not known:
        return text
    pattern = rf"(?<![\w+-])({'|'.join(map(re.escape, known))})(?![\w+-])"
    return re.sub(pattern, lambda found: display(found[1]), text)
