"""Names and looks of methods."""

from __future__ import annotations

import itertools

import numpy as np

from manyheads.core.contract import ALGORITHMS
from manyheads.core.registry import is_ours
from manyheads.report.names import looks

SEEN = {  # Machado, Oliveira and Fernandes 2009, full strength, linear RGB
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
}  # fmt: skip
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    x = TO_XYZ @ rgb.clip(0, 1) / [0.9505, 1, 1.089]
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_every_method_has_a_look_of_its_own_for_all_kinds_of_colour_vision():
    methods = [name for name, kind in ALGORITHMS.items() if is_ours(kind)]
    methods += ["mine", "yours"]
    names = [*methods, *(f"{n}+ft" for n in methods)]
    found = looks(names)
    assert len(set(found.values())) == len(names)
    for (a, one), (b, other) in itertools.combinations(found.items(), 2):
        if one.stroke == other.stroke:
            for kind, seen in SEEN.items():
                distance = np.linalg.norm(lab(seen @ linear(one.colour)) - lab(seen @ linear(other.colour)))
                assert distance > 12, f"{a} and {b} look alike: {kind}, {distance:.0f}"


def test_a_method_looks_the_same_in_whatever_company():
    assert looks(["fedrep"])["fedrep"] == looks(["local", "my-own", "fedrep", "fedavg"])["fedrep"]
    strangers = looks(["fedavg", "mine", "yours", "fedrep"])
    assert len(set(strangers.values())) == 4


def test_variants_of_a_method_have_its_colour_and_strokes_of_their_own():
    found = looks(["fedavg", "fedrep", "fedrep(head_epochs=2)", "fedrep(head_epochs=3)", "fedrep(head_epochs=3)+ft"])
    assert len(set(found.values())) == 5
    assert len({look.colour for name, look in found.items() if name.startswith("fedrep")}) == 1
