"""Display name, colour and stroke of each method, the same in all charts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

from manyheads.experiments.methods import TUNED
from manyheads.experiments.results import ALONE, POOLED
from manyheads.report.words import MINUS

__all__ = ["Look", "display", "looks", "spoken"]

# The colour-blind safe palette of Okabe and Ito, with orange and sky blue a little darker for white paper, and a brown.
BLUE, SKY, GREEN, ORANGE, RED, PURPLE, BROWN = (
    "#0072b2", "#4ba3d8", "#009e73", "#dc9600", "#d55e00", "#c06c9b", "#86603a",
)  # fmt: skip
COLOURS = (BLUE, GREEN, RED, PURPLE, ORANGE, SKY, BROWN)
GREY = "#7d828a"
SOLID, DOTTED, DASHED, LONG, DOUBLE = (), (8, 3, 2, 3), (10, 5), (18, 4, 6, 4), (8, 2, 2, 2, 2, 2)
TUNED_STROKES = {SOLID: (5, 3), DOTTED: (2, 2), DASHED: (1, 4), LONG: (3, 6), DOUBLE: (6, 2, 2, 2)}
"""stroke of a method after fine-tuning, by the stroke of the method itself"""

VARIANTS = ((14, 4), (4, 4), (12, 3, 3, 3, 3, 3), (14, 3, 4, 3))
"""strokes of variants of one method, such as ``fedrep(head_epochs=2)``"""

_METHODS: dict[str, tuple[str, str, tuple[int, ...]]] = {
    ALONE: ("Best alone", GREY, SOLID),
    "majority": ("Majority or mean", GREY, (1, 3)),
    "linear": ("Linear model alone", GREY, (3, 3)),
    "trees": ("Boosted trees alone", GREY, (6, 2, 1, 2)),
    "local": ("Network alone", GREY, DASHED),
    POOLED: ("Pooled data", GREY, (12, 2, 2, 2)),
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
    "fedpac": ("FedPAC", RED, DOUBLE),
    "ifca": ("IFCA", BLUE, LONG),
    "fedbn": ("FedBN", SKY, LONG),
    "fedbabu": ("FedBABU", ORANGE, LONG),
    "fedrod": ("FedRoD", RED, LONG),
    "anil": ("ANIL", GREEN, LONG),
    "reptile": ("Reptile", GREEN, DOUBLE),
    "pfedme": ("pFedMe", PURPLE, LONG),
    "mr-mtl": ("MR-MTL", BROWN, LONG),
    "knn-per": ("kNN-Per", BLUE, DOUBLE),
}


class Look(NamedTuple):
    """Colour and dash pattern of a method's curve."""

    colour: str
    stroke: tuple[int, ...]


def display(name: str) -> str:
    """Return the display name of a method's label.

    >>> display("fedavg+ft"), display("fedrep(head_epochs=2)"), display("my-own")
    ('FedAvg + fine-tuning', 'FedRep (head_epochs=2)', 'my-own')
    """
    base = name.removesuffix(TUNED)
    algorithm, _, settings = base.partition("(")
    written = f"{_METHODS[algorithm][0]} ({settings}".removesuffix(" (") if algorithm in _METHODS else base
    return written if base == name else f"{written} + fine-tuning"


def looks(names: Iterable[str]) -> dict[str, Look]:
    """Return each method's look: variants keep their method's colour; user-defined methods get unused looks if any."""
    names = list(names)
    bases = list(dict.fromkeys(name.removesuffix(TUNED) for name in names))
    used = {_METHODS[base][1:] for base in bases if base in _METHODS}
    free = sorted(product(COLOURS, TUNED_STROKES), key=lambda look: look in used)
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
    """Return a sentence as the page writes it: display names for the labels of these methods, true minus signs.

    >>> spoken("With fedavg+ft -0.3 points, worse than fedavg; try --rounds 9.", ["fedavg", "fedavg+ft"])
    'With FedAvg + fine-tuning \N{MINUS SIGN}0.3 points, worse than FedAvg; try --rounds 9.'
    """
    text = re.sub(r"(?<![\w-])-(?=\d)", MINUS, text)
    known = sorted(names, key=len, reverse=True)
    if not known:
        return text
    pattern = rf"(?<![\w+-])({'|'.join(map(re.escape, known))})(?![\w+-])"
    return re.sub(pattern, lambda found: display(found[1]), text)
